"""metrics.json of an evaluation.

The classes below define it for reading and writing: their fields are the keys, in this order, except that
the provenance comes last. A key with the default UNSET may be absent, as in files of earlier versions.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from fashioniq.data.facts import RoundFacts, SessionFacts, Text, TurnFacts
from fashioniq.files import UserError, read_json, typed
from fashioniq.provenance import Provenance

Measures = Mapping[str, int | float]  # by name, with the number of the turn if they are of one
SomeMeasures = Mapping[str, int | float | None]  # None where a measure is not defined


class Metrics(msgspec.Struct, kw_only=True):
    """Keys of every metrics.json."""

    PROTOCOL: ClassVar[str]
    UNIT: ClassVar[str] = ""  # of dialogs: turn or round
    protocol: str
    provenance: Provenance | UnsetType = UNSET

    @property
    def table(self) -> Sequence[SomeMeasures]:
        """Measures of dialogs after each turn or round."""
        return getattr(self, f"{self.UNIT}s", [])

    def plain(self) -> dict[str, Any]:
        """Content of metrics.json; the keys of `facts` take its place, also those of a system's own."""
        content: dict[str, Any] = {}
        for key, value in msgspec.to_builtins(self).items():
            content |= value if key == "facts" else {key: value}
        made = {"provenance": content.pop("provenance")} if "provenance" in content else {}
        return content | made


class Success(msgspec.Struct):
    """Share of dialogs that ranked their target first within some turns; turns until then, None without any."""

    within: int
    percent: float
    mean_turns: float | None


class TurnMetrics(Metrics, kw_only=True):
    """metrics.json of dialogs that refer to products."""

    PROTOCOL: ClassVar[str] = "Fashion IQ dialogs"
    UNIT: ClassVar[str] = "turn"
    gallery: int
    dialogs: int
    facts: TurnFacts = msgspec.field(default_factory=TurnFacts)
    turns: Sequence[Measures]
    average: Measures | UnsetType = UNSET
    success: Success | UnsetType = UNSET


class SessionMetrics(TurnMetrics, kw_only=True):
    """metrics.json of recorded sessions with the same number of turns; `clean` are the measures of the clean ones."""

    PROTOCOL: ClassVar[str] = "recorded sessions"
    facts: SessionFacts
    clean: dict[str, Any]


class RoundCosts(msgspec.Struct):
    """Costs of a round, means per dialog: words of the system's question and of the user's reply, pictures generated,
    those of them that failed, the shares of dialogs without a usable picture and with an unchanged prompt, and seconds
    of generation; the most memory of the GPU in GB until its end; and the share of the judged pictures found useful.
    """

    round: int
    words: float
    asked: float = 0.0
    pictures: float = 0.0
    failed: float = 0.0
    without_picture: float = 0.0
    unchanged: float = 0.0
    seconds: float = 0.0
    gpu_gb: float = 0.0
    useful: float | UnsetType = UNSET


class EarlyStop(msgspec.Struct):
    """Measures if dialogs ended after the first round that left the ten best products the same, and its mean number."""

    rounds: float
    measures: SomeMeasures


class RoundMetrics(Metrics, kw_only=True):
    """metrics.json of dialogs of questions and answers."""

    PROTOCOL: ClassVar[str] = "ChatIR"
    UNIT: ClassVar[str] = "round"
    name: str
    gallery: int
    dialogs: int
    facts: RoundFacts = msgspec.field(default_factory=RoundFacts)
    rounds: Sequence[SomeMeasures]
    BRI: float | None = None
    early_stop: EarlyStop | UnsetType = UNSET
    costs: list[RoundCosts] | UnsetType = UNSET

    def cost_table(self) -> list[list[str]]:
        """Header and rows of a table of the costs; columns in which no round has any are left out."""
        rows = self.costs or []
        shown = {name: places for name, places in COSTS.items() if any(_is_there(row, name) for row in rows)}
        cells = [[_decimal(getattr(row, name), places) for name, places in shown.items()] for row in rows]
        named = [name.replace("_", " ") for name in shown]
        return [["round", *named], *([str(row.round), *cell] for row, cell in zip(rows, cells, strict=True))]


class SingleTurnMetrics(Metrics, kw_only=True):
    """metrics.json of single-turn retrieval: a row for each category, with its measures, and their mean."""

    PROTOCOL: ClassVar[str] = "single-turn retrieval"
    data: str
    split: str
    gallery: str
    captions: str
    candidate: str
    rows: list[dict[str, Any]]
    mean: SomeMeasures


class MostFrequent(msgspec.Struct):
    """Most frequent caption of the training split, and how often it occurs."""

    caption: str
    times: int


class CaptionMetrics(Metrics, kw_only=True):
    """metrics.json of a captioner, or of people only; a row of scores for each system and set of references.

    `speech` has a row each for the captioner and people: whether captions are true, informative and diverse.
    """

    PROTOCOL: ClassVar[str] = "relative captions, scorers of the COCO caption tools"
    data: str
    category: str
    split: str
    pairs: int
    coverage_of_pairs: float
    captions: str
    fingerprint: str
    features: Text = UNSET
    pictures: Text = UNSET
    run: Text = UNSET
    attributes: bool | UnsetType = UNSET
    decoding: Text = UNSET
    tokeniser: str
    scale: str
    most_frequent: MostFrequent
    seed: int
    rows: list[dict[str, Any]]
    speech: list[dict[str, Any]] = []


