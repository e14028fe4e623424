"""What captions state about two products, and whether it is true by their labels."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache

from fashioniq.data.attributes import Labels
from fashioniq.data.catalog import Catalog
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader
from fashioniq.language.terms import COLOR
from fashioniq.language.wishes import Wish

_TASTE = ("style", "occasion")  # families about which labels and people may differ


class StatementCheck:
    """Which statements about products are false by their labels.

    A caption is read as a shopper's request is, so that another name of a label states it, too: "zigzags" for chevron.
    What it asserts holds if the target has any of the labels, what it denies if the candidate has one and the target
    none, and a comparison, such as "longer", if the target's label lies on that side of the candidate's. Nothing is
    counted that labels cannot decide: matters of taste, comparisons of colors, and what is said of products without
    labels, or in comparisons, without one on the scale.
    """

    def __init__(self, labels: Mapping[str, Labels], code: str = "en") -> None:
        """Labels of products by id, and the language of labels and captions."""
        self.labels, self.code = labels, code
        self._words = {
            name: frozenset(word for words in lists for word in words) for name, lists in labels.items()
        }
        self._read = lru_cache(maxsize=100_000)(self._statements)

    @classmethod
    def of(cls, catalog: Catalog) -> StatementCheck | None:
        """The check for a catalog, None if no product has labels."""
        labelled = any(map(any, catalog.labels.values()))
        return cls(catalog.labels, catalog.language) if labelled else None

    def decided(self, caption: str, target: str, candidate: str, begun: bool = False) -> tuple[int, int]:
        """How many statements of a caption labels can decide, and how many of those are false; without its last words
        if it is only `begun`: "has short" may go on with sleeves.
        """
        wanted, shown = (self._words.get(name, frozenset()) for name in (target, candidate))
        wishes = [wish for wish in self._read(caption) if not (begun and wish.place[1] == len(caption))]
        found = [self._false(wish, wanted, shown) for wish in wishes]
        return sum(false is not None for false in found), sum(false is True for false in found)

    @cached_property
    def _reader(self) -> Reader:
        return Reader(Lexicon.of(self.labels, (), (), self.code))

    @cached_property
    def _taste(self) -> frozenset[str]:
        return frozenset[str]().union(*map(self._reader.lexicon.of_family, _TASTE))

    def _statements(self, caption: str) -> list[Wish]:
        return [
            wish
            for wish in self._reader.read(caption).wishes
            if (wish.step or wish.labels) and wish.family not in _TASTE and not wish.labels & self._taste
        ]

    def _false(self, wish: Wish, wanted: frozenset[str], shown: frozenset[str]) -> bool | None:
        """Whether a statement is false; None if the labels of the target and the candidate do not tell."""
        if wish.step:
            one, other = (self._reader.lexicon.places(wish.family, labels) for labels in (wanted, shown))
            if not (one and other) or wish.family == COLOR:
                return None
            return (max(one) - max(other)) * wish.step <= 0
        if not wanted or (wish.denied and not shown):
            return None
        if wish.denied:
            return bool(wish.labels & wanted) or not wish.labels & shown
        return not wish.labels & wanted
