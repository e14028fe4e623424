"""What the page offers as chips: words that divide the products found, and what holds of the requests so far."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from fashioniq.data.catalog import Catalog
from fashioniq.data.languages import LANGUAGES, language
from fashioniq.files import UserError
from fashioniq.language.grammar import grammar
from fashioniq.language.wishes import Wish, Wishes
from fashioniq.serving.facets import Facets
from fashioniq.serving.schemas import Filters, TurnShown
from fashioniq.serving.served import Served
from fashioniq.systems.run_data import settings_of

SUGGESTED = 8  # words
COMMON = 0.5  # share of the products from which on a label says nothing
LIKELY = 0.5  # probability from which on a product counts as having a label
FEW = 2  # products; fewer are not divided
NAMED = 3  # labels of a wish that are named one by one
FAMILIES = (
    "colour",
    "pattern",
    "sleeves",
    "length",
    "neck",
    "fit",
    "silhouette",
    "fabric",
    "detail",
    "style",
)
PARTS = {"detail", "neck", "trim", "print", "sleeves"}  # "without a belt", but "not red"


class Held(NamedTuple):
    """A wish that holds, and the request that takes it back. `without` says that a denied one is a part."""

    words: str
    denied: bool
    without: bool
    forget: str


class Understood(NamedTuple):
    """What was understood of the requests: the wishes that hold, and words of the last one that were replaced."""

    held: list[Held]
    changed: list[tuple[str, str]]


class _Words(NamedTuple):
    """Language and labels of a catalog."""

    language: str
    facets: Facets
    common: frozenset[str]


_known: WeakKeyDictionary[Served, _Words] = WeakKeyDictionary()


def language_of(served: Served) -> str:
    """Language of the catalog."""
    return _words(served).language


def common_labels(served: Served) -> frozenset[str]:
    """Labels that most products have."""
    return _words(served).common


def families(
    served: Served, filters: Filters, wishes: Wishes | None
) -> list[tuple[str, list[tuple[str, int]]]]:
    """Words that some of the products found have, with their number, by family."""
    counts = _words(served).facets.counts(found(served, filters, wishes))
    return [(family, counts[family]) for family in FAMILIES if family in counts]


def suggestions(
    divided: Sequence[tuple[str, list[tuple[str, int]]]], wishes: Wishes | None
) -> list[tuple[str, int]]:
    """The most frequent words of families of which nothing is wanted, in turn."""
    held = {wish.family for wish in wishes.held if not wish.denied} if wishes else set()
    columns = [
        [one for one in words[:3] if one[1] >= FEW] for family, words in divided if family not in held
    ]
    in_turn = [one for row in zip_longest(*columns) for one in row if one is not None]
    return in_turn[:SUGGESTED]


def found(served: Served, filters: Filters, wishes: Wishes | None) -> np.ndarray:
    """Mask of the products that meet the filters and, if at least FEW do, all wishes; N."""
    obey_N = _obeying(served, filters, wishes)
    return obey_N if np.count_nonzero(obey_N) >= FEW else served.shelf.allowed(filters)[0].numpy()


def matching(served: Served, filters: Filters, wishes: Wishes | None) -> int | None:
    """Number of the products that meet the filters and all wishes; None if nothing is wished for."""
    if wishes is None or not any(wish.labels for wish in wishes.held):
        return None
    return int(np.count_nonzero(_obeying(served, filters, wishes)))


def _obeying(served: Served, filters: Filters, wishes: Wishes | None) -> np.ndarray:
    allowed_N = served.shelf.allowed(filters)[0].numpy()
    wording = served.system.wording
    if wording is None or wishes is None:
        return allowed_N
    obey_N = allowed_N.copy()
    for wish in wishes.held:
        if wish.labels:
            obey_N &= (wording.meets(wish.labels) >= LIKELY) != wish.denied
    return obey_N


def wishes_of(served: Served, turns: Sequence[TurnShown]) -> Wishes | None:
    """Wishes after the turns of a conversation; None for a model that does not read any."""
    system = served.system
    if system.wording is None:
        return None
    wishes, positions = Wishes(), system.gallery.items.positions
    for turn in turns:
        if turn.says:
            wishes = system.wording.after(wishes, turn.says, positions.get(turn.about or ""))
    return wishes


def understood(served: Served, turns: Sequence[TurnShown], wishes: Wishes | None) -> Understood:
    """What was understood of the turns of a conversation."""
    says = turns[-1].says if turns else None
    replaced = dict(served.system.read(says).changed) if says else {}
    between = {meant for meant in replaced.values() if meant in replaced}  # of "burgndy" → "burgundy" → "red"
    changed = [(said, replaced.get(meant, meant)) for said, meant in replaced.items() if said not in between]
    if wishes is None:
        return Understood([], changed)
    code = language_of(served)
    held = [_held(wish, code) for wish in wishes.held if not wish.step or wish.labels]
    return Understood(list({one.words: one for one in held}.values()), changed)


def _held(wish: Wish, code: str) -> Held:
    labels = sorted(wish.labels)
    forget = {"en": "forget", "de": "vergiss"}[code]
    if wish.step:
        noun = next(
            (noun for noun, family in grammar(code).nouns.items() if family == wish.family), wish.text
        )
        return Held(wish.text, wish.denied, False, f"{forget} {noun}")
    if not 0 < len(labels) <= NAMED:
        return Held(wish.text, wish.denied, wish.family in PARTS, f"{forget} {wish.text}")
    joint = {"en": " and ", "de": " und "}[code]
    return Held(", ".join(labels), wish.denied, wish.family in PARTS, f"{forget} {joint.join(labels)}")


def _words(served: Served) -> _Words:
    if (words := _known.get(served)) is None:
        words = _known[served] = _read(served)
    return words


def _read(served: Served) -> _Words:
    """Labels of the catalog of a run, by type; of a system without a run, those of its cards."""
    cards, ids = served.system.cards, served.system.gallery.items.ids
    labels: Mapping[str, Sequence[Sequence[str]]] = {
        name: [words] for name, words in cards.attributes.items()
    }
    code = "en"
    try:
        catalog = Catalog(Path(str(settings_of(served.folder).get("data"))), served.category)
        labels, code = catalog.labels or labels, catalog.language
    except (UserError, OSError, msgspec.ValidationError):
        pass
    code = code if code in LANGUAGES else "en"
    counts = Counter(
        word for name in ids for word in {one for words in labels.get(name, ()) for one in words}
    )
    common = frozenset(word for word, count in counts.items() if count > COMMON * len(ids))
    return _Words(code, Facets(ids, labels, language(code)), common)
