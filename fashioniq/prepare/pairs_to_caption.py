"""Choice of the product pairs that people caption."""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import split_file
from fashioniq.data.images import UnreadableImage
from fashioniq.files import UserError, read_json
from fashioniq.prepare.similar import Look, copies, look_of

NEAREST = 10  # candidates considered per target
_SHARES = {"val": 0.15, "test": 0.15}  # of all pairs; the others are for training

Vectors = tuple[Sequence[str], np.ndarray]  # ids, and the vectors of these products, N×D


class Comparison(NamedTuple):
    """A pair to caption: the caption says how the target differs from the candidate."""

    split: str
    candidate: str
    target: str


def counts_of(split: str, count: int) -> dict[str, int]:
    """Number of pairs per split; `all` divides them into 70 % train, 15 % val and 15 % test, at least one
    each.
    """
    if split != "all":
        return {split: count}
    held_out = {name: max(1, round(share * count)) for name, share in _SHARES.items()}
    counts = {"train": count - sum(held_out.values()), **held_out}
    return {name: counts[name] for name in SPLITS}


def source_of(catalog: Catalog, split: str, vectors: Vectors | None) -> str:
    """Source of the pairs that `choose` uses, in words."""
    if split_file(catalog.root, "pairs", catalog.category, split).exists():
        return "titles"
    return "random pairs" if vectors is None else "neighbors in the feature store"


def choose(
    catalog: Catalog,
    split: str,
    count: int,
    seed: int,
    vectors: Vectors | None = None,
    taken: Collection[Comparison] = (),
) -> list[Comparison]:
    """Choose at most `count` pairs of a split that are not in `taken`, in an order determined by the seed.

    They come from the pairs by titles, if any were written. Otherwise, each target gets one of its
    NEAREST neighbors by cosine similarity of `vectors`, or a random product without `vectors`. Products
    without a readable picture are left out, unless the catalog has no pictures, and so are pairs of
    duplicate pictures.

    Raises UserError if the file of pairs is malformed, or if fewer than two products can be shown.
    """
    chance = random.Random(f"{seed} {split}")
    shown = _shown(catalog, split)
    if split_file(catalog.root, "pairs", catalog.category, split).exists():
        offered = iter(_recorded(catalog, split, set(shown), chance))
    else:
        offered = _drawn(split, shown, _candidates(split, shown, vectors, seed), chance)
    differ = _differ(catalog)
    chosen: dict[Comparison, None] = {}
    excluded = set(taken)
    while len(chosen) < count and (pair := next(offered, None)):
        if pair not in excluded and differ(pair):
            chosen[pair] = None
    return list(chosen)


def _recorded(catalog: Catalog, split: str, shown: set[str], chance: random.Random) -> list[Comparison]:
    """Pairs by titles whose products can be shown, in random order."""
    path = split_file(catalog.root, "pairs", catalog.category, split)
    ids, pairs = set(catalog.ids(split)), []
    for number, row in enumerate(read_json(path, "the pairs", list)):
        names = [row.get("candidate"), row.get("target")] if isinstance(row, dict) else [None]
        if not all(isinstance(name, str) and name in ids for name in names):
            raise UserError(
                f'{path}, entry {number}: expected {{"target", "candidate"}} of the {split} split, '
                f"found {str(row)[:80]}; run caption-pairs with --titles again"
            )
        pair = Comparison(split, *map(str, names))
        if pair.candidate != pair.target and {pair.candidate, pair.target} <= shown:
            pairs.append(pair)
    chance.shuffle(pairs)
    return pairs


def _shown(catalog: Catalog, split: str) -> list[str]:
    """Products of a split that can be shown, sorted: those with a picture, or all if there are no pictures."""
    shown = sorted(name for name in catalog.ids(split) if name in catalog.images or not catalog.images)
    if len(shown) < 2:
        raise UserError(
            f"expected at least two products with a picture in the {split} split of {catalog.category}, "
            f"found {len(shown)}; add pictures to {catalog.root / 'images'}"
        )
    return shown


def _candidates(
    split: str, shown: Sequence[str], vectors: Vectors | None, seed: int
) -> Callable[[str], list[str]]:
    """Function that returns at most NEAREST candidates of a target, in random order."""
    ids, vectors_ND = vectors if vectors else ((), np.empty((0, 0)))
    position_of = {name: position for position, name in enumerate(ids)}
    known = [name for name in shown if name in position_of]
    unit_ND = vectors_ND[[position_of[name] for name in known]] if known else vectors_ND
    unit_ND = unit_ND / np.maximum(np.linalg.norm(unit_ND, axis=1, keepdims=True), 1e-12)
    row_of = {name: row for row, name in enumerate(known)}

    def candidates(target: str) -> list[str]:
        chance = random.Random(f"{seed} {split} {target}")
        if target in row_of:
            nearest = np.argsort(-(unit_ND @ unit_ND[row_of[target]]), kind="stable")[: NEAREST + 1]
            names = [known[row] for row in nearest.tolist() if known[row] != target][:NEAREST]
        else:
            names = chance.sample(shown, min(NEAREST + 1, len(shown)))
            names = [name for name in names if name != target][:NEAREST]
        return chance.sample(names, len(names))

    return cache(candidates)


def _drawn(
    split: str, shown: Sequence[str], candidates: Callable[[str], list[str]], chance: random.Random
) -> Iterator[Comparison]:
    """Pairs of all targets with their first candidates, then with their second ones, and so on."""
    targets = chance.sample(shown, len(shown))
    for number in range(NEAREST):
        for target in targets:
            if number < len(candidates(target)):
                yield Comparison(split, candidates(target)[number], target)


def _differ(catalog: Catalog) -> Callable[[Comparison], bool]:
    """Function that reports whether both pictures of a pair are readable and not duplicates."""

    @cache
    def look(name: str) -> Look | None:
        try:
            return look_of(catalog.images[name])
        except UnreadableImage:
            return None

    def differ(pair: Comparison) -> bool:
        if not catalog.images:
            return True
        looks = [found for name in (pair.candidate, pair.target) if (found := look(name))]
        return len(looks) == 2 and not copies(looks)

    return differ
