"""Kinds of requests about price, size and stock."""

from fashioniq.data.requested import RequestCase, RequestTruth
from fashioniq.evaluation.requests.maker import MOST, Maker
from fashioniq.evaluation.requests.phrasings import NotPossible

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
