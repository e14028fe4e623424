"""Requests made from the labels and offers of a catalog, of several kinds.

Each kind draws products and labels with a random generator of its own, so that its requests do not depend on other
kinds. Every request can be obeyed by at least RESULTS products besides those it is about, and by as many more for each
further turn, as a search may leave out what it has shown.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from fashioniq.data.requested import RequestCase
from fashioniq.evaluation.requests import offers, spelling, wishes
from fashioniq.evaluation.requests.findable_products import FindableProducts
from fashioniq.evaluation.requests.maker import Maker
from fashioniq.evaluation.requests.phrasings import NotPossible, RequestPhrasings

TRIES = 60  # draws per request wanted, after which a kind has as many requests as were found


@dataclass(frozen=True)
class Kind:
    """Kind of requests: how one is drawn, and whether it needs names in titles, offers, or people's misspellings."""

    draw: Callable[[Maker], RequestCase]
    needs: str = ""


KINDS: dict[str, Kind] = {
    "one wish": Kind(wishes.one_wish),
    "two wishes": Kind(wishes.several_wishes),
    "about a product": Kind(wishes.about_product),
    "memory": Kind(wishes.several_wishes),
    "change of mind": Kind(wishes.change_of_mind),
    "denial": Kind(wishes.denial),
    "two denials": Kind(wishes.two_denials),
    "wish and denial": Kind(wishes.wish_and_denial),
    "a product without": Kind(wishes.product_without),
    "instead of": Kind(wishes.instead_of),
    "word order": Kind(wishes.word_order),
    "name": Kind(wishes.name, "names"),
    "name and wish": Kind(wishes.name_and_wish, "names"),
    "comparison": Kind(wishes.comparison),
    "wish by place": Kind(partial(wishes.about_product, by_place=True)),
    "comparison by place": Kind(partial(wishes.comparison, by_place=True)),
    "misspelled": Kind(spelling.misspelled),
    "two misspelled": Kind(partial(spelling.misspelled, words=2)),
    "misspelled by people": Kind(partial(spelling.misspelled, by_people=True), "misspellings"),
    "other words": Kind(spelling.other_words),
    "price": Kind(offers.price, "offers"),
    "cheaper": Kind(offers.cheaper, "offers"),
    "size": Kind(offers.size, "offers"),
    "stock": Kind(offers.stock, "offers"),
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
