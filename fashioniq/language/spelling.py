"""Correction of misspelled words by the words of a catalog and a language."""

from collections.abc import Mapping
from itertools import groupby

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

_SHORTEST, _LONGEST = 4, 40  # shorter and longer words stay as they are


class Speller:
    """Words with costs: of words equally near, the one of the least cost is taken.

    A transposition of neighbors is one edit. Words of 4 or 5 letters are corrected by one edit, of 6 to 9 by two,
    longer ones by three.
    """

    def __init__(self, cost_of: Mapping[str, float]) -> None:
        self._cost_of = {word: cost for word, cost in cost_of.items() if len(word) >= _SHORTEST - 1}
        self._of_length: dict[int, list[str]] = {}
        for word in self._cost_of:
            self._of_length.setdefault(len(word), []).append(word)

    def correct(self, word: str, most: int | None = None) -> str | None:
        """Nearest other word, or None if there is none within `most` edits."""
        if len(word) < _SHORTEST or len(word) > _LONGEST or any(letter.isdigit() for letter in word):
            return None
        most = min(edits(word), most) if most is not None else edits(word)
        near = [
            other
            for length in range(len(word) - most, len(word) + most + 1)
            for other, distance, _ in extract(
                word, self._of_length.get(length, ()), scorer=OSA.distance, score_cutoff=most, limit=None
            )
            if 0 < distance <= edits(other)
        ]
        return min(near, key=lambda other: (self.cost(word, other), other), default=None)

    def cost(self, word: str, other: str) -> float:
        """Edits weighted by how people misspell: doubled letters often, first letters seldom."""
        distance = float(OSA.distance(word, other))
        if _single(word) == _single(other):
            distance = min(distance, 0.6)
        elif sorted(word) == sorted(other):
            distance -= 0.3
        elif len(word) != len(other):
            distance -= 0.1
        if word[0] != other[0]:
            distance += 0.6
        if word[-1] != other[-1]:
            distance += 0.1
        return distance + self._cost_of[other]


def edits(word: str) -> int:
    """Edits that a word of this length may have."""
    return 1 if len(word) < 6 else 2 if len(word) < 10 else 3


def _single(word: str) -> str:
    """A word with doubled letters written once."""
    return "".join(letter for letter, _ in groupby(word))
