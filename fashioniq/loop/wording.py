"""Words of requests in a gallery: what they ask for, and what they add to the score of each product.

`score(item) = similarity(vector, item) + lexical(words, item) + Σ wishes`: BM25 of the words that were asserted, over
titles and labels, and a weight for each wish that a product meets. Small weights, of what is said about a product, fade
with later turns, as earlier turns do in the vectors of a retriever. A wish in words that the retriever never saw has no
part in its vectors, and weighs more; if it is for no label either, such as a brand, products with the words in their
texts meet it. Where a product has no labels, their probability given its vector counts, if the run has a model of it.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fashioniq.categories import singular
from fashioniq.data.catalog import Catalog, text_of
from fashioniq.data.wording import OUTWEIGHS, Weights, obeying
from fashioniq.data.words import Vocabulary, tokenize
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader
from fashioniq.language.terms import COLOR
from fashioniq.language.tokens import keys_of
from fashioniq.language.wishes import ParsedRequest, Wish, Wishes
from fashioniq.loop.labels import LEAST_EVIDENCE, LIKELY, Having, ProductLabels, Seen, evidence, kinds_of
from fashioniq.loop.lexical import LexicalIndex
from fashioniq.loop.offers import Offers

UNSEEN = 2.0  # weight of a wish in unseen words, in those of a whole wish, which vectors do not follow either
IN_TEXTS = OUTWEIGHS / 2  # weight of words that are looked for in texts, where that of labels is OUTWEIGHS
_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # digits of a key could be taken for a telephone number
_REMEMBERED = 2**28  # bytes of sets of products that are remembered by their labels
_MOST_SETS = 256


class BonusParts(NamedTuple):
    """Parts of the bonus of a product: of its words, and of each wish with how far the product has what it names."""

    lexical: float
    wishes: list[tuple[Wish, float, float]]


class _Condition(NamedTuple):
    """What products should have, or, if it is denied, should not have."""

    having: Having
    denied: bool

    def met(self, item: int) -> bool:
        """Whether a product probably meets it."""
        return (self.having.at(item) >= LEAST_EVIDENCE[self.denied]) != self.denied


class Wording:
    """Reads requests about the products of one gallery, and scores its products by their words.

    `labels` are those of each product in the order of the gallery, None for a product without; `texts` are its title,
    description and other words. `seen` are the labels of products by their vectors, for those without labels. Those
    that are `said` are in no product's labels, and are taken from `seen` for all products. `name` is what a product of
    the category is called: as a wish, it weighs no more than one that was interpreted.
    """

    def __init__(
        self,
        lexicon: Lexicon,
        weights: Weights,
        labels: Iterable[Collection[str] | None],
        texts: Iterable[str],
        seen: Seen | None = None,
        *,
        said: Collection[str] = (),
        learned: Collection[str] | None = None,
        name: str = "",
    ) -> None:
        named = lexicon.find(keys_of(name))
        self._category_labels = named.labels if named else frozenset[str]()
        self._learned = None if learned is None else frozenset(learned)
        self.lexicon, self.weights = lexicon, weights
        self._reader = Reader(lexicon)
        self.size_name = self._reader.offers.size_name  # of a size as it is written
        self._labels, self._seen, self._said = ProductLabels(labels), seen, frozenset(said)
        self._size = len(self._labels)
        self._some_unknown = bool(self._said) or bool(self._labels.unknown_N.any())
        self._kinds = kinds_of(self.labels)
        self._documents = LexicalIndex(texts, lexicon.token)
        sets = _REMEMBERED // max(1, self._size * (4 if self._some_unknown else 1))
        self._having = lru_cache(max(8, min(_MOST_SETS, sets)))(self._products)
        self._in_texts = lru_cache(max(8, min(_MOST_SETS, sets)))(self._containing)

    @classmethod
    def of(
        cls,
        catalog: Catalog,
        ids: Sequence[str],
        vocabulary: Vocabulary,
        weights: Weights,
        seen: Seen | None = None,
        *,
        said: Mapping[str, int] | None = None,
        learned: Collection[str] | None = None,
        words: bool = True,
    ) -> "Wording":
        """Wording of the products `ids` of a catalog, whose retriever has learned a vocabulary.

        `said` are the labels that captions gave, with their list of attributes. Without `words`, labels, titles and
        descriptions of the products are not used, as for products of which only pictures are known.
        """
        labels, titles, descriptions = catalog.labels, catalog.titles, catalog.descriptions
        if not words:
            labels = {name: labels[name] for name in catalog.ids("train") if name in labels}
            titles = descriptions = {}
        texts = titles.values(), vocabulary.words, catalog.language
        lexicon = Lexicon.of(labels, *texts, said=said, descriptions=descriptions.values())
        own = (
            frozenset(word for some in labels.get(name, ()) for word in some) or None if words else None
            for name in ids
        )
        # attribute words of a description count twice, as label and as word, which held-out captions prefer
        documents = (text_of(catalog, name, labels) if words else "" for name in ids)
        name = singular(catalog.category)
        return cls(lexicon, weights, own, documents, seen, said=said or (), learned=learned, name=name)

    def read(self, text: str) -> ParsedRequest:
        """What a text says."""
        return self._reader.read(text)

    def after(self, wishes: Wishes, text: str, item: int | None, offers: Offers | None = None) -> Wishes:
        """Wishes after one more request about a product, None if it names none; "cheaper" needs `offers`."""
        labels = None if item is None else self.labels_of(item)
        request, price = self.read(text), None
        if offers and request.limits.cheaper:
            limits, price = offers.compared(request.limits, item)
            request = request._replace(limits=limits)
        return wishes.after(request, labels, self.lexicon, price)

    def wished(self, wishes: Wishes, label: str, denied: bool = False) -> Wishes:
        """Wishes after one for a label, or against it, that was chosen instead of said."""
        wish = Wish(frozenset([label]), label, (0, len(label)), self.family_of(label) or "", denied)
        request = ParsedRequest(label, (wish,), asserted="" if denied else label)
        return wishes.after(request, None, self.lexicon)

    def without(self, wishes: Wishes, key: str) -> Wishes:
        """Wishes without the one of this key; the same if there is none."""
        texts = frozenset(wish.text.lower() for wish in wishes.held if wish_key(wish) == key)
        return wishes.after(ParsedRequest("", taken_back=texts), None, self.lexicon) if texts else wishes

    @property
    def labels(self) -> Collection[str]:
        """Labels of the products, and those that were said."""
        return self._said.union(self._labels.names)

    def family_of(self, label: str) -> str | None:
        """Family of a label, None if it is not one of the catalog."""
        term = self.lexicon.find(keys_of(label))
        return term.family if term is not None and label in term.labels else None

    def labels_of(self, item: int) -> Collection[str]:
        """Labels of a product; for one without, those that are likely. Those that were said count where likely."""
        found = self._labels.of(item)
        if self._seen is None or not (found is None or self._said):
            return found or ()
        likely = self._seen.likely(item)
        return likely if found is None else found.union(self._said.intersection(likely))

    def learned(self) -> Iterator[tuple[str, np.ndarray]]:
        """Labels that are not in the catalog for some products, and which of these products probably have them, N."""
        if self._seen is not None and self._some_unknown:
            for label in sorted(self.labels):
                if (chance_N := self._seen.probability(label)) is not None:
                    yield label, (chance_N >= LIKELY) & (self._labels.unknown_N | (label in self._said))

    def bonus(self, wishes: Wishes) -> np.ndarray:
        """What words add to the similarity of each product, N in float32."""
        weights = self.weights
        bonus_N = np.zeros(self._size, np.float32)
        if weights.lexical:
            for words, share in self._asserted(wishes):
                self._documents.add(bonus_N, words, weights.lexical * share)
        for wish in wishes.held:
            for condition, weight in self._scored(wish, wishes):
                condition.having.add(bonus_N, weight)
        return bonus_N

    def parts(self, text: str, item: int | None) -> tuple[np.ndarray, np.ndarray]:
        """BM25, and the sum of the wishes, of each product for a single request, without weights; N in float32."""
        wishes, alone = self.after(Wishes(), text, item), copy(self)
        found = []
        for alone.weights in (Weights(1, 0, 0), Weights(0, 1, 1)):
            found.append(alone.bonus(wishes))
        return found[0], found[1]

    def obeying(self, wishes: Wishes) -> np.ndarray:
        """Mask of the products that meet all wishes for labels, and nothing that is denied, N."""
        obeys_N = np.ones(self._size, bool)
        for condition in self._conditions(wishes.held):
            condition.having.keep(obeys_N, LEAST_EVIDENCE[condition.denied], condition.denied)
        return obeys_N

    def obeys(self, wishes: Wishes, item: int) -> bool:
        """Whether a product meets all wishes for labels, and nothing that is denied."""
        return all(condition.met(item) for condition in self._conditions(wishes.held))

    def score_of(self, wishes: Wishes, item: int) -> BonusParts:
        """What the bonus of a product consists of."""
        of_wishes = []
        for wish in wishes.held:
            if found := list(self._scored(wish, wishes)):
                met = [(one.having.at(item), one.denied, weight) for one, weight in found]
                has = max(value for value, denied, _ in met if denied == wish.denied)
                of_wishes.append((wish, has, sum(value * weight for value, _, weight in met)))
        lexical = sum(share * self._documents.score(words, item) for words, share in self._asserted(wishes))
        return BonusParts(self.weights.lexical * lexical, of_wishes)

    def _conditions(self, held: Iterable[Wish]) -> Iterator[_Condition]:
        """What wishes for labels and denials name, and the wrong side of a step, which counts as denied."""
        for wish in held:
            if wish.labels or wish.denied:
                yield _Condition(self._met(wish), wish.denied)
            if wish.against:
                yield _Condition(self._having(wish.against, True), True)

    def _scored(self, wish: Wish, wishes: Wishes) -> Iterator[tuple[_Condition, float]]:
        """Conditions of a wish, and what meeting them adds to the score.

        Words that are looked for in texts weigh no more than one such word together, so that labels count more.
        """
        weights = self._weights_of(wish)
        by_words = self._learned and self._is_unseen(wish)  # who learned no words reads all
        of_unseen = min(OUTWEIGHS, UNSEEN * weights.whole) if by_words else None
        fading = weights.memory ** (len(wishes.asserted) - 1 - wish.turn)
        soft = wish.interpreted or (bool(wish.labels) and wish.labels <= self._category_labels)
        own = weights.interpreted if soft and weights.interpreted is not None else of_unseen
        wanted, denied = (weights.wanted, weights.whole) if own is None else (own, own)
        if wish.denied and not soft:
            denied = weights.denied
        for condition in self._conditions([wish]):
            yield condition, -denied if condition.denied else wanted * fading
        if self._is_looked_for(wish):
            together = IN_TEXTS if weights.interpreted is not None else of_unseen or weights.wanted
            share = 1 / sum(self._is_looked_for(one) for one in wishes.held)
            yield _Condition(self._in_texts(wish.words), False), together * share * fading

    def _weights_of(self, wish: Wish) -> Weights:
        """Small weights are those of captions, which are about a product: what is said without one is obeyed."""
        return obeying(self.weights.lexical) if wish.alone and self.weights.full else self.weights

    def _is_unseen(self, wish: Wish) -> bool:
        """Whether the retriever never saw the words of a wish."""
        return self._learned is not None and not self._learned.issuperset(tokenize(wish.words))

    def _is_looked_for(self, wish: Wish) -> bool:
        """Whether words are looked for in texts: no vector has them, and they are no label, such as a brand, or only
        stand for one, unless they are on a scale: a "short" dress may have long sleeves."""
        if wish.denied or wish.step or not self._is_unseen(wish):
            return False
        is_other = wish.interpreted and (wish.family == COLOR or not self.lexicon.levels(wish.family))
        return not wish.labels or (is_other and self._weights_of(wish).interpreted is not None)

    def _asserted(self, wishes: Wishes) -> Iterator[tuple[str, float]]:
        """Asserted words of each turn, the newest first, and the share of their weight that is left."""
        if self.weights.memory == 1:
            yield " ".join(wishes.asserted), 1.0  # a repeated word counts once
            return
        for age, words in enumerate(reversed(wishes.asserted)):
            yield words, self.weights.memory**age

    def _met(self, wish: Wish) -> Having:
        """How far each product has what a wish names."""
        if not wish.labels:
            return self._in_texts(wish.words)
        if not wish.denied:
            return self._having(wish.labels, False)
        kinds = (self._kinds.get(label, frozenset()) for label in wish.labels)
        return self._having(wish.labels.union(*kinds), True)

    def _containing(self, words: str) -> Having:
        return Having.of(self._documents.containing(words), self._size)

    def _products(self, labels: frozenset[str], denied: bool) -> Having:
        """How far each product has one of these labels, as evidence for a wish or a denial."""
        item_K = self._labels.having(labels)
        if self._seen is None or not self._some_unknown:
            return Having.of(item_K, self._size)
        met_N = np.zeros(self._size, np.float32)
        for label in labels:
            chance_N = self._seen.probability(label)
            if chance_N is not None:
                counts_N = self._labels.unknown_N | (label in self._said)
                np.maximum(met_N, np.where(counts_N, evidence(chance_N, denied), 0), out=met_N)
        met_N[item_K] = 1
        return Having(None, met_N)


def wish_key(wish: Wish) -> str:
    """Short name of a wish, the same for equal wishes."""
    named = "|".join([str(wish.denied), *(sorted(wish.labels) or [wish.text.lower()])])
    return hashlib.sha256(named.encode()).hexdigest()[:8].translate(_LETTERS)
