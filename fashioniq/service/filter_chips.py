"""Chips of the page: words that divide the products found, and what holds."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from fashioniq.service.reply_schemas import Changed, FacetCounts, FamilyCounts, Held, LabelCount
from fashioniq.service.served_model import Served
from fashioniq.service.translations import N_

SUGGESTED = 8  # words
OF_FAMILY = 3  # of them, at most
FEW = 2  # products that a suggested word has at least
COMMON = 0.5  # share of the products from which on a label says nothing
NAMED = 3  # labels of a wish that are named one by one
FAMILIES = {  # their names, in the order in which they are shown
    "colour": N_("Color"),
    "pattern": N_("Pattern"),
    "sleeves": N_("Sleeves"),
    "length": N_("Length"),
    "neck": N_("Neckline"),
    "fit": N_("Fit"),
    "silhouette": N_("Silhouette"),
    "fabric": N_("Material"),
    "detail": N_("Details"),
    "style": N_("Style"),
}
PARTS = {"detail", "neck", "trim", "print", "sleeves"}  # "without a belt", but "not red"


class Chip(NamedTuple):
    """A wish that holds. `id` takes it back; `without` says that it denies a part, such as a belt."""

    id: str
    words: str
    denied: bool
    without: bool


def chips_of(holding: Sequence[Held]) -> list[Chip]:
    """What holds of the wishes."""
    return [
        Chip(
            one.id,
            ", ".join(one.labels) if 0 < len(one.labels) <= NAMED else one.text,
            one.denied,
            one.family in PARTS,
        )
        for one in holding
        if one.kind == "wish"
    ]


def replaced(changed: Sequence[Changed]) -> list[tuple[str, str]]:
    """Words that were replaced, and by what in the end: "burgndy" by "red", without "burgundy" between them."""
    meant = {one.said: one.meant for one in changed}
    between = set(meant.values())
    return [(said, meant.get(last, last)) for said, last in meant.items() if said not in between]


def families(facets: FacetCounts | None) -> list[FamilyCounts]:
    """Families of labels that are shown, in their order."""
    found = {one.family: one for one in facets.families} if facets else {}
    return [found[family] for family in FAMILIES if family in found]


def suggestions(divided: Sequence[FamilyCounts], holding: Sequence[Held]) -> list[LabelCount]:
    """The most frequent words of families of which nothing is wanted, in turn."""
    wanted = {one.family for one in holding if not one.denied}
    columns = [
        [label for label in one.labels[:OF_FAMILY] if label.count >= FEW]
        for one in divided
        if one.family not in wanted
    ]
    return [label for row in zip_longest(*columns) for label in row if label is not None][:SUGGESTED]


def common_labels(served: Served) -> set[str]:
    """Labels that most products have."""
    count = len(served.system.gallery)
    counted = served.facets.counts(np.ones(count, bool))
    found = {label for labels in counted.values() for label, having in labels if having > COMMON * count}
    wording = served.system.wording
    return found | (set(wording.lexicon.common) if wording else set())
