"""One category of a Fashion IQ folder, read as it was released: splits, captions, attribute labels, titles, pictures.

image_splits/split.dress.train.json     ["B0084Y8XIU", …]
captions/cap.dress.train.json           [{"target": …, "candidate": …, "captions": [first, second]}, …]
attributes/asin2attr.dress.train.json   {id: [garment, texture, fabric, shape, part, style]}, each a list of words
titles/dress.train.json                 {id: {"title": …}}
images/<id>.jpg or images/dress/<id>.jpg
catalog.json                            only in folders that this package made: how pictures and captions were made
coverage.json                           only after download-images: which pictures could not be had, and why
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fashioniq.categories import canonical, file_name, from_file_name
from fashioniq.data.words import tokenize
from fashioniq.files import UserError, read_json

SPLITS = ("train", "val", "test")
LABEL_FOLDERS = ("attributes", "image_attributes", ".")  # where a folder may have its labels
LONGEST_TITLE = 1000  # characters: in the released titles 117 longer ones are a page's script, and the longest real one has 370
ATTRIBUTE_LISTS = 6  # the garment word, then the five DeepFashion types
IMAGE_SUFFIXES = (".jpg", ".png", ".jpeg", ".webp")


@dataclass(frozen=True)
class Pair:
    """Two products and what people said of how the target differs from the candidate. Released test pairs have no target."""

    target: str | None
    candidate: str
    captions: tuple[str, ...]


class Catalog:
    """A category of the folder `root`. Files are read when first asked for, and checked then.

    Raises UserError where the folder or the category is missing.
    """

    def __init__(self, root: Path, category: str) -> None:
        self.root = Path(root)
        self.category = canonical(category)
        self._name = file_name(category)
        if not self.root.is_dir():
            raise UserError(f"there is no folder {self.root}: give a Fashion IQ folder with --data, or make one with `fashioniq draw-sample`")
        if not self._split_file("train").exists() and self.category not in (known := categories_in(self.root)):
            raise UserError(
                f"no category {self.category!r} in {self.root}: {'it has ' + ', '.join(known) if known else 'it has no image_splits/split.*.json'}"
            )
        about = self.root / "catalog.json"
        self.about: dict[str, Any] = read_json(about, "the catalog's description", dict) if about.exists() else {}
        self._ids: dict[str, list[str]] = {}

    @property
    def pictures_origin(self) -> str:
        """How the pictures came to be: "photographs" unless catalog.json says otherwise."""
        return str(self.about.get("pictures", "photographs"))

    @property
    def captions_origin(self) -> str:
        """How the captions came to be: "human" unless catalog.json says otherwise."""
        return str(self.about.get("captions", "human"))

    def ids(self, split: str) -> list[str]:
        """The product ids of a split in the file's order. Raises UserError where it is missing, empty or has an id twice."""
        if split not in self._ids:
            path = self._split_file(split)
            ids = read_json(path, f"the {split} split of {self.category}", list)
            if not ids:
                raise UserError(f"the {split} split of {self.category} is empty: {path} lists no product")
            if not all(isinstance(name, str) and name for name in ids) or len(set(ids)) != len(ids):
                raise UserError(f"{path} should list product ids as strings, each once")
            self._ids[split] = ids
        return self._ids[split]

    def all_ids(self) -> list[str]:
        """The ids of all splits that the folder has: train, then val, then test."""
        there = [split for split in SPLITS if self._split_file(split).exists()]
        return list(dict.fromkeys(name for split in there for name in self.ids(split)))

    def pairs(self, split: str) -> list[Pair]:
        """The captioned pairs of a split; captions without a word are left out, and pairs that have no other.

        Raises UserError where the file is missing or malformed, names ids that are not in the split, or holds no caption.
        """
        path = self.root / "captions" / f"cap.{self._name}.{split}.json"
        rows = read_json(path, f"the {split} captions of {self.category}", list)
        known = set(self.ids(split))
        pairs = []
        for number, row in enumerate(rows):
            if not isinstance(row, dict) or "candidate" not in row or not isinstance(row.get("captions"), list):
                raise UserError(f'{path}, entry {number}: expected {{"target", "candidate", "captions"}}, found {json.dumps(row)[:80]}')
            for name in (row["candidate"], row.get("target", row["candidate"])):
                if not isinstance(name, str) or name not in known:
                    raise UserError(f"{path}, entry {number}: {name!r} is not in the {split} split; remove the entry or add the id to the split")
            captions = tuple(text.strip() for text in row["captions"] if isinstance(text, str) and tokenize(text))
            if captions:
                pairs.append(Pair(row.get("target"), row["candidate"], captions))
        if not pairs:
            raise UserError(f"{path} holds no caption with words: every entry needs at least one")
        return pairs

    @cached_property
    def labels(self) -> dict[str, list[list[str]]]:
        """The six lists of attribute words of every labelled product; rows of 12 or 18 lists are merged by index modulo 6."""
        labels = {}
        for split in SPLITS:
            for folder in LABEL_FOLDERS:
                path = self.root / folder / f"asin2attr.{self._name}.{split}.json"
                if path.exists():
                    for name, lists in read_json(path, "attribute labels", dict).items():
                        labels[name] = _merge_lists(lists, path, name)
                    break
        return labels

    @cached_property
    def titles(self) -> dict[str, str]:
        """The title of every product that has one; longer ones than a title can be are left out."""
        titles = {}
        for split in SPLITS:
            path = self.root / "titles" / f"{self._name}.{split}.json"
            if path.exists():
                rows = read_json(path, "titles", dict)
                found = {name: title_of(row) for name, row in rows.items() if isinstance(row, dict)}
                titles.update({name: title for name, title in found.items() if title})
        return titles

    @cached_property
    def images(self) -> dict[str, Path]:
        """The picture of every product that has one. `images/<category>/` goes before `images/`: ids are unique in a category only."""
        found: dict[str, Path] = {}
        for folder in (self.root / "images" / self._name, self.root / "images" / self.category, self.root / "images"):
            if folder.is_dir():
                files = {path.name: path for path in folder.iterdir()}
                for name in self.all_ids():
                    for suffix in IMAGE_SUFFIXES:
                        if name not in found and name + suffix in files:
                            found[name] = files[name + suffix]
        return found

    @cached_property
    def picture_failures(self) -> dict[str, str]:
        """Why a product has no picture, where coverage.json tells: {id: "dead: 404"}. It tells of the past: `images` tells what is there."""
        path = self.root / "coverage.json"
        found = read_json(path, "the coverage of the pictures", dict).get(self._name, {}) if path.exists() else {}
        missing = found.get("missing") if isinstance(found, dict) else None
        return {name: str(reason) for name, reason in missing.items()} if isinstance(missing, dict) else {}

    def fingerprint(self) -> str:
        """16 hexadecimal digits that change when the splits or the captions do."""
        digest = hashlib.sha256(self._name.encode())
        for folder, stem in (("image_splits", "split"), ("captions", "cap")):
            for split in SPLITS:
                path = self.root / folder / f"{stem}.{self._name}.{split}.json"
                digest.update(path.read_bytes() if path.exists() else b"-")
        return digest.hexdigest()[:16]

    def _split_file(self, split: str) -> Path:
        return self.root / "image_splits" / f"split.{self._name}.{split}.json"


def title_of(row: Mapping[str, Any]) -> str:
    """The title of a row of titles/; empty where it has none, or one longer than a title can be."""
    title = row.get("title")
    return title.strip() if isinstance(title, str) and len(title) <= LONGEST_TITLE else ""


def categories_in(root: Path) -> list[str]:
    """The categories that a Fashion IQ folder has splits of, as people say them."""
    return sorted({from_file_name(path.name.split(".")[1]) for path in (root / "image_splits").glob("split.*.*.json")})


def _merge_lists(lists: Any, path: Path, name: str) -> list[list[str]]:
    well_formed = isinstance(lists, list) and lists and len(lists) % ATTRIBUTE_LISTS == 0
    if not well_formed or not all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists):
        raise UserError(f"{path}: {name} should have 6 lists of words (or 12 or 18), it has {json.dumps(lists)[:80]}")
    merged: list[list[str]] = []
    for kind in range(ATTRIBUTE_LISTS):
        words = [word for part in lists[kind::ATTRIBUTE_LISTS] for word in part]
        merged.append(list(dict.fromkeys(words)))
    return merged
