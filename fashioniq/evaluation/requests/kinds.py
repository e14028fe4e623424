"""Requests made from the labels and offers of a catalog, of several kinds: about labels, with misspelled words or words
that are no labels, and about prices and stock.

Each kind draws products and labels with a random generator of its own, so that its requests do not depend on other
kinds. Every request can be obeyed by at least RESULTS products besides those it is about, and by as many more for each
further turn, as a search may leave out what it has shown.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from fashioniq.data.search_requests import RequestCase, RequestTruth, RequestTurn
from fashioniq.evaluation.requests.findable_products import FindableProducts
from fashioniq.evaluation.requests.maker import COLOUR, MOST, Maker
from fashioniq.evaluation.requests.phrasings import NotPossible, RequestPhrasings

ALTERNATIVES = {"colour", "pattern", "fabric", "length", "fit", "neck", "sleeves", "style"}  # of "instead of"
TRIES = 60  # draws per request wanted, after which a kind has as many requests as were found


def one_wish(maker: Maker) -> RequestCase:
    """One wish, no product named."""
    labels = maker.labels(1)
    return maker.of_labels(labels, wanted=labels, base=maker.product(labels[0]))


def several_wishes(maker: Maker) -> RequestCase:
    """Two wishes of different families, in one turn or in two: the first one must hold after the second."""
    base = maker.product()
    labels = maker.labels(2, base)
    return maker.of_labels(labels, wanted=labels, base=base)


def about_product(maker: Maker, by_place: bool = False) -> RequestCase:
    """One wish about a product that lacks it; if it is named `by_place`, several are shown."""
    about, labels = maker.product(), maker.labels(1)
    maker.require(not maker.shelf.has(about, labels[0]))
    ordinal = maker.ordinal() if by_place else None
    return maker.of_labels(labels, wanted=labels, about=about, ordinal=ordinal)


def change_of_mind(maker: Maker) -> RequestCase:
    """Three turns: the third wish is in place of the first, which need not hold any more; the second one must."""
    base = maker.product()
    last, second = maker.labels(2, base)
    maker.require(maker.shelf.family(last) in ALTERNATIVES)
    return maker.of_labels([maker.alternative(last), second, last], wanted=[second, last], base=base)


def denial(maker: Maker) -> RequestCase:
    """One denial about a product that has the label."""
    labels = maker.labels(1)
    return maker.of_labels(labels, denied=labels, about=maker.product(labels[0]))


def two_denials(maker: Maker) -> RequestCase:
    """Two denials about a product that has both labels."""
    about = maker.product()
    labels = maker.labels(2, about)
    return maker.of_labels(labels, denied=labels, about=about)


def wish_and_denial(maker: Maker) -> RequestCase:
    """About a product that lacks the label wanted and has the one denied, of another family."""
    about, wished = maker.product(), maker.labels(1)
    denied = maker.labels(1, about)
    maker.require(not maker.shelf.has(about, wished[0]))
    maker.require(maker.shelf.family(wished[0]) != maker.shelf.family(denied[0]))
    return maker.of_labels([*wished, *denied], wanted=wished, denied=denied, about=about)


def product_without(maker: Maker) -> RequestCase:
    """A wish and a denial of another family, no product named."""
    wished, denied = maker.labels(1), maker.labels(1)
    maker.require(maker.shelf.family(wished[0]) != maker.shelf.family(denied[0]))
    base = maker.product(wished[0])
    return maker.of_labels([*wished, *denied], wanted=wished, denied=denied, base=base)


def instead_of(maker: Maker) -> RequestCase:
    """A label that the product talked about lacks in place of one that it has, of the same family."""
    had = maker.labels(1)
    maker.require(maker.shelf.family(had[0]) in ALTERNATIVES)
    about, wished = maker.product(had[0]), maker.alternative(had[0])
    maker.require(not maker.shelf.has(about, wished))
    return maker.of_labels([wished, *had], wanted=[wished], denied=had, about=about)


def word_order(maker: Maker) -> RequestCase:
    """A label and not another one of its family, no product named: in another order, the words ask for that one."""
    wished = maker.labels(1)
    maker.require(maker.shelf.family(wished[0]) in ALTERNATIVES)
    denied, base = maker.alternative(wished[0]), maker.product(wished[0])
    return maker.of_labels([*wished, denied], wanted=wished, denied=[denied], base=base)


def name(maker: Maker) -> RequestCase:
    """A name that titles begin with, no product named."""
    return maker.of_labels([], named=maker.name(), base=maker.product())


def name_and_wish(maker: Maker) -> RequestCase:
    """A name that titles begin with, and a wish."""
    labels = maker.labels(1)
    return maker.of_labels(labels, wanted=labels, named=maker.name(), base=maker.product(labels[0]))


def comparison(maker: Maker, by_place: bool = False) -> RequestCase:
    """A step on a scale of the language, such as longer, from the level of the product talked about, which is one of
    several shown if it is named `by_place`.

    A product is at a level if its labels on the scale are of this level only, and of no other. Products that are off
    the scale do not obey, except for colors: a color off the scale, such as green, lies between the dark and the light
    ones, and all colors of a product count.
    """
    wording, slots = maker.wording, maker.ordinal() if by_place else {}
    phrasings = wording.comparisons_by_place if by_place else wording.comparisons
    speech, about = maker.shelf.speech, maker.product()
    family = maker.rng.choice(sorted(speech.scales.keys() & phrasings.keys()))
    levels = speech.scales[family].levels
    labels = maker.shelf.labels_of[about]
    own = [label for label in labels if maker.shelf.group_of[label].family == family]
    at = {number for number, words in enumerate(levels) for label in own if label in words}
    maker.require(len(at) == 1)
    (level,) = at
    maker.require(family != COLOUR or all(label in levels[level] for label in own))
    more = maker.rng.random() < 0.5
    right = range(level + 1, len(levels)) if more else range(level)
    wanted = {label for number in right for label in levels[number]}
    denied = {label for words in levels for label in words} - wanted
    if family == COLOUR:
        wanted = {label for label, group in maker.shelf.group_of.items() if group.family == COLOUR}
        denied = set(levels[level])
    maker.require(right)
    there = maker.shelf.group_of.keys()
    truth = RequestTruth(wanted=(tuple(sorted(wanted & there)),), denied=tuple(sorted(denied & there)))
    return maker.request(phrasings[family]["more" if more else "less"], slots, truth, about)


def misspelled(maker: Maker, words: int = 1, by_people: bool = False) -> RequestCase:
    """A wish, or two, with one word of a label misspelled, or two words, one of which is a label's."""
    errors = maker.by_people if by_people else maker.wording.misspellings
    base = maker.product()
    labels, phrased_as = maker.labels(words, base), "one wish" if words == 1 else "two wishes"
    request = maker.of_labels(labels, wanted=labels, base=base, phrased_as=phrased_as)
    text = request.text
    slots = maker.slots(labels, None)
    of_labels = set(re.findall(r"\w+", " ".join(slots[name] for name in slots if name.startswith("bare"))))
    places = [place for place in re.finditer(r"\w+", text) if place[0] in errors]
    maker.rng.shuffle(places)
    places.sort(key=lambda place: place[0] not in of_labels)
    chosen = places[:words]
    maker.require(len(chosen) == words and chosen[0][0] in of_labels)
    for place in sorted(chosen, key=lambda place: -place.start()):
        text = text[: place.start()] + maker.rng.choice(list(errors[place[0]])) + text[place.end() :]
    return RequestCase(maker.kind, (RequestTurn(text),), request.truth)


