"""Products of a catalog by their labels and offers, which decide whether a result obeys a request.

A product has exactly the labels that the catalog gives it, however many: a red dress with white dots has the labels red
and white, so that it obeys "red", and neither "not red" nor "not white". A label that ends with the words of another
one of its type is a kind of it: "navy blue" obeys "blue" and violates "not blue". Nothing else is implied: a product
without the label "striped" obeys "not striped", and a strapless dress is not "sleeveless". A garment that is named is
wanted, unless it is the name of the category: "a red top" is any red product among tops, "a red tunic" a tunic. A name,
such as a brand, is a word that several titles begin with, and that is in no label.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fashioniq.categories import singular
from fashioniq.data.languages import TYPES, Language, PhraseGroup
from fashioniq.data.offers import Offer
from fashioniq.data.search_requests import RequestTruth
from fashioniq.data.words import tokenize

RESULTS = 8  # results that are judged
SHORTEST = 5  # letters of a name; shorter ones are often words of the language, such as "only"


class FindableProducts:
    """Products that can be found: their labels, the products with each label, and their offers.

    `labels_of` has the labels of each product as the catalog gives them, `having` the products that have each label or
    a kind of it, `group_of` how each label is phrased. `name` is the singular of the category, `titled` the
    products whose titles have a name, for each name that titles begin with.
    """

    def __init__(
        self,
        labels: Mapping[str, Sequence[Sequence[str]]],
        ids: Iterable[str],
        speech: Language,
        category: str,
        *,
        offers: Mapping[str, Offer] | None = None,
        titles: Mapping[str, str] | None = None,
    ) -> None:
        self.speech, self.name = speech, singular(category)
        self.ids = tuple(name for name in ids if any(labels.get(name, ())))
        known = set(self.ids)
        self.offers = {name: offer for name, offer in (offers or {}).items() if name in known}
        others = {group.kind: group for group in speech.other}
        self.labels_of: dict[str, tuple[str, ...]] = {}
        self.group_of: dict[str, PhraseGroup] = {}
        self.garments: set[str] = set()
        for name in self.ids:
            self.labels_of[name] = tuple(dict.fromkeys(word for words in labels[name] for word in words))
            for kind, words in enumerate(labels[name]):
                for word in words:
                    self.group_of.setdefault(word, speech.group_of.get(word, others[kind]))
                    if kind == TYPES["garment"]:
                        self.garments.add(word)
        exact: dict[str, set[str]] = {word: set() for word in self.group_of}
        for name, words in self.labels_of.items():
            for word in words:
                exact[word].add(name)
        self.having = {
            word: frozenset().union(*(exact[one] for one in exact if one == word or self.is_kind(one, word)))
            for word in exact
        }
        self.titled = self._titled({} if titles is None else titles)

    def _titled(self, titles: Mapping[str, str]) -> dict[str, frozenset[str]]:
        in_labels = {part for label in self.group_of for part in tokenize(label)} | {self.name}
        words_of = {name: tokenize(titles.get(name, "").replace("'", "")) for name in self.ids}
        begins = Counter(words[0] for words in words_of.values() if len(words) > 1)
        return {
            word: frozenset(name for name, words in words_of.items() if word in words)
            for word, count in sorted(begins.items())
            if RESULTS <= count < len(self.ids) / 2 and len(word) >= SHORTEST and word not in in_labels
        }

    def family(self, label: str) -> str:
        """Family of a label; labels of one family are alternatives."""
        return self.group_of[label].family

    def is_kind(self, label: str, of: str) -> bool:
        """Whether a label is a kind of another, such as navy blue of blue; a German compound ends with the other."""
        ending = of if self.speech.code == "de" else f" {of}"
        same_type = self.group_of[label].kind == self.group_of[of].kind
        return label != of and label.endswith(ending) and same_type

    def related(self, label: str, other: str) -> bool:
        """Whether two labels are the same, or one is a kind of the other."""
        return label == other or self.is_kind(label, other) or self.is_kind(other, label)

    def has(self, name: str, label: str) -> bool:
        """Whether a product has a label, or a kind of it."""
        return name in self.having[label]

    def obeying(self, truth: RequestTruth) -> frozenset[str]:
        """Products that obey. Those without labels never do."""
        found = frozenset(self.ids)
        for words in truth.wanted:
            found &= frozenset().union(*(self.having.get(word, frozenset()) for word in words))
        for word in truth.denied:
            found -= self.having.get(word, frozenset())
        if truth.named:
            found &= self.titled.get(truth.named, frozenset())
        if truth.price_most is None and truth.size is None and not truth.in_stock:
            return found
        return frozenset(name for name in found if _offers(self.offers.get(name), truth))


def _offers(offer: Offer | None, truth: RequestTruth) -> bool:
    if offer is None:
        return False
    if truth.price_most is not None:
        priced = offer.price_minor is not None and offer.currency == truth.currency
        if not priced or (offer.price_minor or 0) > truth.price_most:
            return False
    if truth.size is not None and truth.size not in offer.sizes:
        return False
    return bool(offer.in_stock) or not truth.in_stock
