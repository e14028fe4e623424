"""The sentences that end a training: whether the result is good, and what would help most."""

from collections.abc import Mapping
from functools import partial

import torch
from torch.nn import functional as F

from fashioniq.data.catalog import Catalog
from fashioniq.data.items import Items
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.metrics.measures import at_chance, recall_at

FEW = 300  # captioned pairs of train below which more captions help most
SMALL = 20  # products of val up to which 10 in random order find at least half of the targets
WEAK, GOOD = 75, 90  # P of a retriever below which it is weak, and from which it is good
SHARE = 0.8  # share of what people's captions add to the product shown, from which a captioner is good
LITTLE = 0.25  # the same share, below which it is weak


def captioner_verdict(p: float, people: float, alone: float, pairs: int) -> str:
    """Whether captions lead a listener to the target, by its P on val with them, with people's captions, and with the
    product shown alone.
    """
    beside = f"P {p:.1f}, with the recorded captions {people:.1f}, without a caption {alone:.1f}"
    if p <= alone or at_chance(p, pairs):
        return f"not usable: its captions do not lead a listener to the target ({beside})"
    if p - alone < LITTLE * (people - alone):
        return f"weak: its captions say little that the product shown does not ({beside})"
    if p - alone < SHARE * (people - alone):
        return f"usable: its captions say less than the recorded ones ({beside})"
    return f"good: its captions say about as much as the recorded ones ({beside})"


def retriever_verdict(
    p: float, dialogs: int, recall: Mapping[str, float], products: int, floor: float | None
) -> str:
    """Whether a retriever understands its users, by P on val after the last turn and by R@10 with each user.

    The R@10 among these `products` is compared with that of random rankings; `floor` is that of the vector of the
    product shown, for recorded captions. Among SMALL products or fewer, nothing is judged.
    """
    chance = min(100.0, 1000 / products)
    with_users = ", ".join(f"{user} {value:.1f}" for user, value in recall.items())
    if products <= SMALL:
        return (
            f"not judged: val has only {products} products, of which 10 in random order have the target in "
            f"{chance:.0f} % of the dialogs (P {p:.1f}; R@10 {with_users}; by chance {chance:.1f})"
        )
    if at_chance(p, dialogs):
        return f"not usable: it ranks the target no better than chance (P {p:.1f}, by chance 50)"
    alone = "" if floor is None else f", the product shown without recorded captions {floor:.1f}"
    beside = f"R@10 {with_users}; by chance {chance:.1f}{alone}"
    deaf = [user for user, value in recall.items() if value < 2 * chance]
    if floor is not None and recall.get("recorded", floor) < floor:
        return f"weak: recorded captions help it less than the product shown alone ({beside})"
    if deaf or p < WEAK:
        users = " and ".join(deaf) or "all users"
        return f"weak: it seldom finds the target with {users} ({beside})"
    quality = "good" if p >= GOOD else "usable"
    return f"{quality} with the users of its training; evaluate it with other users, too ({beside})"


def floor_of(target_R: torch.Tensor, first_R: torch.Tensor, items: Items) -> float:
    """R@10 of a search with the vector of the product shown, without the words."""
    vectors_ND = items.embedded(partial(F.normalize, dim=-1))
    return recall_at(Gallery(items, vectors_ND).rank(vectors_ND[first_R], target_R), 10)


def advice(catalog: Catalog, store: FeatureStore) -> str:
    """What would help most, of what a catalog lacks; empty if nothing simple is missing."""
    try:
        pairs = len(catalog.pairs("train"))
    except UserError:  # no captions
        pairs = 0
    labelled = any(any(lists) for lists in catalog.labels.values())
    if store.has_random_weights:
        found = "features of a trained encoder, as these have random weights"
    elif len(catalog.ids("val")) <= SMALL:
        found = "more products"
    elif catalog.captions_origin != "human" and not labelled:
        found = "captions by people (`fashioniq caption-pairs`) or labels of the products"
    elif pairs < FEW:
        found = f"more captions; {pairs} pairs have some (`fashioniq caption-pairs`)"
    else:
        return ""
    return f"; what would help most: {found}"
