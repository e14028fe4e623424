"""Result of the gate, as it is written to gate.json."""

import msgspec


class MeasureComparison(msgspec.Struct, kw_only=True):
    """A measure of both models over `count` turns.

    Where the new one must be higher, also the 95 % interval of the difference, and p where there is a test.
    """

    name: str
    running: float
    new: float
    low: float | None = None
    high: float | None = None
    p: float | None = None
    count: int = 0
    passed: bool = False


class Verdict(msgspec.Struct, kw_only=True):
    """Result of the gate; `reasons` are the conditions that were not met, `notes` what limits the figures."""

    targets: int
    rows: list[MeasureComparison]
    reasons: list[str]
    notes: list[str] = []

    @property
    def passed(self) -> bool:
        """Whether the new model may replace the running one."""
        return not self.reasons

    @property
    def failed(self) -> bool:
        """Whether the new model may not replace it."""
        return not self.passed


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How conversations were chosen: for the model of `run`, with those from `cut` on for the test only.

    `left_out` are the numbers that each rule left out, `training_data` the id of those that `run` was trained on.
    """

    category: str
    run: str
    training_data: str | None = None
    cut: str | None
    left_out: dict[str, int]


class Gate(Verdict, kw_only=True):
    """gate.json. `sizes` are the conversations used, by split."""

    rule: Rule
    new_words: list[str]
    sizes: dict[str, int] = {}
