"""Correction of misspelled words by the words of a catalog and a language."""

from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from math import log10

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

_SHORTEST, _LONGEST = 4, 40  # shorter and longer words stay as they are
_DECADE = 0.3  # edits that ten times as frequent a word makes up for


class Speller:
    """Corrects words to nearby and frequent ones.

    A transposition of neighbors is one edit. Words of 4 or 5 letters are corrected by one edit, of 6 to 9 by two,
    longer ones by three.
    """

    def __init__(self, frequency: Mapping[str, float], keyboard: Sequence[str]) -> None:
        """`frequency` has the words to correct to; `keyboard` are the rows of letters of a keyboard."""
        self.frequency = {
            word: count for word, count in frequency.items() if len(word) >= _SHORTEST - 1 and count > 0
        }
        self._most = max(self.frequency.values(), default=1.0)
        self._of_length: dict[int, list[str]] = {}
        for word in self.frequency:
            self._of_length.setdefault(len(word), []).append(word)
        self._beside = {pair for row in keyboard for one in pairwise(row) for pair in (one, one[::-1])}
        self._beside |= {
            pair
            for upper, lower in pairwise(keyboard)
            for at, letter in enumerate(lower)
            for other in upper[at : at + 2]
            for pair in ((letter, other), (other, letter))
        }

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
        near = [other for other in near if self._plausible(word, other)]
        return min(near, key=lambda other: (self._cost(word, other), other), default=None)

    def _plausible(self, word: str, other: str) -> bool:
        """Whether one is a misspelling of the other: short words are too often just other words."""
        if sorted(word) == sorted(other) or single(word) == single(other):
            return True
        shorter = min(len(word), len(other))
        if OSA.distance(word, other) > 1:
            return word[0] == other[0] and shorter > 6
        if len(word) == len(other) < 6:
            return all((a, b) in self._beside for a, b in zip(word, other, strict=True) if a != b)
        return len(word) == len(other) or shorter > 4 or word[0] == other[0]

    def _cost(self, word: str, other: str) -> float:
        """Edits weighted by how people misspell and type, and by the frequency of the word."""
        cost = float(OSA.distance(word, other))
        if single(word) == single(other):
            cost = min(cost, 0.5)  # a letter doubled, or not
        elif sorted(word) == sorted(other):
            cost -= 0.3
        elif len(word) == len(other):
            slips = sum((a, b) in self._beside for a, b in zip(word, other, strict=True) if a != b)
            cost -= 0.4 * slips
        if word[0] != other[0]:
            cost += 0.5
        return cost + _DECADE * log10(self._most / self.frequency[other])


def edits(word: str) -> int:
    """Edits that a word of this length may have."""
    return 1 if len(word) < 6 else 2 if len(word) < 10 else 3


def single(word: str) -> str:
    """A word with doubled letters written once."""
    return "".join(letter for letter, _ in groupby(word))
