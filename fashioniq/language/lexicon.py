"""Words of one catalog in one language: which labels a word or phrase stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations

import snowballstemmer

from fashioniq.data.languages import TYPES, language
from fashioniq.data.words import tokenize
from fashioniq.language.corrections import Corrections
from fashioniq.language.grammar import grammar
from fashioniq.language.terms import COLOR, FREE, GARMENT, HEARD, NAME, PERSON, Term, Terms
from fashioniq.language.tokens import folded, keys_of, phrase_key

_COMMON = 0.5  # share of the products from which on a garment word says nothing
_OTHERS = 0.25  # share of the products from which on other garments make it say something
_TOGETHER = 0.25  # share of a label's products that have another from which on the two are no alternatives
_FEW = 8  # products, which fill a first page
_PERSONS = 0.05  # least share of the products that titles or labels name for a group of people
_NAMED = 2  # titles at least, and half of those with a word, that begin with it
_STEMMERS = {"en": "english", "de": "german"}


class TitleWords:
    """How many titles there are, and how many have each word, and begin with it."""

    def __init__(self) -> None:
        self.count = 0
        self.words: Counter[str] = Counter()
        self.first: Counter[str] = Counter()

    def add(self, title: Sequence[str]) -> None:
        """Count the words of a title."""
        self.count += 1
        self.words.update(title)
        self.first.update(title[:1])


class Lexicon:
    """Words of one catalog in one language."""

    def __init__(
        self,
        counts: Mapping[tuple[int, str], int],
        together: Mapping[tuple[str, str], int],
        products: int,
        garments: int,
        titles: TitleWords,
        described: Mapping[str, int],
        words: Sequence[str],
        code: str,
    ) -> None:
        """Counts of products per list and label, `together` per pair of labels, with any of the `garments`; `described`
        per word of descriptions."""
        self.grammar, self._together = grammar(code), together
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
        self._lowest = {
            family: frozenset(label for label in self._terms.count if phrase_key(label) in keys).difference(
                *self.levels(family)
            )
            for family, keys in self.grammar.lowest.items()
        }
        self._titles = _folded(titles.words) + _folded(described)
        begin, within = _folded(titles.first), _folded(titles.words)
        for word in sorted(self._titles):
            named = begin[word] >= max(_NAMED, within[word] / 2) and not self._means_something(word)
            self._terms.add(word, Term(family=NAME) if named else FREE)
        for word in words:
            self._terms.add(word, HEARD)
        self._stems: dict[str, Term] = {}
        for key, term in self._terms.of.items():
            if not term.heard:
                self._stems.setdefault(self._terms.stemmed(keys_of(self._terms.spelled[key])), term)
        self.corrections = Corrections(self._terms, self._stems, self.grammar, self._titles, words)
        self.find = lru_cache(maxsize=20_000)(self._found)
        self.persons = self._told_apart(within, titles.count, products)
        self._same = {
            word: words[0] for words in self.grammar.persons for word in words if word in self.persons
        }

    @classmethod
    def of(
        cls,
        labels: Mapping[str, Sequence[Sequence[str]]],
        titles: Iterable[str],
        words: Iterable[str],
        language: str,
        said: Mapping[str, int] | None = None,
        descriptions: Iterable[str] = (),
    ) -> Lexicon:
        """Lexicon of products with these labels (six lists each), titles and descriptions, and the words of captions.

        `said` are further labels, with their list, of which it is not known which products have them. `words` are
        ordered, the most frequent first.
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
        titled = TitleWords()
        for title in titles:
            titled.add(tokenize(title))
        return cls(
            counts,
            together,
            products=len(labels),
            garments=sum(count for (kind, row), count in rows.items() if kind == TYPES["garment"] and row),
            titles=titled,
            described=Counter(chain.from_iterable(map(tokenize, descriptions))),
            words=list(words),
            code=language,
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
        return self._lowest.get(family, frozenset())

    def places(self, family: str, labels: Collection[str]) -> list[int]:
        """Levels of labels on a family's scale, increasing; -1 for those below the first."""
        below = [-1] if self.lowest(family).intersection(labels) else []
        return below + [at for at, level in enumerate(self.levels(family)) if level.intersection(labels)]

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

    def _means_something(self, word: str) -> bool:
        """Whether a word that is no label is an attribute elsewhere, so that it is no name."""
        return bool(self._terms.known_family(word)) or self._terms.palette.is_name(word)

    def _told_apart(self, titled: Mapping[str, int], titles: int, products: int) -> dict[str, Term]:
        """Words for people, such as "lady", with what labels or titles call them; none where they do not tell people
        apart. `titled` are the `titles` with each word."""
        found = []
        for words in self.grammar.persons:
            labels = {word: self._terms.of.get(word, FREE).labels for word in words}
            share = {
                word: max(
                    titled.get(word, 0) / max(1, titles),
                    *(self._terms.count[label] / products for label in labels[word]),
                    0.0,
                )
                for word in words
            }
            if sum(share.values()) >= _PERSONS:
                best = max(words, key=lambda word: (bool(labels[word]), share[word]))
                own = Term(labels[best], PERSON, "" if labels[best] else best)
                found.append(
                    {
                        word: Term(family=PERSON) if not labels[best] and share[word] >= _PERSONS else own
                        for word in words
                    }
                )
        return {word: term for group in found for word, term in group.items()} if len(found) > 1 else {}

    # words

    def token(self, word: str) -> str:
        """What a word of a text is looked for by: its stem; the same for words that mean the same people, such as
        "women" and "ladies", where people are told apart."""
        key = folded(word)
        return self.stem(self._same.get(key, key))

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
        if head is not None and not (head.labels or head.heard) and palette.is_name(last):
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
        if (
            term is not None
            and not term.labels
            and len(words) > 1
            and len(keys_of(self._terms.spelled_as(key))) == 1
        ):
            term = None  # "a wake" is not "awake"
        if (term is not None and not term.heard) or anyway or " ".join(words) in self.grammar.roles:
            return term
        found, family = self._stems.get(self._terms.stemmed(words)), self._terms.known_family(key)
        if found is not None and family and found.family and found.family != family:
            found = None  # "busy" is no business
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


def _folded(counts: Mapping[str, int]) -> Counter[str]:
    folded_counts: Counter[str] = Counter()
    for word, count in counts.items():
        folded_counts[folded(word)] += count
    return folded_counts
