"""Words of one catalog in one language: which labels a word or phrase stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import NamedTuple

import snowballstemmer

from fashioniq.data.languages import TYPES, Language, language
from fashioniq.data.words import tokenize
from fashioniq.language.colors import Lab, nearest_color, with_colors
from fashioniq.language.grammar import Grammar, grammar
from fashioniq.language.spelling import Speller
from fashioniq.language.tokens import folded, key_of, keys_of

GARMENT = TYPES["garment"]
COLOR = "colour"
_COMMON = 0.5  # share of the products from which on a garment word says nothing
_TOGETHER = 0.25  # share of a label's products that have another from which on the two are no alternatives
_NEAR = 14.0  # color difference up to which another color is nearer to "dark red" than red is


class Term(NamedTuple):
    """What a word or phrase stands for. Without labels it is a free word."""

    labels: frozenset[str] = frozenset()
    family: str = ""
    instead: str = ""  # the label searched for instead of the word; "" if the word is a form of the label
    trusted: bool = True  # False for words of captions, which have misspellings


FREE, HEARD = Term(), Term(trusted=False)


class Lexicon:
    """Words of one catalog in one language."""

    def __init__(
        self,
        counts: Mapping[tuple[int, str], int],
        together: Mapping[tuple[str, str], int],
        products: int,
        titles: Collection[str],
        words: Sequence[str],
        code: str,
        nearest: Callable[[str], str | None] | None = None,
    ) -> None:
        """`counts` per list and label, and `together` per pair of labels, of the products; `titles` are words."""
        self.grammar: Grammar = grammar(code)
        self.speech: Language = language(code)
        self._stemmer = snowballstemmer.stemmer({"de": "german", "en": "english"}.get(code, "english"))
        self.stem = lru_cache(maxsize=50_000)(self._stemmer.stemWord)
        self._nearest = nearest
        self._together = together
        self._count: Counter[str] = Counter()
        kinds: dict[str, tuple[int, int]] = {}
        for (kind, label), count in counts.items():
            self._count[label] += count
            kinds[label] = max(kinds.get(label, (0, 0)), (count, kind))
        self._families = _families(self.grammar)
        self.family_of = {label: self._family(label, kind) for label, (_, kind) in kinds.items()}
        self.common = {  # garments that most of the products are
            label
            for label, count in self._count.items()
            if self.family_of[label] == "garment" and count > _COMMON * products
        }
        self._colors = with_colors(
            [label for label, family in self.family_of.items() if family == COLOR], self.grammar.colors
        )
        self._titles = {folded(word) for word in titles}
        self._terms: dict[str, Term] = {}
        self._spelled: dict[str, str] = {}  # how a key is written
        self._fill(words)
        self._stems: dict[str, Term] = {}
        for key in list(self._terms):
            term, written = self._terms[key], self._spelled.get(key, key)
            if term.trusted:
                self._stems.setdefault(self._stemmed(keys_of(written)), term)
        self.speller = Speller(self._costs(words))
        self.find = lru_cache(maxsize=20_000)(self._find)
        self.guess = lru_cache(maxsize=2_000)(self._guess)

    @classmethod
    def of(
        cls,
        labels: Mapping[str, Sequence[Sequence[str]]],
        titles: Iterable[str],
        words: Iterable[str],
        language: str,
        nearest: Callable[[str], str | None] | None = None,
    ) -> Lexicon:
        """Lexicon of products with these labels (six lists each) and titles, and of the words of captions.

        `nearest` finds the label nearest to a word that nothing else explains, such as by a text encoder.
        """
        counts: Counter[tuple[int, str]] = Counter()
        together: Counter[tuple[str, str]] = Counter()
        for lists in labels.values():
            for kind, words_of_kind in enumerate(lists):
                counts.update((kind, label) for label in words_of_kind)
                together.update(combinations(sorted(set(words_of_kind)), 2))
        title_words = {word for title in titles for word in tokenize(title)}
        return cls(counts, together, len(labels), title_words, list(words), language, nearest)

    # labels

    def levels(self, family: str) -> tuple[frozenset[str], ...]:
        """Labels of the catalog on a family's scale, increasing; levels without labels are left out."""
        return self._levels.get(family, ())

    def lowest(self, family: str) -> frozenset[str]:
        """Labels below the first level, such as "sleeveless"."""
        return self._lowest.get(family, frozenset())

    def half(self, family: str, direction: int) -> frozenset[str]:
        """Labels of the lower (-1) or upper (1) half of a scale, without the middle level unless it is all."""
        levels = self.levels(family)
        chosen = levels[(len(levels) + 1) // 2 :] if direction > 0 else levels[: len(levels) // 2]
        return frozenset().union(*(chosen or levels))

    def alternatives(self, one: Collection[str], other: Collection[str], family: str) -> bool:
        """Whether a wish for labels of a family replaces an earlier one for others of it.

        Labels that many products have at once are no alternatives, such as bell sleeves and long sleeves.
        """
        if family not in self.grammar.alternatives:
            return False
        return family in self.grammar.exclusive or not any(
            self._together.get((min(a, b), max(a, b)), 0) >= _TOGETHER * min(self._count[a], self._count[b])
            for a in one
            for b in other
            if a != b
        )

    def of_family(self, family: str) -> frozenset[str]:
        """Labels of a family."""
        return frozenset(label for label, its in self.family_of.items() if its == family)

    def frequent(self, labels: Iterable[str]) -> str:
        """The most frequent of some labels, the first by name among equals; "" of none."""
        return min(labels, key=lambda label: (-self._count[label], label), default="")

    def color_of(self, words: Sequence[str]) -> Term | None:
        """The nearest color of the catalog for a color name such as "dusty rose", or None if it is no color.

        A name that ends with a color of the catalog stays with that color, unless another is much nearer.
        """
        names = [folded(word) for word in words]
        english = self.grammar.colors
        name = english.get("".join(names)) or " ".join(english.get(one, one) for one in names)
        lab = with_colors([name], {}).get(name)
        head = self._terms.get(names[-1]) if len(names) > 1 else None
        if head is not None and (head.family != COLOR or not head.labels):
            head = None
        if not self._colors or (lab is None and head is None):
            return None
        return self._nearest_color(lab, head)

    def _nearest_color(self, lab: Lab | None, head: Term | None) -> Term | None:
        if lab is None or head is None:
            label = nearest_color(lab, self._colors)[0] if lab is not None else ""
            return Term(frozenset([label]), COLOR, label) if label else head
        label, distance = nearest_color(lab, self._colors)
        heads = {one: at for one, at in self._colors.items() if one in head.labels}
        if distance > _NEAR and heads:
            label, _ = nearest_color(lab, heads)
        return Term(frozenset([label]), COLOR, label)

    # words

    def _find(self, words: tuple[str, ...]) -> Term | None:
        """What some folded words stand for: as written, then by their stems, then by their comparatives."""
        key = "".join(words)
        term = self._terms.get(key)
        if term is not None and (term.trusted or term.labels):
            return term
        if len(words) == 1 and key in self.grammar.roles:
            return None
        found = self._stems.get(self._stemmed(words))
        if found is None and len(words) == 1 and len(key) > 4:
            found = self._base(key)
        if found is None and len(words) == 1:
            color = self.color_of(words) if key not in self._titles else None
            found = color if color is not None and term is None else None
        return found or term

    def spelled(self, key: str) -> str:
        """How a key is written, such as "polka dot" for "polkadot"."""
        return self._spelled.get(key, key)

    def _stemmed(self, words: Sequence[str]) -> str:
        return "".join(map(self.stem, words))

    def _base(self, key: str) -> Term | None:
        """Term of the adjective of a comparative such as "lacier"."""
        for ending, other in self.grammar.comparative:
            if key.endswith(ending) and len(key) - len(ending) >= 3:
                base = key[: -len(ending)] + other
                for form in (base, base[:-1] if base[-1] == base[-2] else ""):
                    term = self._terms.get(form)
                    if term is not None and term.labels:
                        return term
        return None

    def known(self, key: str) -> bool:
        """Whether a folded word is a word of the language or the catalog, so that it is not corrected."""
        return key in self.grammar.roles or key in self.grammar.steps or key in self._terms

    def _guess(self, key: str) -> tuple[str, ...] | None:
        """Words that are meant by an unknown one: corrected, split, or the nearest label. None if none is."""
        near = self.speller.correct(key, 1)
        if near is None:
            parts = self._parts(key)
            if parts is not None:
                return parts
            near = self.speller.correct(key)
        if near is not None:
            return tuple(self.spelled(near[0]).split())
        label = self._nearest(key) if self._nearest is not None else None
        return (label,) if label in self.family_of else None

    def slip(self, key: str) -> tuple[str, ...] | None:
        """The label or word of the language that is probably meant by a word of captions, or None.

        Captions have misspellings, such as "stipes", which count as known words otherwise.
        """
        return None

    def _parts(self, key: str) -> tuple[str, ...] | None:
        """The parts of words that were written together, such as "longand", or of a compound."""
        for at in range(len(key) - 3, 2, -1):
            left, right = key[:at], key[at:]
            for link in ("", *self.grammar.links):
                if left.endswith(link) and len(left) - len(link) >= 3:
                    one = left[: len(left) - len(link)] if link else left
                    if self._whole(one) and self._whole(right):
                        return (self.spelled(one), self.spelled(right))
        return None

    def _whole(self, key: str) -> bool:
        term = self._terms.get(key)
        if term is None and self.grammar.links:
            term = self._stems.get(self.stem(key))
        return (term is not None and term.trusted and bool(term.labels)) or key in self.grammar.roles

    # how it is filled

    def _family(self, label: str, kind: int) -> str:
        word = self.speech.word_of.get(key_of(label)) or self.speech.word_of.get("".join(label.split()))
        if word is not None:
            return self.speech.group_of[word].family
        family = self._families.get(key_of(label))
        if family is not None:
            return family
        if kind == TYPES["texture"] and with_colors([label], self.grammar.colors):
            return COLOR
        return self.speech.other[kind].family

    def _fill(self, words: Sequence[str]) -> None:
        by_word: dict[str, set[str]] = {}  # labels of each word of phrases/, or of each label that is none
        for label in sorted(self._count):
            word = self.speech.word_of.get(key_of(label), label)
            by_word.setdefault(word, set()).add(label)
            self._add(label, Term(frozenset([label]), self.family_of[label]))
        self._by_word = {word: frozenset(found) for word, found in by_word.items()}
        for label in self._count:  # all labels that are forms of one word
            word = self.speech.word_of.get(key_of(label), label)
            self._terms[key_of(label)] = Term(self._by_word[word], self.family_of[label])
        for word, forms in self.speech.forms_of.items():
            labels = self._by_word.get(word)
            if labels:
                term = Term(labels, self.family_of[self.frequent(labels)])
                for form in forms:
                    self._add(form, term)
        self._add_heads()
        for family, lines in self.grammar.synonyms.items():
            for meant, terms in lines:
                self._add_line(family, meant, terms)
        self._add_scales()
        for word in sorted(self._titles):
            self._add(word, FREE)
        for word in words:
            self._add(word, HEARD)

    def _add(self, phrase: str, term: Term) -> None:
        key = key_of(phrase)
        if key and key not in self._terms:
            self._terms[key] = term
            self._spelled.setdefault(key, phrase)

    def _add_heads(self) -> None:
        """A color that is no label by itself stands for the labels that end with it: blue for light blue."""
        heads: dict[str, set[str]] = {}
        for label in self._colors:
            words = label.split()
            if len(words) > 1:
                heads.setdefault(words[-1], set()).add(label)
        for head, labels in heads.items():
            self._add(head, Term(frozenset(labels), COLOR))

    def _add_line(self, family: str, meant: Sequence[str], terms: Sequence[str]) -> None:
        """Terms of a line stand for its first word that is a label, words that are no labels likewise."""
        found = next((self._terms[key_of(word)] for word in meant if self._labelled(word)), None)
        if found is None:
            found = next((self._terms[key_of(term)] for term in terms if self._labelled(term)), None)
        if found is None:
            return
        label = self.frequent(found.labels)
        instead = Term(found.labels, found.family, label)
        head = meant[0]
        for form in self.speech.forms_of.get(head, (head,)):
            self._add(form, instead)
        for term in terms:
            self._add(term, instead)

    def _labelled(self, word: str) -> bool:
        term = self._terms.get(key_of(word))
        return term is not None and bool(term.labels) and not term.instead

    def _add_scales(self) -> None:
        place: dict[str, tuple[str, int]] = {}  # family and level of each word of a scale
        for family, scale in self.speech.scales.items():
            for number, level in enumerate(scale.levels):
                place |= {word: (family, number) for word in level}
        meanings = {
            key_of(term): words[0]
            for lines in self.grammar.synonyms.values()
            for words, terms in lines
            for term in terms
        }
        found: dict[str, dict[int, set[str]]] = {}
        for label in self._count:
            key = key_of(label)
            word = self.speech.word_of.get(key, label)
            at = place.get(word) or place.get(meanings.get(key, ""))
            if at is not None and self.family_of[label] == at[0]:
                found.setdefault(at[0], {}).setdefault(at[1], set()).add(label)
        self._levels = {
            family: tuple(frozenset(levels[number]) for number in sorted(levels))
            for family, levels in found.items()
        }
        self._lowest = {
            family: frozenset(label for label in self._count if key_of(label) in keys)
            for family, keys in self.grammar.lowest.items()
        }
        for family, scale in self.speech.scales.items():  # a word of a scale that is no label: its level
            for number, level in enumerate(scale.levels):
                labels = frozenset(found.get(family, {}).get(number, ()))
                if labels and family != COLOR:
                    for word in level:
                        for form in self.speech.forms_of.get(word, (word,)):
                            self._add(form, Term(labels, family, self.frequent(labels)))

    def _costs(self, words: Sequence[str]) -> dict[str, float]:
        """Cost of each word for the speller: labels, then words of the language, then titles, then captions."""
        costs: dict[str, float] = {}
        for place, word in enumerate(words):
            costs.setdefault(key_of(word), 0.35 + 0.3 * place / len(words))
        costs |= {word: 0.4 for word in self._titles}
        for key in (*self.grammar.roles, *self.grammar.steps, *self.grammar.nouns):
            costs[key] = 0.25
        for key, term in self._terms.items():
            if term.labels:
                costs[key] = 0.1 if term.instead else 0.0
        return costs


def _families(rules: Grammar) -> dict[str, str]:
    """Family of the terms and words of the synonyms."""
    found: dict[str, str] = {}
    for family, lines in rules.synonyms.items():
        for words, terms in lines:
            for word in (*words[:1], *terms):
                found.setdefault(key_of(word), family)
    return found
