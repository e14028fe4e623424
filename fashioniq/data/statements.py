"""What captions state about two products, and whether it is true by their labels."""

import re
from collections.abc import Sequence
from functools import lru_cache

from fashioniq.data.attributes import OWN_WORDS, AttributeVocabulary, find_attributes

Labels = Sequence[Sequence[str]]  # the six lists of a product
_DENYING = ("instead of", "rather than", "is not", "has no", "not", "no", "without", "less")
_ASSERTING = ("and", "with", "is", "has", "but")
_PARTS = re.compile(rf"\b({'|'.join((*_DENYING, *_ASSERTING))})\b")


def stated_attributes(
    caption: str, vocabulary: AttributeVocabulary = OWN_WORDS
) -> tuple[list[str], list[str]]:
    """Attribute words that a caption asserts of the target, and those that it denies."""
    asserted: list[str] = []
    denied: list[str] = []
    denying = False
    for part in _PARTS.split(caption.lower()):
        if part in _DENYING:
            denying = True
        elif part in _ASSERTING:
            denying = False
        else:
            (denied if denying else asserted).extend(
                word for words in find_attributes(part, vocabulary) for word in words
            )
    return asserted, denied


class StatementCheck:
    """Which statements about products are false by their labels.

    An asserted attribute holds if the target has it, a denied one if the candidate has it and the target has
    not. Attributes that are no label of any product are not counted.
    """

    def __init__(self, products: Sequence[Labels]) -> None:
        self._labels = [frozenset(word for words in labels for word in words) for labels in products]
        self._known = frozenset[str]().union(*self._labels)
        self._of_caption = lru_cache(maxsize=100_000)(self._parse)

    def false(self, caption: str, target: int, candidate: int) -> int:
        """Number of false statements in a caption of two products."""
        asserted, denied = self._of_caption(caption)
        wanted, shown = self._labels[target], self._labels[candidate]
        return (
            len(asserted)
            + len(denied)
            - sum(word in wanted for word in asserted)
            - sum(word in shown and word not in wanted for word in denied)
        )

    def stated(self, caption: str) -> int:
        """Number of statements in a caption that labels can decide."""
        return sum(map(len, self._of_caption(caption)))

    def _parse(self, caption: str) -> tuple[list[str], list[str]]:
        asserted, denied = stated_attributes(caption)
        return [word for word in asserted if word in self._known], [
            word for word in denied if word in self._known
        ]
