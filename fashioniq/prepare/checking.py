"""A look through a Fashion IQ folder: what it holds, and what in it is missing, odd or broken. Nothing is written.

A finding is something to mend, or to know before results are trusted; a note is worth telling, and as it should be.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.categories import canonical, file_name, from_file_name
from fashioniq.data.catalog import IMAGE_SUFFIXES, LABEL_FOLDERS, SPLITS
from fashioniq.data.images import PictureReader, UnreadableImage
from fashioniq.data.words import tokenize
from fashioniq.files import UserError
from fashioniq.prepare.downloading import read_addresses
from fashioniq.prepare.findings import Findings, fault_of_labels, fault_of_pair, fault_of_title
from fashioniq.prepare.similar import Look, copies, look_of

Watch = Callable[[Iterable[Any], int, str], Iterable[Any]]  # shows progress through so many things, which it passes on

RELEASED = {  # how many the files of the release hold: for train, val and test, or in all
    "dresses": {"products": [11452, 3817, 3818], "pairs": [5985, 2017, 2024], "addresses": [19087]},
    "shirts": {"products": [19036, 6346, 6346], "pairs": [5988, 2038, 2038], "addresses": [31728]},
    "tops": {"products": [16121, 5373, 5374], "pairs": [6027, 1961, 2056], "addresses": [26869]},
}
FOLDER = "the folder"  # stands where a category does, for what is of none
MANY = 5  # sizes and packs of one product share a picture; of 8,696 shirts of a shop at most 3 do


def check_folder(root: Path, category: str | None, images: Path | None, workers: int, watch: Watch) -> dict[str, Findings]:
    """What was found in each category of the folder, or in `category` alone, and under FOLDER what is of none.

    `images` is another folder of pictures than images/; they are decoded in `workers` processes.
    Raises UserError where the folder has no splits, or there is no such category or folder of pictures.
    """
    if images and not images.is_dir():
        raise UserError(f"there is no folder of pictures {images}: name one with --images, or leave it out for {root / 'images'}")
    about = Findings()
    known = _categories(root, about)
    chosen = [canonical(category)] if category else known
    if not set(chosen) <= set(known):
        raise UserError(f"no category {chosen[0]!r} in {root}: it has {', '.join(known)}")
    made_here, coverage = (about.read(root / file, dict) if os.path.lexists(root / file) else {} for file in ("catalog.json", "coverage.json"))
    pictures = images or root / "images"
    names = about.listing(pictures)
    categories = {name: _Category(root, name) for name in known}
    for name in chosen:
        check = categories[name]
        check.files({} if made_here or made_here is None else RELEASED.get(name, {}))
        if not check.told.unusable:
            check.pictures(pictures, names, _missing(coverage or {}, check.name), workers, watch)
    _across(categories, chosen, names, about)
    return {**{name: categories[name].told for name in chosen}, FOLDER: about}


def _categories(root: Path, about: Findings) -> list[str]:
    """The categories that the folder has a split of."""
    try:
        files = sorted(os.listdir(root / "image_splits"))
    except OSError as error:
        raise UserError(f"cannot read {root / 'image_splits'} ({error.strerror}): give a Fashion IQ folder with --data") from error
    names = set()
    for file in files:
        match file.split("."):
            case ["split", name, "train" | "val" | "test", "json"]:
                try:
                    names.add(canonical(from_file_name(name)))
                except UserError as error:
                    about.found("splits of no category", f"{file}: {error}")
    if not names:
        raise UserError(f"{root / 'image_splits'} has no split.CATEGORY.train.json: give a Fashion IQ folder with --data")
    return sorted(names)


def _missing(coverage: dict[str, Any], name: str) -> dict[str, Any]:
    """The products whose pictures download-images could not get, from coverage.json."""
    part = coverage.get(name)
    missing = part.get("missing") if isinstance(part, dict) else None
    return missing if isinstance(missing, dict) else {}


def _across(categories: Mapping[str, "_Category"], chosen: list[str], pictures: list[str], about: Findings) -> None:
    """Tell of ids that categories share, and of files among the pictures of all categories that are of none."""
    names = list(categories)
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            if first in chosen or second in chosen:
                about.note(f"ids both in {first} and in {second}", sorted(categories[first].all_ids & categories[second].all_ids))
    if all(check.whole for check in categories.values()):
        folders = {folder for check in categories.values() for folder in (check.name, check.category)}
        ids = set().union(*(check.all_ids for check in categories.values()))
        _strays([name for name in pictures if name not in folders], ids, about)


class _Category:
    """The check of one category. Its splits are read at once; what is found goes to `told`."""

    def __init__(self, root: Path, category: str) -> None:
        self.root, self.category, self.name = root, category, file_name(category)
        self.told = Findings()
        paths = self._find(("image_splits",), f"split.{self.name}.{{}}.json", needed=True)
        self.ids = {split: self._ids(path) for split, path in paths.items()}
        self.whole = all(self.ids.get(split) for split in SPLITS)  # so that an id in none of them is unknown
        self.all_ids = {name for ids in self.ids.values() for name in ids}

    def files(self, released: dict[str, list[int]]) -> None:
        """Check the category's files, and their counts against those of the release."""
        counts = self.told.counts
        counts["products"] = [len(self.ids[split]) if split in self.ids else None for split in SPLITS]
        if not self.ids.get("train"):
            self.told.unusable = f"the train split of {self.category} lists no product that can be read"
            return
        self._splits()
        paths = self._find(("captions",), f"cap.{self.name}.{{}}.json", needed=True)
        counts["pairs"] = [self._pairs(split, paths[split]) if split in paths else None for split in SPLITS]
        paths = self._find(LABEL_FOLDERS, f"asin2attr.{self.name}.{{}}.json")
        counts["labels"] = [self._rows(paths[split], fault_of_labels) if split in paths else None for split in SPLITS]
        paths = self._find(("titles",), f"{self.name}.{{}}.json")
        counts["titles"] = [self._rows(paths[split], fault_of_title) if split in paths else None for split in SPLITS]
        counts["addresses"] = [self._addresses()]
        self.told.released = dict(released)
        for what, expected in released.items():
            for split, count, wanted in zip(SPLITS, counts[what], expected, strict=False):
                if count not in (None, wanted):
                    self.told.found("counts unlike the release's", f"{count} {what}{f' of {split}' if len(expected) > 1 else ''}, released {wanted}")

    def pictures(self, folder: Path, names: list[str], missing: dict[str, Any], workers: int, watch: Watch) -> None:
        """Check the products' pictures, which lie in `folder` under `names`, or in the category's own folders in it."""
        found = self._find_pictures(folder, names)
        self.told.counts["pictures"] = [sum(name in found for name in set(self.ids.get(split, ()))) for split in SPLITS]
        if not found:
            return
        lacking = sorted(self.all_ids - found.keys())
        self.told.note("products whose picture could not be downloaded, as coverage.json says", (name for name in lacking if name in missing))
        for name in lacking:
            if name not in missing:
                self.told.found("products without a picture", name)
        looks: dict[str, Look] = {}
        with PictureReader(look_of, workers) as read:
            for (name, path), look in zip(found.items(), watch(read(list(found.values())), len(found), self.category), strict=True):
                if isinstance(look, UnreadableImage):
                    self.told.found("pictures that cannot be read", f"{path.name}: {look}")
                else:
                    looks[name] = look
        ids = list(looks)
        for group in copies(list(looks.values())):
            kind = f"shared by {MANY} products or more, likely a logo or placeholder" if len(group) >= MANY else f"shared by 2 to {MANY - 1} products"
            self.told.found(f"pictures {kind}", f"{len(group)} products: {' '.join(ids[place] for place in group)}")

    def _find(self, folders: Sequence[str], pattern: str, needed: bool = False) -> dict[str, Path]:
        """The file of each split, from the first folder that has it; one that is not there is told if it is needed or others are there."""
        found: dict[str, Path] = {}
        for folder in folders:
            names = self.told.listing(self.root / folder)
            for split in SPLITS:
                if (file := pattern.format(split)) in names:
                    found.setdefault(split, self.root / folder / file)
        for split in SPLITS:
            if split not in found and (found or needed):
                self.told.found("missing files", f"{folders[0]}/{pattern.format(split)}")
        return found

    def _ids(self, path: Path) -> list[str]:
        rows = self.told.read(path, list)
        if rows == []:
            self.told.found("splits without a product", path.name)
        for number, name in enumerate(rows or ()):
            if not isinstance(name, str) or not name:
                self.told.found("ids that are no text", f"{path.name} entry {number}: {name!r}"[:200])
        return [name for name in rows or () if isinstance(name, str) and name]

    def _splits(self) -> None:
        for split, ids in self.ids.items():
            for name, times in Counter(ids).items():
                if times > 1:
                    self.told.found("ids several times in a split", f"{name} {times} times in {split}")
        for name, times in Counter(name for ids in self.ids.values() for name in set(ids)).items():
            if times > 1:
                self.told.found("ids in several splits", f"{name} in {' and '.join(split for split, ids in self.ids.items() if name in ids)}")

    def _pairs(self, split: str, path: Path) -> int | None:
        rows = self.told.read(path, list)
        ids, without_target = set(self.ids.get(split, ())), []
        for number, row in enumerate(rows or ()):
            where = f"{path.name} entry {number}"
            if fault := fault_of_pair(row):
                self.told.found("pairs that cannot be used", f"{where}: {fault}")
                continue
            if "target" not in row:
                without_target.append(where)
            for name in sorted({row["candidate"], row.get("target", row["candidate"])} - ids) if ids else ():
                self.told.found("pairs of ids outside of their split", f"{where}: {name}")
            if len(row["captions"]) != 2:
                self.told.found("pairs with other than two captions", f"{where} has {len(row['captions'])}")
            for text in row["captions"]:
                if not tokenize(text):
                    self.told.found("captions without a word", f"{where}: {text!r}"[:200])
        if split == "test":
            self.told.note("test pairs without a target, as released", without_target)
        else:
            for where in without_target:
                self.told.found("train or val pairs without a target", where)
        return None if rows is None else len(rows)

    def _rows(self, path: Path, fault_of: Callable[[Any], str]) -> int | None:
        rows = self.told.read(path, dict)
        self._unknown(path.name, rows or ())
        for name, row in (rows or {}).items():
            if fault := fault_of(row):
                self.told.found(fault, f"{path.name}: {name}")
        return None if rows is None else len(rows)

    def _unknown(self, file: str, names: Iterable[str]) -> None:
        for name in names:
            if self.whole and name not in self.all_ids:
                self.told.found("rows of ids in no split", f"{file}: {name}")

    def _addresses(self) -> int | None:
        file = f"asin2url.{self.name}.txt"
        path = next((self.root / folder / file for folder in ("image_url", ".") if os.path.lexists(self.root / folder / file)), None)
        if path is None:
            return None
        try:
            if not path.is_file():
                raise UserError(f"{path} is not a file")
            addresses = read_addresses(path)
        except UserError as error:
            self.told.found("files that cannot be read", str(error).replace(str(path), file))
            return None
        self._unknown(file, addresses)
        for name, urls in addresses.items():
            if not all(url.lower().startswith(("http://", "https://")) for url in urls):
                self.told.found("products without a http or https address", f"{file}: {name}")
        return len(addresses)

    def _find_pictures(self, folder: Path, names: list[str]) -> dict[str, Path]:
        """The picture of each product, where Catalog finds it; other files in the category's own folders are told."""
        found = _named(folder, names, self.all_ids)
        for own in dict.fromkeys((self.category, self.name)):
            if own in names:
                there = self.told.listing(folder / own)
                if self.whole:
                    _strays(there, self.all_ids, self.told)
                found |= _named(folder / own, there, self.all_ids)
        return found


def _named(folder: Path, names: list[str], ids: set[str]) -> dict[str, Path]:
    """The pictures that are named by an id; of several of one id that of the first suffix."""
    there = set(names)
    return {name: folder / (name + suffix) for name in sorted(ids) for suffix in reversed(IMAGE_SUFFIXES) if name + suffix in there}


def _strays(names: list[str], ids: set[str], told: Findings) -> None:
    """Tell of files that are no product's picture."""
    for name in names:
        stem, suffix = os.path.splitext(name)
        if stem not in ids or suffix not in IMAGE_SUFFIXES:
            told.found("files among the pictures that are no product's", name)
