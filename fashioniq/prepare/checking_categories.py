"""Check of one category of a Fashion IQ folder."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS
from fashioniq.data.catalog_files import IMAGE_SUFFIXES, LABEL_FOLDERS, LONGEST_TITLE, pictures_of, title_of
from fashioniq.data.differences import is_no_difference
from fashioniq.data.images import PictureReader, UnreadableImage
from fashioniq.data.offers import fault_of_offer, offers_file
from fashioniq.data.words import composed, tokenize
from fashioniq.prepare.downloading import addresses_file, read_addresses
from fashioniq.prepare.findings import Findings, fault_of_labels, fault_of_pair, fault_of_title
from fashioniq.prepare.similar import Look, copies, look_of

# wraps an iterable of the given length to show progress
Watch = Callable[[Iterable[Any], int, str], Iterable[Any]]
MANY = 5  # variants of a product share a picture: at most 3 among 8,696 shirts of one shop


class CategoryCheck:
    """Check of one category. The constructor reads its splits; findings are collected in `report`."""

    def __init__(self, root: Path, category: str) -> None:
        self.root, self.category, self.name = root, category, file_name(category)
        self.report = Findings()
        paths = self._find(("image_splits",), f"split.{self.name}.{{}}.json", needed=True)
        self.ids = {split: self._ids(path) for split, path in paths.items()}
        # ids are reported as unknown only if all splits were read
        self.whole = all(self.ids.get(split) for split in SPLITS)
        self.all_ids = {name for ids in self.ids.values() for name in ids}

    def files(self, released: dict[str, list[int]]) -> None:
        """Check the files of the category, and compare their counts with the release."""
        counts = self.report.counts
        counts["products"] = [len(self.ids[split]) if split in self.ids else None for split in SPLITS]
        if not self.ids.get("train"):
            self.report.unusable = f"the train split of {self.category} has no readable product"
            return
        self._splits()
        paths = self._find(("captions",), f"cap.{self.name}.{{}}.json", needed=True)
        counts["pairs"] = [self._pairs(split, paths[split]) if split in paths else None for split in SPLITS]
        paths = self._find(LABEL_FOLDERS, f"asin2attr.{self.name}.{{}}.json")
        labels = {split: self._rows(path, fault_of_labels) for split, path in paths.items()}
        counts["labels"] = [_count(labels.get(split)) for split in SPLITS]
        paths = self._find(("titles",), f"{self.name}.{{}}.json")
        counts["titles"] = [self._titles(paths[split]) if split in paths else None for split in SPLITS]
        counts["addresses"] = [self._addresses()]
        if os.path.lexists(path := offers_file(self.root, self.category)):
            counts["offers"] = [self._offers(path)]
        self.report.released = dict(released)
        for what, expected in released.items():
            for split, count, wanted in zip(SPLITS, counts[what], expected, strict=False):
                if count not in (None, wanted):
                    where = f" of {split}" if len(expected) > 1 else ""
                    self.report.found(
                        "counts that differ from the release", f"{count} {what}{where}, released {wanted}"
                    )

    def pictures(
        self, folder: Path, names: list[str], missing: dict[str, Any], workers: int, watch: Watch
    ) -> None:
        """Check the pictures of the products, in `folder` with the files `names` or in its subfolder."""
        found = self._find_pictures(folder, names)
        self.report.counts["pictures"] = [
            sum(name in found for name in set(self.ids.get(split, ()))) for split in SPLITS
        ]
        if not found:
            source = (
                "; `fashioniq download-images` downloads them" if self.report.counts["addresses"][0] else ""
            )
            self.report.found(
                "categories without any picture", f"expected {folder.name}/{self.name}/<id>.jpg{source}"
            )
            return
        lacking = sorted(self.all_ids - found.keys())
        self.report.note(
            "products whose picture could not be downloaded, according to coverage.json",
            *(name for name in lacking if name in missing),
        )
        self.report.found("products without a picture", *(name for name in lacking if name not in missing))
        looks: dict[str, Look] = {}
        with PictureReader(look_of, workers) as read:
            for (name, path), look in zip(
                found.items(), watch(read(list(found.values())), len(found), self.category), strict=True
            ):
                if isinstance(look, UnreadableImage):
                    self.report.found("pictures that cannot be read", f"{path.name}: {look}")
                else:
                    looks[name] = look
        ids = list(looks)
        for group in copies(list(looks.values())):
            many = f"{MANY} products or more, likely a logo or placeholder"
            shared_by = many if len(group) >= MANY else f"2 to {MANY - 1} products"
            members = " ".join(ids[position] for position in group)
            self.report.found(f"pictures shared by {shared_by}", f"{len(group)} products: {members}")

    def _find(self, folders: Sequence[str], pattern: str, needed: bool = False) -> dict[str, Path]:
        """File of each split, from the first folder that contains it.

        A missing file is reported if it is needed, or if other splits have one.
        """
        found: dict[str, Path] = {}
        for folder in folders:
            names = self.report.listing(self.root / folder)
            for split in SPLITS:
                if (file := pattern.format(split)) in names:
                    found.setdefault(split, self.root / folder / file)
        if found or needed:
            lacking = (pattern.format(split) for split in SPLITS if split not in found)
            self.report.found("missing files", *(f"{folders[0]}/{file}" for file in lacking))
        return found

    def _ids(self, path: Path) -> list[str]:
        rows = self.report.read_json(path, list)
        if rows == []:
            self.report.found("splits without a product", path.name)
        for number, name in enumerate(rows or ()):
            if not isinstance(name, str) or not name:
                self.report.found("ids that are not text", f"{path.name} entry {number}: {name!r}"[:200])
            elif not name.isprintable():
                self.report.found(
                    "ids with characters that nobody sees", f"{path.name} entry {number}: {name}"
                )
        return [name for name in rows or () if isinstance(name, str) and name]

    def _splits(self) -> None:
        self.report.found(
            "ids several times in a split",
            *(
                f"{name} {times} times in {split}"
                for split, ids in self.ids.items()
                for name, times in Counter(map(composed, ids)).items()
                if times > 1
            ),
        )
        self.report.found(
            "ids in several splits",
            *(
                f"{name} in {' and '.join(split for split, ids in self.ids.items() if name in ids)}"
                for name, times in Counter(name for ids in self.ids.values() for name in set(ids)).items()
                if times > 1
            ),
        )

    def _pairs(self, split: str, path: Path) -> int | None:
        rows = self.report.read_json(path, list)
        ids, without_target = set(self.ids.get(split, ())), []
        for number, row in enumerate(rows or ()):
            where = f"{path.name} entry {number}"
            if fault := fault_of_pair(row):
                self.report.found("pairs that cannot be used", f"{where}: {fault}")
                continue
            if "target" not in row:
                without_target.append(where)
            for name in sorted({row["candidate"], row.get("target", row["candidate"])} - ids) if ids else ():
                self.report.found("pairs with ids outside of their split", f"{where}: {name}")
            if len(row["captions"]) != 2 and "people" not in row:  # `caption-pairs` asks for one caption
                self.report.found("pairs with other than two captions", f"{where} has {len(row['captions'])}")
            if row["captions"] and all(
                is_no_difference(" ".join(tokenize(text))) for text in row["captions"]
            ):
                self.report.found(
                    "pairs without a difference to describe", f"{where}: {row['captions'][0]!r}"
                )
            empty = (text for text in row["captions"] if not tokenize(text))
            self.report.found("captions without a word", *(f"{where}: {text!r}"[:200] for text in empty))
        if split == "test":
            self.report.note("test pairs whose target is not published, as in Fashion IQ", *without_target)
        else:
            self.report.found("train or val pairs without a target", *without_target)
        return None if rows is None else len(rows)

    def _titles(self, path: Path) -> int | None:
        """Number of titles that Catalog.titles reads; the others are a note."""
        rows = self._rows(path, fault_of_title)
        used = {name for name, row in (rows or {}).items() if isinstance(row, dict) and title_of(row)}
        self.report.note(
            f"titles that are not used: empty, or longer than {LONGEST_TITLE:,} characters",
            *(f"{path.name}: {name}" for name in rows or () if name not in used),
        )
        return None if rows is None else len(used)

    def _offers(self, path: Path) -> int | None:
        rows = self.report.read_json(path, dict)
        self._unknown(f"offers/{path.name}", rows or ())
        faults = ((name, fault_of_offer(row)) for name, row in (rows or {}).items())
        self.report.found(
            "offers that cannot be read",
            *(f"{path.name}: {name}: {fault}" for name, fault in faults if fault),
        )
        return _count(rows)

    def _rows(self, path: Path, fault_of: Callable[[Any], str]) -> dict[str, Any] | None:
        rows = self.report.read_json(path, dict)
        self._unknown(path.name, rows or ())
        for name, row in (rows or {}).items():
            if fault := fault_of(row):
                self.report.found(fault, f"{path.name}: {name}")
        return rows

    def _unknown(self, file: str, names: Iterable[str]) -> None:
        unknown = (name for name in names if self.whole and name not in self.all_ids)
        self.report.found("rows of ids in no split", *(f"{file}: {name}" for name in unknown))

    def _addresses(self) -> int | None:
        path = addresses_file(self.root, self.category)
        addresses = self.report.read(path, read_addresses) if os.path.lexists(path) else None
        self._unknown(path.name, addresses or ())
        self.report.found(
            "products without an http or https address",
            *(
                f"{path.name}: {name}"
                for name, urls in (addresses or {}).items()
                if not all(url.lower().startswith(("http://", "https://")) for url in urls)
            ),
        )
        return _count(addresses)

    def _find_pictures(self, folder: Path, names: list[str]) -> dict[str, Path]:
        """Picture of each product, as in Catalog; other files in the folder of the category are reported."""
        ids = sorted(self.all_ids)
        found = pictures_of(folder, names, ids)
        for own in dict.fromkeys((self.category, self.name)):
            if own in names:
                files = self.report.listing(folder / own)
                if self.whole:
                    find_strays(files, self.all_ids, self.report)
                found |= pictures_of(folder / own, files, ids)
        return found


def _count(rows: Mapping[str, Any] | None) -> int | None:
    return None if rows is None else len(rows)


def find_strays(names: list[str], ids: set[str], findings: Findings) -> None:
    """Report files that are not the picture of a product."""
    known = set(map(composed, ids))
    for name in names:
        stem, suffix = os.path.splitext(name)
        if composed(stem) not in known or suffix not in IMAGE_SUFFIXES:
            findings.found("files among the pictures that belong to no product", name)
