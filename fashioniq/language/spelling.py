"""Correction of misspelled words by the words of a catalog and a language."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from math import log10

from rapidfuzz.distance import OSA
from rapidfuzz.process import extract

from fashioniq.language.tokens import folded

_SHORTEST, _LONGEST = 4, 40  # shorter words stand for labels only, and longer ones stay as they are
_DECADE = 0.3  # edits that ten times as frequent a word makes up for
_VOWELS = frozenset("aeiouy")


@lru_cache
def words_said(code: str, rare: int) -> frozenset[str]:
    """Words of a language, folded, that films say more than `rare` times (OpenSubtitles); none of an unknown language.

    Words that are hardly said may be misspellings.
    """
    from spellchecker import SpellChecker  # takes 0.2 s

    if code not in SpellChecker.languages():
        return frozenset()
    counts = SpellChecker(language=code).word_frequency.dictionary
    return frozenset(folded(word) for word, count in counts.items() if count > rare)


class Speller:
    """Corrects words to nearby and frequent ones.

    A transposition of neighbors is one edit. Words of 4 or 5 letters are corrected by one edit, of 6 to 9 by two,
    longer ones by three, those of 2 or 3 letters to a label that has one letter more, or the same ones.
    """

    def __init__(
        self,
        frequency: Mapping[str, float],
        keyboard: Sequence[str],
        labels: Collection[str] = (),
        alike: Sequence[str] = (),
    ) -> None:
        """`frequency` has the words to correct to; `keyboard` are the rows of letters of a keyboard, and `alike`
        letters that sound alike.
        """
        self.frequency = {
            word: count for word, count in frequency.items() if len(word) >= _SHORTEST - 1 and count > 0
        }
        self._short = [word for word in labels if len(word) <= _SHORTEST and word in self.frequency]
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
        self._alike = {(one, other) for group in alike for one in group for other in group}

    def correct(self, word: str, most: int | None = None, word_itself: bool = True) -> str | None:
        """Nearest other word, or None if there is none within `most` edits.

        What may be a `word_itself` is corrected by likely errors only.
        """
        if len(word) > _LONGEST or any(letter.isdigit() for letter in word):
            return None
        if len(word) < _SHORTEST:
            near = [] if word_itself else [other for other in self._short if _shortened(word, other)]
            return min(near, key=lambda other: (self._cost(word, other), other), default=None)
        most = min(edits(word), most) if most is not None else edits(word)
        near = [
            other
            for length in range(len(word) - most, len(word) + most + 1)
            for other, distance, _ in extract(
                word, self._of_length.get(length, ()), scorer=OSA.distance, score_cutoff=most, limit=None
            )
            if 0 < distance <= edits(other) and self._plausible(word, other, word_itself)
        ]
        return min(near, key=lambda other: (self._cost(word, other), other), default=None)

    def _plausible(self, word: str, other: str, word_itself: bool) -> bool:
        """Whether one is a misspelling of the other: short words are too often just other words."""
        if sorted(word) == sorted(other) or single(word) == single(other):
            return True
        shorter = min(len(word), len(other))
        if OSA.distance(word, other) > 1:
            return word[0] == other[0] and shorter > 6
        if len(word) == len(other) < 6:
            return not word_itself or self._slips(word, other, self._beside) > 0
        return len(word) == len(other) or shorter > 4 or word[0] == other[0]

    def _cost(self, word: str, other: str) -> float:
        """Edits weighted by how people misspell and type, and by the frequency of the word."""
        cost = float(OSA.distance(word, other))
        if single(word) == single(other):
            cost = min(cost, 0.5)  # a letter doubled, or not
        elif sorted(word) == sorted(other):
            cost -= 0.3
        elif len(word) == len(other):
            cost -= 0.4 * self._slips(word, other, self._beside) + 0.2 * self._slips(word, other, self._alike)
        if word[0] != other[0]:
            cost += 0.5
        return cost + _DECADE * log10(self._most / self.frequency[other])

    @staticmethod
    def _slips(word: str, other: str, pairs: Collection[tuple[str, str]]) -> int:
        return sum((a, b) in pairs for a, b in zip(word, other, strict=True) if a != b)


def _shortened(word: str, other: str) -> bool:
    """Whether a short word is another with its letters in another order, or without a vowel."""
    return sorted(word) == sorted(other) or (
        len(word) > 1
        and word[0] == other[0]
        and any(letter in _VOWELS and other[:at] + other[at + 1 :] == word for at, letter in enumerate(other))
    )


def edits(word: str) -> int:
    """Edits that a word of this length may have."""
    return 1 if len(word) < 6 else 2 if len(word) < 10 else 3


def single(word: str) -> str:
    """A word with doubled letters written once."""
    return "".join(letter for letter, _ in groupby(word))
