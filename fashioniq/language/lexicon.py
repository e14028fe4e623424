"""Words of one catalog in one language: which labels a word or phrase stands for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations

import snowballstemmer

from fashioniq.data.languages import TYPES, Language, language
from fashioniq.data.words import tokenize
from fashioniq.language.grammar import Grammar, grammar
from fashioniq.language.spelling import Speller, single, words_said
from fashioniq.language.terms import COLOR, FREE, GARMENT, HEARD, Term, Terms
from fashioniq.language.tokens import folded, key_of, keys_of

_COMMON = 0.5  # share of the products from which on a garment word says nothing
_OTHERS = 0.25  # share of the products from which on other garments make it say something
_TOGETHER = 0.25  # share of a label's products that have another from which on the two are no alternatives
_FEW = 8  # products, which fill a first page
_SLIPS = 3  # how much more frequent the word must be that a rare word is corrected to
_CAPTIONS, _KNOWN = (
    10_000,
    5,
)  # assumed counts of the most frequent word of captions, and of words of the language
_STEMMERS = {"en": "english", "de": "german"}


class Lexicon:
    """Words of one catalog in one language."""

    def __init__(
        self,
        counts: Mapping[tuple[int, str], int],
        together: Mapping[tuple[str, str], int],
        products: int,
        garments: int,
        titles: Mapping[str, int],
        words: Sequence[str],
        code: str,
        nearest: Callable[[str], str | None] | None = None,
    ) -> None:
        """Counts of products per list and label, `together` per pair of labels, with any of the `garments`; of `titles`
        per word."""
        self.grammar, self._nearest, self._together = grammar(code), nearest, together
        self.stem = lru_cache(maxsize=50_000)(
            snowballstemmer.stemmer(_STEMMERS.get(code, "english")).stemWord
        )
        self._terms = Terms(counts, language(code), self.grammar, self.stem)
        self.common = frozenset(  # garments that most of the products are
            label
            for label, count in self._terms.count.items()
            if self._terms.family_of[label] == GARMENT
            and count > _COMMON * products
            and garments - count < _OTHERS * products
        )
        self._titles: Counter[str] = Counter()
        for word, count in titles.items():
            self._titles[folded(word)] += count
        for word in sorted(self._titles):
            self._terms.add(word, FREE)
        for word in words:
            self._terms.add(word, HEARD)
        self._stems: dict[str, Term] = {}
        for key, term in self._terms.of.items():
            if not term.heard:
                self._stems.setdefault(self._terms.stemmed(keys_of(self._terms.spelled[key])), term)
        self._language = _words_of(language(code), self.grammar)
        labels = {word for label in self._terms.count for word in keys_of(label)}.union(self.grammar.nouns)
        self._speller = Speller(self._frequency(words), self.grammar.keyboard, labels, self.grammar.alike)
        self.find = lru_cache(maxsize=20_000)(self._found)
        self.guess = lru_cache(maxsize=2_000)(self._guess)
        self.slip = lru_cache(maxsize=2_000)(self._slip)
        self.parts = lru_cache(maxsize=2_000)(self._parts)

    @classmethod
    def of(
        cls,
        labels: Mapping[str, Sequence[Sequence[str]]],
        titles: Iterable[str],
        words: Iterable[str],
        language: str,
        nearest: Callable[[str], str | None] | None = None,
        said: Mapping[str, int] | None = None,
    ) -> Lexicon:
        """Lexicon of products with these labels (six lists each) and titles, and of the words of captions.

        `said` are further labels, with their list, of which it is not known which products have them. `words` are
        ordered, the most frequent first. `nearest` finds the label nearest to a word that nothing
        else explains, such as by a text encoder.
        """
        counts: Counter[tuple[int, str]] = Counter()
        together: Counter[tuple[str, str]] = Counter()
        rows = Counter((kind, tuple(row)) for lists in labels.values() for kind, row in enumerate(lists))
        for (kind, row), count in rows.items():
            for label in row:
                counts[kind, label] += count
            for pair in combinations(sorted(set(row)), 2):
                together[pair] += count
        for label, kind in (said or {}).items():
            counts[kind, label] += _FEW
        title_words = Counter(word for title in titles for word in tokenize(title))
        return cls(
            counts,
            together,
            products=len(labels),
            garments=sum(count for (kind, row), count in rows.items() if kind == TYPES["garment"] and row),
            titles=title_words,
            words=list(words),
            code=language,
            nearest=nearest,
        )

    # labels

    @property
    def labels(self) -> frozenset[str]:
        """All labels."""
        return frozenset(self._terms.count)

    def levels(self, family: str) -> tuple[frozenset[str], ...]:
        """Labels of the catalog on a family's scale, increasing; levels without labels are left out."""
        return self._terms.levels.get(family, ())

    def lowest(self, family: str) -> frozenset[str]:
        """Labels below the first level, such as "sleeveless"."""
        keys = self.grammar.lowest.get(family, frozenset())
        on_scale = frozenset[str]().union(*self.levels(family))
        return frozenset(label for label in self._terms.count if key_of(label) in keys) - on_scale

    def half(self, family: str, direction: int) -> frozenset[str]:
        """Labels of the lower (-1) or upper (1) half of a scale, without a middle level."""
        levels = self.levels(family)
        chosen = levels[(len(levels) + 1) // 2 :] if direction > 0 else levels[: len(levels) // 2]
        return frozenset[str]().union(*chosen)

    def alternatives(self, one: Collection[str], other: Collection[str], family: str) -> bool:
        """Whether a wish for labels of a family replaces an earlier one for others of it.

        Labels that many products have at once are no alternatives, such as bell sleeves and long sleeves.
        """
        if family not in self.grammar.alternatives:
            return False
        count = self._terms.count
        return family in self.grammar.exclusive or not any(
            self._together.get((min(a, b), max(a, b)), 0) >= _TOGETHER * min(count[a], count[b])
            for a in one
            for b in other
            if a != b
        )

    def of_family(self, family: str) -> frozenset[str]:
        """Labels of a family."""
        return frozenset(label for label, its in self._terms.family_of.items() if its == family)

    # words

    def spelled(self, key: str) -> str:
        """How a key is written, such as "polka dot" for "polkadot"."""
        return self._terms.spelled.get(key, key)

    def is_color(self, key: str) -> bool:
        """Whether a key is the name of a color, in the catalog or not."""
        return self._terms.palette.is_name(key)

    def color_of(self, words: Sequence[str]) -> Term | None:
        """The nearest color of the catalog for a color name such as "dusty rose", or None if it is no color.

        A name that ends with a color of the catalog stays with that color, unless another is much nearer.
        """
        palette = self._terms.palette
        last = words[-1] if len(words) > 1 else palette.shaded(words[-1])
        head = self._terms.of.get(last) or self._stems.get(self.stem(last)) if last else None
        if head == FREE and palette.is_name(last):
            return None  # a color that only titles have
        if head is not None and (head.family != COLOR or not head.labels):
            head = None
        label = palette.nearest(palette.named(words), head.labels if head is not None else ())
        if label:
            return Term(frozenset([label]), COLOR, label)
        return head if head is not None and words[0] in self.grammar.shades else None

    def _found(self, words: tuple[str, ...], anyway: bool = False) -> Term | None:
        """What `_find` finds; another name of a color that few products have also stands for similar colors."""
        term = self._find(words, anyway)
        if term is None or term.family != COLOR or not term.instead:
            return term
        count, palette = self._terms.count, self._terms.palette
        labels = term.labels | {
            label.split()[-1] for label in term.labels if label.split()[-1] in palette.colors
        }
        for label in palette.similar(term.instead):
            if sum(count[one] for one in labels) >= _FEW:
                break
            labels |= {label}
        return term._replace(labels=labels)

    def _find(self, words: tuple[str, ...], anyway: bool = False) -> Term | None:
        """What folded words stand for: as written, then by their stems, as comparatives, and as colors.

        A word of the grammar stands for a label only with `anyway`.
        """
        key = "".join(words)
        term = self._terms.of.get(key)
        if term is not None and not term.labels and len(words) > 1 and len(keys_of(self.spelled(key))) == 1:
            term = None  # "a wake" is not "awake"
        if (term is not None and not term.heard) or anyway or " ".join(words) in self.grammar.roles:
            return term
        found = self._stems.get(self._terms.stemmed(words))
        if found is None and len(words) == 1 and len(key) > 4:
            found = self._base(key)
        if found is None and len(words) == 1 and term is None and self._may_be_color(key):
            found = self.color_of(words)
        return found or term

    def _may_be_color(self, key: str) -> bool:
        """Whether a color name is not better known for something else, such as denim."""
        family = self._terms.known_family(key)
        return family == COLOR or (not family and len(key) > 3)

    def _base(self, key: str) -> Term | None:
        """Term of the adjective of a comparative such as "lacier"."""
        for ending, other in self.grammar.comparative:
            if key.endswith(ending) and len(key) - len(ending) >= 3:
                base = key[: -len(ending)] + other
                for form in (base, base[:-1] if base[-1] == base[-2] else ""):
                    term = self._terms.of.get(form)
                    if term is not None and term.labels:
                        return term
        return None

    def _guess(self, key: str) -> tuple[str, ...] | None:
        """Words that are meant by an unknown one: corrected, split, or the nearest label. None if none is."""
        if key not in self._language:
            near = self._meant(key, 1)
            parts = self._parts(key) if near is None else None
            near = near or self._meant(key, None)
            if parts is not None:
                return parts
            if near is not None:
                return self.slip(near) or (self.spelled(near),)
        label = self._nearest(key) if self._nearest is not None else None
        return (label,) if label in self._terms.family_of else None

    def _meant(self, key: str, most: int | None) -> str | None:
        """A correction: other words than labels and those of the language only with the same first letter."""
        itself = self._is_word(key)
        near = self._speller.correct(key, most, itself)
        if itself and near is not None and single(near) != single(key):
            return None
        term = self._stems.get(self.stem(near)) if near is not None else None
        if near is None or self._whole(near) or (term is not None and term.labels):
            return near
        return near if near[0] == key[0] and self._speller.correct(key, 1, itself) == near else None

    def _is_word(self, key: str) -> bool:
        """Whether the language has a word, about garments or not."""
        return key in self._language or key in words_said(self.grammar.code, self.grammar.rare)

    def _slip(self, key: str) -> tuple[str, ...] | None:
        """The word that is probably meant by a rare word of captions or titles, which have misspellings, or None.

        That is a much more frequent word with the same first letter one edit away, which is not a form of it.
        """
        near = self._speller.correct(key, 1 if len(key) < 8 else 2) if len(key) > 3 else None
        if near is None or self._is_word(key) or near[0] != key[0] or self.stem(near) == self.stem(key):
            return None
        often = self._speller.frequency
        if len(near) == len(key) < 6 and sorted(near) != sorted(key):
            return None  # "blank" is not black
        slips = 1 if single(near) == single(key) else _SLIPS
        return (self.spelled(near),) if often[near] > slips * often.get(key, 0) else None

    def _parts(self, key: str) -> tuple[str, ...] | None:
        """The parts of words that were written together, such as "longand", or of a compound."""
        for at in range(len(key) - 3, 2, -1):
            if not self._whole(key[at:]):
                continue
            for link in ("", *self.grammar.links):
                one = key[:at].removesuffix(link)
                if len(one) == at - len(link) >= 3 and self._whole(one):
                    return (self.spelled(one), self.spelled(key[at:]))
        return None

    def _whole(self, key: str) -> bool:
        term = self._terms.of.get(key)
        if term is None and self.grammar.links:
            term = self._stems.get(self.stem(key))
        rules = self.grammar
        return bool(term is not None and term.labels) or any(
            key in words for words in (rules.roles, rules.nouns, rules.steps)
        )

    def _frequency(self, words: Sequence[str]) -> dict[str, float]:
        """About how often each word occurs: counts of labels and titles, and the order of the words of captions."""
        often: dict[str, float] = defaultdict(float)
        for place, word in enumerate(words):
            often[key_of(word)] = max(often[key_of(word)], _CAPTIONS / (place + 1))
        for key, term in self._terms.of.items():
            count = sum(self._terms.count[label] for label in term.labels)
            often[key] = max(
                often[key], self._titles[key], _KNOWN * (2 if count else 0), 0 if term.instead else count
            )
            if count and key.isalpha() and self._terms.spelled[key].isalpha():
                for ending in (end for end in self.grammar.inflections if not key.endswith(end)):
                    often.setdefault(key + ending, often[key])
        for key in (*self.grammar.roles, *self.grammar.steps, *self.grammar.nouns):
            often[key] = max(often[key], _KNOWN)
        return often


def _words_of(speech: Language, rules: Grammar) -> frozenset[str]:
    """All words of a language's attributes, which are never misspelled."""
    phrases = [form for forms in speech.forms_of.values() for form in forms]
    phrases += [term for lines in rules.synonyms.values() for _, terms in lines for term in terms]
    return frozenset(word for phrase in phrases for word in (*keys_of(phrase), key_of(phrase)))
