"""Attempts at conversations, and how many were kept or dropped."""

from collections import Counter
from typing import Annotated

import msgspec

from fashioniq.data.conversation_records import (
    ConversationSample,
)


class Attempt(msgspec.Struct):
    """Samples of one conversation."""

    number: int
    samples: list[ConversationSample]


class ConversationBatch(msgspec.Struct):
    """Conversations of a batch of attempts, and how many were dropped by each filter."""

    made: list[Attempt]
    dropped: dict[str, Annotated[int, msgspec.Meta(ge=0)]]
    tokens: dict[str, Annotated[int, msgspec.Meta(ge=0)]]


class Report:
    """Counts of all splits and lines, and the filters that need more than one batch.

    `failed` are the ids of samples that failed the review of people.
    """

    def __init__(self, failed: frozenset[str] = frozenset()) -> None:
        self.counts: dict[str, Counter[str]] = {}
        self.tokens: Counter[str] = Counter()
        self._failed, self._seen = failed, set[bytes]()

    def add(self, split: str, line: str, attempts: int, part: ConversationBatch) -> None:
        """Count a batch."""
        counts = self._of(split, line)
        counts["attempts"] += attempts
        counts.update(part.dropped)
        self.tokens.update(part.tokens)

    def accept(self, split: str, line: str, attempt: Attempt) -> bool:
        """Whether a conversation is new and did not fail the review; it is counted."""
        reason = "conversations made"
        texts = {sample.digest for sample in attempt.samples}
        if not self._failed.isdisjoint(sample.id for sample in attempt.samples):
            reason = "failed the review"
        elif not self._seen.isdisjoint(texts):
            reason = "duplicates of an earlier text, of both splits"
        self._seen |= texts
        self._of(split, line)[reason] += 1
        return reason == "conversations made"

    def reasons(self, split: str, line: str) -> str:
        """The most frequent reasons for which conversations were dropped."""
        dropped = Counter(
            {name: count for name, count in self._of(split, line).items() if name not in _NOT_DROPPED}
        )
        return ", ".join(f"{name}: {count:,}" for name, count in dropped.most_common(3))

    def _of(self, split: str, line: str) -> Counter[str]:
        return self.counts.setdefault(f"{split} {line}", Counter())


_NOT_DROPPED = {"attempts", "conversations made"}