class ChatSearchMetrics(Metrics, kw_only=True):
    """metrics.json of ChatSearch's sub-tasks t, i and m.

    A row has a method and "t R@1" … "m R@10", None where the method does not apply, and their mean. `rounds` are
    measures of conversations of one kind with the same number of rounds, `checks` those of the first method with the
    history of another conversation, without history, and with the targets exchanged, which must be at chance.
    `shows_picture` is the percentage of the conversations where the model shows a picture by itself. `differences`
    are tests of the first method against the others.
    """

    PROTOCOL: ClassVar[str] = "ChatSearch"
    data: str
    samples: dict[str, int]
    galleries: dict[str, int]
    coverage: float
    features: dict[str, Any]
    run: Text = UNSET
    encoder: Text = UNSET
    seed: int
    rows: list[dict[str, Any]]
    rounds: list[dict[str, Any]]
    checks: list[dict[str, Any]]
    shows_picture: dict[str, float]
    differences: list[dict[str, Any]]


class RequestMetrics(Metrics, kw_only=True):
    """requests.json: percent of the first results that obey a request, by kind.

    A row is a searcher, first that of the run, or a random order. It has a value for each kind in `requests`, which
    has their numbers, their mean, and `returned`, the percentage of the requests about a product that find it again.
    `families` are kinds with one label, by its family. `labelled` products are judged.
    """

    PROTOCOL: ClassVar[str] = "requests from labels"
    data: str
    category: str
    language: str
    gallery: int
    labelled: int
    fingerprint: str
    pictures: str
    run: Text = UNSET
    seed: int
    results: int
    requests: dict[str, int]
    rows: list[dict[str, Any]]
    families: list[dict[str, Any]] = []


class UserRow(msgspec.Struct):
    """Row of a table of users: a retriever, and for each column P and R@10 after the last turn."""

    retriever: str
    columns: dict[str, dict[str, float]]


# decimal places of RoundCosts in a table
COSTS = {"words": 1, "asked": 1, "pictures": 2, "failed": 2, "without_picture": 3}
COSTS |= {"unchanged": 3, "seconds": 2, "gpu_gb": 1, "useful": 2}


def _is_there(row: RoundCosts, name: str) -> bool:
    value = getattr(row, name)
    return value is not UNSET and (value != 0 or name == "useful")


def _decimal(number: float | UnsetType, places: int) -> str:
    return "–" if number is UNSET else f"{number:.{places}f}"


class UserTable(msgspec.Struct, kw_only=True):
    """users.json: the retriever by its users, in columns, then the baselines beside people's words.

    `users` are the users of each column, over which its figures are means, `galleries` the sizes of its
    gallery, and `true` the shares of what its users state that hold by the labels; `folders` have the results
    of each user or baseline. `headline` is the column with the lowest R@10. With `training_only`, the
    retriever was trained with every user of the table. `at_chance` are the columns whose P is no better than
    that of random rankings, `repetitive` the users who say one sentence in most turns.
    """

    category: str
    split: str
    headline: str
    training_only: bool
    users: dict[str, list[str]]
    galleries: dict[str, int]
    true: dict[str, float] = {}
    at_chance: list[str] = []
    repetitive: list[str] = []
    rows: list[UserRow]
    folders: dict[str, str]


KINDS: dict[str, type[Any]] = {
    kind.PROTOCOL: kind
    for kind in (
        TurnMetrics,
        SessionMetrics,
        RoundMetrics,
        SingleTurnMetrics,
        CaptionMetrics,
        ChatSearchMetrics,
        RequestMetrics,
    )
}
DialogMetrics = TurnMetrics | RoundMetrics
M = TypeVar("M", bound=Metrics)


def metrics_of(content: Mapping[str, Any], kind: type[M]) -> M:
    """Metrics with this content. Raises msgspec.ValidationError for a missing key or a wrong type."""
    return msgspec.convert(_grouped(content, kind), kind)


def _grouped(content: Mapping[str, Any], kind: type[Metrics]) -> dict[str, Any]:
    """The keys that a kind has, and the others under `facts`, which keeps those that it has."""
    known = set(kind.__struct_fields__)
    further = {key: value for key, value in content.items() if key not in known}
    return {**{key: value for key, value in content.items() if key in known}, "facts": further}


def read_metrics(path: Path, what: str, kind: type[M] | tuple[type[M], ...], repair: str) -> M:
    """Read a metrics.json of a kind, or of one of several; `Metrics` is any. `what` and `repair` are for errors.

    Raises UserError if it is missing, of another kind, lacks a key, or has a value of a wrong type.
    """
    content = read_json(path, what, dict)
    found = KINDS.get(str(content.get("protocol")))
    if found is None or not issubclass(found, kind):
        expected = ", ".join(name for name, one in KINDS.items() if issubclass(one, kind))
        raise UserError(f"expected {expected}, found {content.get('protocol')} in {path.parent}; {repair}")
    return typed(_grouped(content, found), found, path, repair)
