"""Pair every product with products of its split by the TF-IDF weights of shared title words."""

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
_CAPTIONED = ("train", "val")  # released test captions have no targets


def run(settings: PairReferences) -> None:
    """Write the pairs of all splits, or measure how often the captioned references are found."""
    catalog = Catalog(settings.data, settings.category)
    if settings.compare:
        _compare(catalog)
    else:
        _pair(catalog, settings.out or catalog.root / "pairs", settings.per_target)


def _titles(catalog: Catalog, split: str) -> dict[str, str]:
    """Titles of a split, sorted by id so that ties are deterministic."""
    titles = {
        name: title for name, row in sorted(product_rows(catalog, split).items()) if (title := title_of(row))
    }
    if len(titles) < 2:
        raise UserError(
            f"expected at least two titles in the {split} split of {catalog.category}, found {len(titles)}: "
            "add them to titles/"
        )
    return titles


def _pair(catalog: Catalog, folder: Path, per_target: int) -> None:
    """Find the references of all splits, then write them; files appear only when all are written."""
    pairs = {}
    for split in SPLITS:
        titles = _titles(catalog, split)
        names, found = (
            list(titles),
            reference_pairs([*titles.values()], min(per_target, len(titles) - 1)).tolist(),
        )
        near = {
            target: [names[position] for position in positions if position >= 0]
            for target, positions in zip(names, found, strict=True)
        }
        ids = catalog.ids(split)
        pairs[split] = [
            {"target": target, "candidate": candidate} for target in ids for candidate in near.get(target, [])
        ]
        alone = sum(not candidates for candidates in near.values())
        left_out = f"{len(ids) - len(names):,} products have no title, {alone:,} share no word with another"
        targets = len(names) - alone
        print(f"{catalog.category} {split}: {len(pairs[split]):,} pairs of {targets:,} targets; {left_out}")
    with ExitStack() as files:
        for split, rows in pairs.items():
            path = files.enter_context(
                atomic_write(folder / f"pairs.{file_name(catalog.category)}.{split}.json")
            )
            path.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"pairs are in {folder}")


def _compare(catalog: Catalog) -> None:
    """Print how often the captioned reference is among the first of its target, if both have titles."""
    rows = []
    for split in _CAPTIONED:
        captioned = [(pair.target, pair.candidate) for pair in catalog.pairs(split) if pair.target]
        titles = _titles(catalog, split)
        position_of = {name: position for position, name in enumerate(titles)}
        known = [
            (position_of[target], position_of[candidate])
            for target, candidate in captioned
            if target in position_of and candidate in position_of
        ]
        found = reference_pairs([*titles.values()], max(_FIRST))
        shares = [
            100 * np.mean([candidate in found[target, :count] for target, candidate in known])
            if known
            else np.nan
            for count in _FIRST
        ]
        counts = [f"{len(group):,}" for group in (titles, captioned, known)]
        rows.append([split, *counts, *(f"{share:.1f}" for share in shares)])
    print_table(
        ["split", "titles", "captioned", "with titles", *(f"first {count}" for count in _FIRST)], rows
    )
    print("captioned references among the first of their targets (%); only products with titles are ranked")
