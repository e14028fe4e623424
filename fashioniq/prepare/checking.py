"""Check of a Fashion IQ folder: its contents, and anything missing, unusual or damaged.

The folder is not changed.

A finding should be fixed, or considered when interpreting results. A note is information about a valid
folder.
"""

import os
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

from fashioniq.categories import canonical, from_file_name
from fashioniq.data.catalog_files import missing_pictures
from fashioniq.files import UserError
from fashioniq.prepare.checking_categories import CategoryCheck, Watch, find_strays
from fashioniq.prepare.findings import Findings

RELEASED = {  # counts in the released files, for train, val and test, or in total
    "dresses": {"products": [11452, 3817, 3818], "pairs": [5985, 2017, 2024], "addresses": [19087]},
    "shirts": {"products": [19036, 6346, 6346], "pairs": [5988, 2038, 2038], "addresses": [31728]},
    "tops": {"products": [16121, 5373, 5374], "pairs": [6027, 1961, 2056], "addresses": [26869]},
}
FOLDER = "the folder"  # used in place of a category for findings about the whole folder


def check_folder(
    root: Path, category: str | None, images: Path | None, workers: int, watch: Watch
) -> dict[str, Findings]:
    """Findings for each category, or for `category` only, and under FOLDER for the whole folder.

    `images` is an alternative to the folder images/. Pictures are decoded in `workers` processes.
    Raises UserError if the folder has no splits, or if the category or the picture folder does not exist.
    """
    if images and not images.is_dir():
        raise UserError(
            f"there is no folder of pictures {images}: give another with --images, "
            f"or omit it for {root / 'images'}"
        )
    about = Findings()
    known = _categories(root, about)
    chosen = [canonical(category)] if category else known
    if not set(chosen) <= set(known):
        raise UserError(f"no category {chosen[0]!r} in {root}: found {', '.join(known)}")
    made_here, coverage = (
        about.read_json(root / file, dict) if os.path.lexists(root / file) else {}
        for file in ("catalog.json", "coverage.json")
    )
    pictures = images or root / "images"
    names = about.listing(pictures)
    categories = {name: CategoryCheck(root, name) for name in known}
    for name in chosen:
        check = categories[name]
        check.files({} if made_here or made_here is None else RELEASED.get(name, {}))
        if not check.report.unusable:
            check.pictures(pictures, names, missing_pictures(coverage or {}, name), workers, watch)
    _across(categories, chosen, names, about)
    return {**{name: categories[name].report for name in chosen}, FOLDER: about}


def _categories(root: Path, about: Findings) -> list[str]:
    """Categories with at least one split in the folder."""
    try:
        files = sorted(os.listdir(root / "image_splits"))
    except OSError as error:
        raise UserError(
            f"cannot read {root / 'image_splits'} ({error.strerror}): give a Fashion IQ folder with --data"
        ) from error
    names = set()
    for file in files:
        match file.split("."):
            case ["split", name, "train" | "val" | "test", "json"]:
                try:
                    names.add(canonical(from_file_name(name)))
                except UserError as error:
                    about.found("splits of no category", f"{file}: {error}")
    if not names:
        raise UserError(
            f"{root / 'image_splits'} has no split.CATEGORY.train.json: give a Fashion IQ folder with --data"
        )
    return sorted(names)


def _across(
    categories: Mapping[str, "CategoryCheck"], chosen: list[str], pictures: list[str], about: Findings
) -> None:
    """Report ids that several categories share, and picture files that belong to no category."""
    for first, second in combinations(categories, 2):
        if first in chosen or second in chosen:
            about.note(
                f"ids both in {first} and in {second}",
                *sorted(categories[first].all_ids & categories[second].all_ids),
            )
    if all(check.whole for check in categories.values()):
        folders = {folder for check in categories.values() for folder in (check.name, check.category)}
        ids = set().union(*(check.all_ids for check in categories.values()))
        find_strays([name for name in pictures if name not in folders], ids, about)
