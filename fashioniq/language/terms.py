"""What the words and phrases of a language stand for in a catalog: its labels, by forms, synonyms and scales."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from fashioniq.data.languages import TYPES, Language
from fashioniq.language.colors import Palette
from fashioniq.language.grammar import Grammar
from fashioniq.language.tokens import keys_of, phrase_key

COLOR, GARMENT, LENGTH = "colour", "garment", "length"
PERSON, NAME = "person", "name"  # whom a product is for, and words that titles begin with, such as brands


class Term(NamedTuple):
    """What a word or phrase stands for. Without labels it is a free word."""

    labels: frozenset[str] = frozenset()
    family: str = ""
    instead: str = ""  # the label searched for instead of the word; "" if the word is a form of the label
    heard: bool = False  # only in captions, which have misspellings


FREE, HEARD = Term(), Term(heard=True)  # words of titles, and of captions


class Terms:
    """Terms by the keys of their words, filled in order of precedence: labels, forms, synonyms, scales, free words."""

    def __init__(
        self,
        counts: Mapping[tuple[int, str], int],
        speech: Language,
        rules: Grammar,
        stem: Callable[[str], str],
    ) -> None:
        """`counts` are the products of each list and label."""
        self._speech, self._rules, self.stem = speech, rules, stem
        self.count: Counter[str] = Counter()
        kinds: dict[str, tuple[int, int]] = {}
        for (kind, label), count in counts.items():
            self.count[label] += count
            kinds[label] = max(kinds.get(label, (0, 0)), (count, kind))
        self.palette = Palette(rules, stem)
        self._head_of: dict[str, str] = {}  # first word of the line of a synonym
        self._named: dict[str, str] = {}  # family of a synonym
        for family, lines in rules.synonyms.items():
            for words, terms in lines:
                for word in (*words[:1], *terms):
                    self._named.setdefault(phrase_key(word), family)
                    self._head_of.setdefault(phrase_key(word), words[0])
        for family, lines in rules.synonyms.items():  # words that are no terms of any line, such as "regular"
            for words, _ in lines:
                for word in words[1:]:
                    self._named.setdefault(phrase_key(word), family)
                    self._head_of.setdefault(phrase_key(word), words[0])
        self.family_of = {label: self._family(label, kind) for label, (_, kind) in kinds.items()}
        self.palette.fill(label for label, family in self.family_of.items() if family == COLOR)
        self.of: dict[str, Term] = {}
        self.spelled: dict[str, str] = {}  # how a key is written
        self._fill()
        self.levels = self._find_levels()
        self._fill_scales()

    def frequent(self, labels: Iterable[str]) -> str:
        """The most frequent of some labels, the first by name among equals; "" of none."""
        return min(labels, key=lambda label: (-self.count[label], label), default="")

    def add(self, phrase: str, term: Term) -> None:
        """Add a phrase unless it is there."""
        key = phrase_key(phrase)
        if key and key not in self.of:
            self.of[key] = term
            self.spelled[key] = phrase

    def spelled_as(self, key: str) -> str:
        """How a key is written, such as "polka dot" for "polkadot"."""
        return self.spelled.get(key, key)

    def known_family(self, key: str) -> str:
        """Family of a word of the language, in the catalog or not, or ""."""
        word = self._speech.word_of.get(key)
        return self._speech.group_of[word].family if word is not None else self._named.get(key, "")

    def _word(self, label: str) -> str:
        """The word of phrases/ that a label is a form of, or else its key."""
        key = phrase_key(label)
        return self._speech.word_of.get("".join(label.replace("-", " ").split())) or self._speech.word_of.get(
            key, key
        )

    def _family(self, label: str, kind: int) -> str:
        group = self._speech.group_of.get(self._word(label))
        if group is not None:
            return group.family
        family = self._named.get(phrase_key(label))
        if family is not None:
            return family
        if kind == TYPES["texture"] and self.palette.named(label.split()) is not None:
            return COLOR
        return self._speech.other[kind].family

    def _fill(self) -> None:
        by_word: dict[str, set[str]] = {}
        for label in sorted(self.count):
            by_word.setdefault(self._word(label), set()).add(label)
        for label in sorted(self.count, key=lambda label: (-self.count[label], label)):
            self.add(label, Term(frozenset(by_word[self._word(label)]), self.family_of[label]))
        for word, forms in self._speech.forms_of.items():
            if word in by_word:
                labels = frozenset(by_word[word])
                for form in forms:
                    self.add(form, Term(labels, self.family_of[self.frequent(labels)]))
        heads: dict[str, set[str]] = {}
        for label in self.palette.colors:
            *_, head = label.split() if " " in label else ("", self.palette.shaded(phrase_key(label)))
            heads.setdefault(head, set()).add(label)
        for head, found in heads.items():  # blue stands for light blue and navy blue if there is no blue
            for form in (head, *self._speech.forms_of.get(self._word(head), ())):
                self.add(form, Term(frozenset(found), COLOR))
        stemmed = {self.stemmed(keys_of(self.spelled[key])) for key in self.of}
        for family, lines in self._rules.synonyms.items():
            for meant, terms in lines:
                self._add_line(
                    family, meant, [term for term in terms if self.stemmed(keys_of(term)) not in stemmed]
                )
        for meant, _ in self._rules.synonyms.get(COLOR, ()):  # fuchsia is nearer to violet than to pink
            self._add_line(COLOR, meant, meant[1:])

    def stemmed(self, words: Iterable[str]) -> str:
        """Stems of words, as they are looked up."""
        return " ".join(map(self.stem, words))

    def _add_line(self, family: str, meant: Sequence[str], terms: Sequence[str]) -> None:
        """Terms of a line stand for its first word that is a label, or else for another term that is one."""
        found = next((self.of[phrase_key(word)] for word in meant if self._is_label(word)), None) or next(
            (self.of[phrase_key(term)] for term in terms if self._is_label(term, family)), None
        )
        if found is not None:
            for word in (*self._speech.forms_of.get(meant[0], meant[:1]), *terms):
                self.add(word, self._instead(word, found))

    def _instead(self, word: str, found: Term) -> Term:
        """The term of a synonym; of several colors, the nearest one."""
        if found.family == COLOR and len(found.labels) > 1:
            label = self.palette.among(self.palette.named(word.split()), found.labels)
            if label:
                return Term(frozenset([label]), COLOR, label)
        return Term(found.labels, found.family, self.frequent(found.labels))

    def _is_label(self, word: str, family: str = "") -> bool:
        term = self.of.get(phrase_key(word))
        return term is not None and not term.instead and family in ("", term.family)

    def _find_levels(self) -> dict[str, tuple[frozenset[str], ...]]:
        """Labels of the catalog on each scale, increasing; levels without labels are left out."""
        place = {
            (family, word): number
            for family, scale in self._speech.scales.items()
            for number, level in enumerate(scale.levels)
            for word in level
        }
        found: dict[str, dict[int, set[str]]] = {}
        for label in self.count:
            family, word = self.family_of[label], self._word(label)
            number = place.get((family, word), place.get((family, self._head_of.get(phrase_key(label), ""))))
            if number is not None:
                found.setdefault(family, {}).setdefault(number, set()).add(label)
        self._by_number = found
        return {
            family: tuple(frozenset(levels[number]) for number in sorted(levels))
            for family, levels in found.items()
        }

    def _fill_scales(self) -> None:
        """A word of a scale that nothing else explains stands for the labels of its level."""
        for family, scale in self._speech.scales.items():
            for number, level in enumerate(scale.levels):
                labels = frozenset(self._by_number.get(family, {}).get(number, ()))
                if labels and family != COLOR:
                    for word in sorted(level):
                        for form in self._speech.forms_of.get(word, [word]):
                            self.add(form, Term(labels, family, self.frequent(labels)))
