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
from fashioniq.evaluation.requests import kinds
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
    "one wish": Kind(kinds.one_wish),
    "two wishes": Kind(kinds.several_wishes),
    "about a product": Kind(kinds.about_product),
    "memory": Kind(kinds.several_wishes),
    "change of mind": Kind(kinds.change_of_mind),
    "denial": Kind(kinds.denial),
    "two denials": Kind(kinds.two_denials),
    "wish and denial": Kind(kinds.wish_and_denial),
    "a product without": Kind(kinds.product_without),
    "instead of": Kind(kinds.instead_of),
    "word order": Kind(kinds.word_order),
    "name": Kind(kinds.name, "names"),
    "name and wish": Kind(kinds.name_and_wish, "names"),
    "comparison": Kind(kinds.comparison),
    "wish by place": Kind(partial(kinds.about_product, by_place=True)),
    "comparison by place": Kind(partial(kinds.comparison, by_place=True)),
    "misspelled": Kind(kinds.misspelled),
    "two misspelled": Kind(partial(kinds.misspelled, words=2)),
    "misspelled by people": Kind(partial(kinds.misspelled, by_people=True), "misspellings"),
    "other words": Kind(kinds.other_words),
    "price": Kind(kinds.price, "offers"),
    "cheaper": Kind(kinds.cheaper, "offers"),
    "size": Kind(kinds.size, "offers"),
    "stock": Kind(kinds.stock, "offers"),
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
