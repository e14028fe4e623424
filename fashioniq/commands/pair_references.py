"""Pair every product with those of its split whose titles share the heaviest words with its own."""

import json
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from fashioniq.categories import file_name
from fashioniq.config import PairReferences
from fashioniq.data.catalog import SPLITS, Catalog, title_of
from fashioniq.data.titles import product_rows
from fashioniq.files import UserError, atomic_write
from fashioniq.prepare.pairing import reference_pairs
from fashioniq.report.tables import print_table

_FIRST = (1, 5, 50)
_CAPTIONED = ("train", "val")  # released test captions name no target


def run(settings: PairReferences) -> None:
    """Write the pairs of all splits, or measure how near the captioned references are."""
    catalog = Catalog(settings.data, settings.category)
    if settings.compare:
        _compare(catalog)
    else:
        _pair(catalog, settings.out or catalog.root / "pairs", settings.per_target)


def _titles(catalog: Catalog, split: str) -> dict[str, str]:
    """The titles of a split in the order of the ids, which is that of ties."""
    titles = {name: title for name, row in sorted(product_rows(catalog, split).items()) if (title := title_of(row))}
    if len(titles) < 2:
        raise UserError(f"{len(titles)} products of the {split} split of {catalog.category} have a title in titles/: a pair needs two")
    return titles


def _pair(catalog: Catalog, folder: Path, per_target: int) -> None:
    """Find the references of all splits, then write them, each file whole; none takes its name before all are written."""
    pairs = {}
    for split in SPLITS:
        titles = _titles(catalog, split)
        names, found = list(titles), reference_pairs([*titles.values()], min(per_target, len(titles) - 1)).tolist()
        near = {target: [names[place] for place in places if place >= 0] for target, places in zip(names, found, strict=True)}
        ids = catalog.ids(split)
        pairs[split] = [{"target": target, "candidate": candidate} for target in ids for candidate in near.get(target, [])]
        alone = sum(not candidates for candidates in near.values())
        left_out = f"{len(ids) - len(names):,} products have no title, {alone:,} share no word with another"
        print(f"{catalog.category} {split}: {len(pairs[split]):,} pairs of {len(names) - alone:,} targets; {left_out}")
    with ExitStack() as files:
        for split, some in pairs.items():
            path = files.enter_context(atomic_write(folder / f"pairs.{file_name(catalog.category)}.{split}.json"))
            path.write_text(json.dumps(some, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"pairs are in {folder}")


def _compare(catalog: Catalog) -> None:
    """How often the captioned reference is among the first of its target, where both have titles."""
    rows = []
    for split in _CAPTIONED:
        captioned = [(pair.target, pair.candidate) for pair in catalog.pairs(split) if pair.target]
        titles = _titles(catalog, split)
        place_of = {name: place for place, name in enumerate(titles)}
        known = [(place_of[target], place_of[candidate]) for target, candidate in captioned if target in place_of and candidate in place_of]
        found = reference_pairs([*titles.values()], max(_FIRST))
        shares = [100 * np.mean([candidate in found[target, :count] for target, candidate in known]) if known else np.nan for count in _FIRST]
        counts = [f"{len(some):,}" for some in (titles, captioned, known)]
        rows.append([split, *counts, *(f"{share:.1f}" for share in shares)])
    print_table(["split", "titles", "captioned", "with titles", *(f"first {count}" for count in _FIRST)], rows)
    print("percent of the captioned references among the first of their targets; only products with titles are ranked")
