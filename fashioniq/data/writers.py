"""Writers of the words of conversations: what they are given, and what they return."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from fashioniq.data.differences import Described


@dataclass(frozen=True)
class DescribedProduct:
    """A product that conversations are about; `labels` are its six lists."""

    id: str
    caption: str
    labels: list[list[str]]

    @cached_property
    def described(self) -> Described:
        """Its labels by family."""
        return Described(self.labels)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of its labels."""
        return frozenset(word for words in self.labels for word in words)


class WrittenDialog(NamedTuple):
    """Texts of a dialog, the user's first and last, and the label words that the user asked for, if known."""

    texts: tuple[str, ...]
    said: frozenset[str] = frozenset()


class TwoRounds(NamedTuple):
    """A first request, the caption of a picture shown for it, and the second request.

    Without a second request, it is written once the picture is known. `said` is as in Dialog.
    """

    first: str
    caption: str
    second: str = ""
    said: frozenset[str] = frozenset()


class FeedbackPair(NamedTuple):
    """A product shown, the one wanted, and the label words that the user asked for before."""

    shown: DescribedProduct
    wanted: DescribedProduct
    said: frozenset[str] = frozenset()


class Writer(Protocol):
    """Writes texts in batches; one that could not be written is None. The same seed gives the same text."""

    name: str

    @property
    def tokens(self) -> Mapping[str, int]:
        """Tokens of prompts and answers so far, if a language model writes."""
        ...

    def dialogs(
        self, products: Sequence[DescribedProduct], seeds: Sequence[str]
    ) -> list[WrittenDialog | None]:
        """A dialog of several rounds that leads to each product."""
        ...

    def two_rounds(self, pairs: Sequence[FeedbackPair], seeds: Sequence[str]) -> list[TwoRounds | None]:
        """Two rounds that lead to the wanted product over another one, which may be like the one shown."""
        ...

    def requests(self, pairs: Sequence[FeedbackPair], seeds: Sequence[str]) -> list[str | None]:
        """What a user says who is shown one product and wants the other."""
        ...
