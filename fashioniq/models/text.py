"""Retrievers of question dialogs: a text encoder over all rounds, recorded queries, or none."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from fashioniq.data.dialogues import Round, each, join_rounds
from fashioniq.loop.messages import Turn

_JOIN = each(join_rounds)


class TextEncoder(Protocol):
    """Texts → vectors of unit length, N×`size`. Texts are truncated to `limit` tokens."""

    size: int
    limit: int

    def texts(self, texts: Sequence[str]) -> Tensor: ...

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before truncation."""
        ...


class TextRetriever:
    """Questions and answers → query: the texts that `write` makes of the dialogs, by default joined by commas."""

    def __init__(
        self,
        encoder: TextEncoder,
        write: Callable[[Sequence[Sequence[Round]]], list[str]] = _JOIN,
    ) -> None:
        self.encoder, self.write = encoder, write

    def start(self, batch: int) -> list[tuple[Round, ...]]:
        """Return `batch` dialogs without rounds."""
        return [()] * batch

    def step(self, state: list[tuple[Round, ...]], turn: Turn) -> tuple[Tensor, list[tuple[Round, ...]]]:
        """Return the query after one more round, B×D, and the rounds so far."""
        state = [(*rounds, text) for rounds, text in zip(state, turn.rounds, strict=True)]
        return self.encoder.texts(self.write(state)), state


class RecordedQueries:
    """Precomputed queries for one batch of dialogs, B×T×D, of unit length."""

    def __init__(self, query_BTD: Tensor) -> None:
        self.query_BTD = query_BTD

    def start(self, batch: int) -> int:
        """Return 0, the number of turns so far."""
        return 0

    def step(self, state: int, turn: Turn) -> tuple[Tensor, int]:
        """Return the query of the turn, B×D."""
        return self.query_BTD[:, state], state + 1


class NoSearch:
    """Retriever without queries, for dialogs that are only recorded."""

    def start(self, batch: int) -> Tensor:
        """Return an empty query for each dialog, B×0."""
        return torch.zeros(batch, 0)

    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return empty queries, B×0."""
        return state, state
