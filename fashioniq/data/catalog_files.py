"""Names of the files and pictures of a catalog, titles and label lists."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name, from_file_name
from fashioniq.data.words import composed
from fashioniq.files import UserError, write_json

LABEL_FOLDERS = ("attributes", "image_attributes", ".")  # folders that may contain the labels
# In the released files, the longest real title has 370 characters; 117 longer texts are page scripts.
LONGEST_TITLE = 1000  # characters
ATTRIBUTE_LISTS = 6  # the garment word, then the five DeepFashion types
IMAGE_SUFFIXES = (".jpg", ".png", ".jpeg", ".webp")


SET_ASIDE = "set_aside"  # folder of captions by people whose products are gone
# names of files with a row for each product or pair of a split, by their folder
_FILES = {
    "image_splits": "split.{}.{}.json",
    **dict.fromkeys(LABEL_FOLDERS, "asin2attr.{}.{}.json"),
    **dict.fromkeys(("captions", SET_ASIDE), "cap.{}.{}.json"),
    "pairs": "pairs.{}.{}.json",
    "descriptions": "image_captions_{}_{}.json",
}


def split_file(root: Path, folder: str, category: str, split: str) -> Path:
    """File of a split of a category in a folder of a catalog: captions/cap.dress.train.json, titles/dress.val.json."""
    return root / folder / _FILES.get(folder, "{}.{}.json").format(file_name(category), split)


def write_split(
    root: Path,
    category: str,
    split: str,
    *,
    labels: Mapping[str, list[list[str]]],
    titles: Mapping[str, Mapping[str, str]],
    pairs: list[dict[str, Any]] | None,
) -> None:
    """Write the files of a split whose products all have labels and titles; without `pairs`, none of captions."""
    write_json(split_file(root, "image_splits", category, split), list(labels))
    write_json(split_file(root, "attributes", category, split), labels, indent=None)
    write_json(split_file(root, "titles", category, split), titles)
    if pairs is not None:
        write_json(split_file(root, "captions", category, split), pairs)


def title_of(row: Mapping[str, Any]) -> str:
    """Title in a row of titles/; empty if there is none or it is longer than LONGEST_TITLE."""
    title = row.get("title")
    return composed(title.strip()) if isinstance(title, str) and len(title) <= LONGEST_TITLE else ""


def categories_in(root: Path) -> list[str]:
    """Categories with splits in a Fashion IQ folder, by their canonical names."""
    return sorted(
        {from_file_name(path.name.split(".")[1]) for path in (root / "image_splits").glob("split.*.*.json")}
    )


def picture_paths(folder: Path | None, names: Sequence[str]) -> dict[str, Path]:
    """Picture file of each name that has one in the folder, with or without a suffix."""
    found = {}
    for name in names if folder else []:
        paths = (Path(folder or "") / (name + suffix) for suffix in ("", *IMAGE_SUFFIXES))
        if path := next((path for path in paths if path.is_file()), None):
            found[name] = path
    return found


def pictures_of(folder: Path, files: Iterable[str], ids: Iterable[str]) -> dict[str, Path]:
    """Picture of each id among the files of a folder; if it has several, the first in the order of IMAGE_SUFFIXES."""
    present = {composed(file): file for file in files}
    return {
        name: folder / present[file]
        for name in ids
        for suffix in reversed(IMAGE_SUFFIXES)
        if (file := composed(name) + suffix) in present
    }


def missing_pictures(coverage: Mapping[str, Any], category: str) -> dict[str, Any]:
    """Products whose pictures could not be downloaded, according to coverage.json, with the reasons."""
    part = coverage.get(file_name(category))
    missing = part.get("missing") if isinstance(part, dict) else None
    return missing if isinstance(missing, dict) else {}


def merge_lists(lists: Any, path: Path, name: str) -> list[list[str]]:
    well_formed = isinstance(lists, list) and lists and len(lists) % ATTRIBUTE_LISTS == 0
    if not well_formed or not all(
        isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists
    ):
        raise UserError(
            f"{path}: expected 6, 12 or 18 lists of words for {name}, found {json.dumps(lists)[:80]}"
        )
    return [
        list(dict.fromkeys(composed(word) for words in lists[kind::ATTRIBUTE_LISTS] for word in words))
        for kind in range(ATTRIBUTE_LISTS)
    ]
