"""What is meant by a word of a request that the words of a catalog do not explain: corrected, or split."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fashioniq.data.languages import Language, language
from fashioniq.language.grammar import Grammar, split
from fashioniq.language.spelling import Speller, single, words_said
from fashioniq.language.terms import GARMENT, Term, Terms
from fashioniq.language.tokens import keys_of, phrase_key

_HEAD = 4  # letters of a garment that an unknown compound ends with, and of what is before it
_SLIPS = 3  # how much more frequent the word must be that a rare word is corrected to
_CAPTIONS, _KNOWN = (
    10_000,
    5,
)  # assumed counts of the most frequent word of captions, and of words of the language


class Corrections:
    """Corrections of words by those of a catalog, of captions and of a language."""

    def __init__(
        self,
        terms: Terms,
        stems: Mapping[str, Term],
        rules: Grammar,
        titles: Mapping[str, int],
        words: Sequence[str],
    ) -> None:
        self._terms, self._stems, self._rules = terms, stems, rules
        prices = (phrase for name in ("cheaper", "dearer") for phrase in split(rules.offers[name]))
        self._prices = frozenset(phrase_key(word) for word in prices if " " not in word)
        self._language = _words_of(language(rules.code), rules).union(self._prices)
        labels = {word for label in terms.count for word in keys_of(label)}.union(rules.nouns)
        self._speller = Speller(self._frequency(titles, words), rules.keyboard, labels, rules.alike)
        self.guess = lru_cache(maxsize=2_000)(self._guess)
        self.slip = lru_cache(maxsize=2_000)(self._slip)
        self.parts = lru_cache(maxsize=2_000)(self._parts)

    def _guess(self, key: str) -> tuple[str, ...] | None:
        """Words that are meant by an unknown one: corrected, or split. None if none is."""
        if key in self._language:
            return self._headed(key)
        for suffix in self._rules.without:
            base = key.removesuffix(single(suffix))
            if base != key and (one := self._meant(base + suffix, 1)) and one.endswith(suffix):
                return (self._terms.spelled_as(one),)  # "sleevles" are no sleeves
        near = self._meant(key, 1)
        if near is None and (parts := self._parts(key)) is not None:
            return parts
        if near is None and (parts := self._headed(key)) is not None:
            return parts
        near = near or self._meant(key, None)
        return None if near is None else self.slip(near) or (self._terms.spelled_as(near),)

    def _meant(self, key: str, most: int | None) -> str | None:
        """A correction: other words than labels and those of the language only with the same first letter."""
        itself = self._is_word(key)
        near = self._speller.correct(key, most, itself)
        if itself and near is not None and single(near) != single(key):
            return None
        term = self._stems.get(self._terms.stem(near)) if near is not None else None
        if near is None or self._whole(near) or (term is not None and term.labels):
            return near
        return near if near[0] == key[0] and self._speller.correct(key, 1, itself) == near else None

    def _is_word(self, key: str) -> bool:
        """Whether the language has a word, about garments or not."""
        return key in self._language or key in words_said(self._rules.code, self._rules.rare)

    def _slip(self, key: str) -> tuple[str, ...] | None:
        """The word that is probably meant by a rare word of captions or titles, which have misspellings, or None.

        That is a much more frequent word with the same first letter one edit away, which is not a form of it.
        """
        near = self._speller.correct(key, 1 if len(key) < 8 else 2) if len(key) > 3 else None
        if (
            near is None
            or self._is_word(key)
            or near[0] != key[0]
            or self._terms.stem(near) == self._terms.stem(key)
            or near in self._prices  # "expressive"
        ):
            return None
        often = self._speller.frequency
        if len(near) == len(key) < 6 and sorted(near) != sorted(key):
            return None  # "blank" is not black
        slips = 1 if single(near) == single(key) else _SLIPS
        return (self._terms.spelled_as(near),) if often[near] > slips * often.get(key, 0) else None

    def _parts(self, key: str) -> tuple[str, ...] | None:
        """The parts of words that were written together, such as "longand", or of a compound."""
        for at in range(len(key) - 3, 2, -1):
            if not self._whole(key[at:]):
                continue
            for link in ("", *self._rules.links):
                one = key[:at].removesuffix(link)
                one = self._rules.first_parts.get(one, one) if len(one) == at - len(link) else ""
                if len(one) >= 3 and self._whole(one):
                    return (self._terms.spelled_as(one), self._terms.spelled_as(key[at:]))
        return None

    def _headed(self, key: str) -> tuple[str, ...] | None:
        """An unknown word and the garment that a compound ends with: "Sommerbluse"."""
        known = self._rules.links and key not in self._rules.unlike_head
        for at in range(_HEAD, len(key) - _HEAD + 1) if known else ():
            term = self._terms.of.get(key[at:]) or self._stems.get(self._terms.stem(key[at:]))
            garment = term is not None and term.labels and term.family == GARMENT
            if garment and key[at:] not in self._rules.parts:
                return (key[:at], self._terms.spelled_as(key[at:]))
        return None

    def _whole(self, key: str) -> bool:
        term = self._terms.of.get(key)
        if term is None and self._rules.links:
            term = self._stems.get(self._terms.stem(key))
        rules = self._rules
        return bool(term is not None and term.labels) or any(
            key in words for words in (rules.roles, rules.nouns, rules.steps)
        )

    def _frequency(self, titles: Mapping[str, int], words: Sequence[str]) -> dict[str, float]:
        """About how often each word occurs: counts of labels and titles, and the order of the words of captions."""
        often: dict[str, float] = defaultdict(float)
        for place, word in enumerate(words):
            often[phrase_key(word)] = max(often[phrase_key(word)], _CAPTIONS / (place + 1))
        for key, term in self._terms.of.items():
            count = sum(self._terms.count[label] for label in term.labels)
            often[key] = max(
                often[key], titles[key], _KNOWN * (2 if count else 0), 0 if term.instead else count
            )
            if count and key.isalpha() and self._terms.spelled[key].isalpha():
                for ending in (end for end in self._rules.inflections if not key.endswith(end)):
                    often.setdefault(key + ending, often[key])
        for key in (*self._rules.roles, *self._rules.steps, *self._rules.nouns, *self._prices):
            often[key] = max(often[key], _KNOWN)
        return often


def _words_of(speech: Language, rules: Grammar) -> frozenset[str]:
    """All words of a language's attributes, which are never misspelled."""
    phrases = [form for forms in speech.forms_of.values() for form in forms]
    phrases += [term for lines in rules.synonyms.values() for _, terms in lines for term in terms]
    return frozenset(word for phrase in phrases for word in (*keys_of(phrase), phrase_key(phrase)))