def other_words(maker: Maker) -> RequestCase:
    """A word of shoppers that is no label of the catalog, nor a part of one."""
    parts = {part for label in maker.shelf.group_of for part in (label, *label.split())}
    word = maker.rng.choice(maker.wording.other_words)
    means = tuple(label for label in word.means if label in maker.shelf.group_of)
    maker.require(means and maker.wording.bare(word.text) not in parts)
    truth = RequestTruth(wanted=(means,))
    maker.require(len(maker.shelf.obeying(truth)) <= MOST * len(maker.shelf.ids))
    garment = maker.garment(maker.product(maker.rng.choice(means)))
    slots = maker.wording.other_slots(word, garment)
    slots |= maker.wording.garment_slots(garment, maker.shelf.group_of.get(garment or ""))
    return maker.request(maker.wording.phrasings[maker.kind], slots, truth, None, garment)


PRICE_RANKS = (0.1, 0.6)  # shares of the products under a price that is asked for
MAJOR = 100  # minor units


def price(maker: Maker) -> RequestCase:
    """A price that results must not exceed; no product has exactly this price."""
    offers = maker.shelf.offers
    base = maker.rng.choice(sorted(offers))
    currency = offers[base].currency
    prices = sorted(
        one.price_minor for one in offers.values() if one.currency == currency and one.price_minor is not None
    )
    if currency is None or not prices:
        raise NotPossible
    rank = maker.rng.uniform(*PRICE_RANKS)
    limit = -(-prices[int(rank * (len(prices) - 1))] // MAJOR) * MAJOR
    maker.require(limit not in prices)
    truth = RequestTruth(price_most=limit, currency=currency)
    return _of_offers(maker, base, truth, price=maker.wording.price(limit, currency, maker.rng))


def cheaper(maker: Maker) -> RequestCase:
    """A lower price than that of the product talked about."""
    about = maker.rng.choice(sorted(maker.shelf.offers))
    offer = maker.shelf.offers[about]
    if not offer.price_minor:
        raise NotPossible
    truth = RequestTruth(price_most=offer.price_minor - 1, currency=offer.currency)
    return _of_offers(maker, about, truth, about=about)


def size(maker: Maker) -> RequestCase:
    """A size that results must have."""
    base = maker.rng.choice(sorted(maker.shelf.offers))
    sizes = maker.shelf.offers[base].sizes
    maker.require(sizes)
    wanted = maker.rng.choice(sizes)
    return _of_offers(maker, base, RequestTruth(size=wanted), size=wanted)


def stock(maker: Maker) -> RequestCase:
    """Results must be in stock."""
    return _of_offers(maker, maker.rng.choice(sorted(maker.shelf.offers)), RequestTruth(in_stock=True))


def _of_offers(
    maker: Maker, base: str, truth: RequestTruth, about: str | None = None, **slots: str
) -> RequestCase:
    maker.require(len(maker.shelf.obeying(truth)) <= MOST * len(maker.shelf.ids))
    garment = maker.garment(base)
    filled = slots | maker.wording.garment_slots(garment, maker.shelf.group_of.get(garment or ""))
    return maker.request(maker.wording.offers[maker.kind], filled, truth, about, garment)


@dataclass(frozen=True)
class Kind:
    """Kind of requests: how one is drawn, and whether it needs names in titles, offers, or people's misspellings."""

    draw: Callable[[Maker], RequestCase]
    needs: str = ""


KINDS: dict[str, Kind] = {
    "one wish": Kind(one_wish),
    "two wishes": Kind(several_wishes),
    "about a product": Kind(about_product),
    "memory": Kind(several_wishes),
    "change of mind": Kind(change_of_mind),
    "denial": Kind(denial),
    "two denials": Kind(two_denials),
    "wish and denial": Kind(wish_and_denial),
    "a product without": Kind(product_without),
    "instead of": Kind(instead_of),
    "word order": Kind(word_order),
    "name": Kind(name, "names"),
    "name and wish": Kind(name_and_wish, "names"),
    "comparison": Kind(comparison),
    "wish by place": Kind(partial(about_product, by_place=True)),
    "comparison by place": Kind(partial(comparison, by_place=True)),
    "misspelled": Kind(misspelled),
    "two misspelled": Kind(partial(misspelled, words=2)),
    "misspelled by people": Kind(partial(misspelled, by_people=True), "misspellings"),
    "other words": Kind(other_words),
    "price": Kind(price, "offers"),
    "cheaper": Kind(cheaper, "offers"),
    "size": Kind(size, "offers"),
    "stock": Kind(stock, "offers"),
}


def make_requests(
    shelf: FindableProducts,
    wording: RequestPhrasings,
    per_kind: int,
    seed: int,
    by_people: Mapping[str, Sequence[str]] | None = None,
) -> list[RequestCase]:
    """Different requests of all kinds that the catalog allows, at most `per_kind` of each."""
    needed = {"": True, "names": shelf.titled, "offers": shelf.offers, "misspellings": by_people}
    there = {name for name, found in needed.items() if found}
    found: list[RequestCase] = []
    for name, kind in KINDS.items():
        if kind.needs not in there:
            continue
        maker = Maker(name, shelf, wording, seed, by_people or {})
        requests: dict[RequestCase, None] = {}
        for _ in range(TRIES * per_kind if shelf.ids else 0):
            if len(requests) == per_kind:
                break
            with suppress(NotPossible):
                requests[kind.draw(maker)] = None
        found += requests
    return found
