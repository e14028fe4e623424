"""One category of a Fashion IQ folder: splits, captions, attribute labels, titles and pictures.

image_splits/split.dress.train.json    ["B0084Y8XIU", …]
captions/cap.dress.train.json          [{"target": …, "candidate": …, "captions": [first, second]}, …]
attributes/asin2attr.dress.train.json  {id: [garment, texture, fabric, shape, part, style]}, lists of words
titles/dress.train.json                {id: {"title": …}}
descriptions/image_captions_dress_train.json   {id: sentence of a captioning model about its picture}
offers/dress.json                      {id: {"price_minor": 5990, "currency": "EUR", …}}
images/<id>.jpg                        or images/dress/<id>.jpg
catalog.json                           origin of pictures and captions, in folders made by this package
coverage.json                          pictures that could not be downloaded, written by download-images
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fashioniq.categories import canonical, file_name
from fashioniq.data.attributes import add_described
from fashioniq.data.catalog_files import (
    LABEL_FOLDERS,
    categories_in,
    merge_lists,
    missing_pictures,
    pictures_of,
    split_file,
    title_of,
)
from fashioniq.data.ids import repeated
from fashioniq.data.offers import Offer, offers_file, read_offers
from fashioniq.data.words import composed, tokenize
from fashioniq.files import UserError, one_line, read_json, refuse_special

SPLITS = ("train", "val", "test")
ALL = "all"  # in place of a split: the whole catalog
LONGEST_ORIGIN = 200  # characters


@dataclass(frozen=True)
class Pair:
    """Two products, and captions of how the target differs from the candidate. Released test pairs have no target."""

    target: str | None
    candidate: str
    captions: tuple[str, ...]


class Catalog:
    """A category of the folder `root`. Each file is read and checked on first access.

    Raises UserError if the folder or the category is missing.
    """

    def __init__(self, root: Path, category: str) -> None:
        self.root = Path(root)
        self.category = canonical(category)
        if not self.root.is_dir():
            here = ":" if self.root.is_absolute() else f" in {Path.cwd()}: start in the folder that has it,"
            raise UserError(
                f"there is no folder {self.root}{here} give a Fashion IQ folder with --data, "
                "import your catalog with `fashioniq import-catalog`, or draw a sample with `fashioniq draw-sample`"
            )
        first = split_file(self.root, "image_splits", self.category, "train")
        if not first.exists() and self.category not in (known := categories_in(self.root)):
            found = ", ".join(known) or "no image_splits/split.*.json"
            raise UserError(f"no category {self.category!r} in {self.root}: found {found}")
        about = self.root / "catalog.json"
        self.about: dict[str, Any] = (
            read_json(about, "the catalog's description", dict) if about.exists() else {}
        )
        self._ids: dict[str, list[str]] = {}

    @property
    def pictures_origin(self) -> str:
        """Origin of the pictures: "photographs" unless catalog.json gives another."""
        return one_line(str(self.about.get("pictures", "photographs")), LONGEST_ORIGIN)

    def pictures_behind(self, of_words: bool) -> str:
        """Origin of the pictures that vectors know; those `of_words`, such as of metadata, know no pictures."""
        if not of_words:
            return self.pictures_origin
        return "words of a captioning model" if self.descriptions else "none"

    @property
    def captions_origin(self) -> str:
        """Origin of the captions: "human" unless catalog.json gives another, of the category or of the folder."""
        about = self.imported if "captions" in self.imported else self.about
        return one_line(str(about.get("captions", "human")), LONGEST_ORIGIN)

    @property
    def imported(self) -> dict[str, Any]:
        """Description of the category in catalog.json, written by import-catalog; else empty."""
        categories = self.about.get("categories")
        about = categories.get(self.category) if isinstance(categories, dict) else None
        return about if isinstance(about, dict) else {}

    @property
    def language(self) -> str:
        """Language of the labels and of generated captions, by default English."""
        return str(self.imported.get("language", "en"))

    def ids(self, split: str) -> list[str]:
        """Product ids of a split, in the order of the file.

        Raises UserError if the split is missing or empty, or contains an id twice.
        """
        if split not in self._ids:
            path = split_file(self.root, "image_splits", self.category, split)
            ids = read_json(path, f"the {split} split of {self.category}", list)
            if not ids:
                raise UserError(f"the {split} split of {self.category} is empty: {path} lists no product")
            printable = all(isinstance(name, str) and name and name.isprintable() for name in ids)
            if not printable or repeated(ids):
                raise UserError(
                    f"{path}: expected a list of product ids as strings without control characters or duplicates"
                )
            self._ids[split] = ids
        return self._ids[split]

    def gallery_ids(self, split: str) -> list[str]:
        """Ids of a split, or of the whole catalog for `ALL`. Raises UserError if there is no such split."""
        if split not in (*SPLITS, ALL):
            raise UserError(
                f"expected a split of {', '.join((*SPLITS, ALL))}, found {split!r}; give one of them"
            )
        return self.all_ids() if split == ALL else self.ids(split)

    @property
    def splits(self) -> list[str]:
        """Splits that the folder has."""
        return [
            split for split in SPLITS if split_file(self.root, "image_splits", self.category, split).exists()
        ]

    def all_ids(self) -> list[str]:
        """Ids of train, val and test. Raises UserError if two ids differ only in how accents are written."""
        ids = list(dict.fromkeys(name for split in self.splits for name in self.ids(split)))
        if name := repeated(ids):
            raise UserError(
                f"expected each product of {self.category} in {self.root} to have one id, found {name!r} with its "
                "accents written in two ways; rename one of them"
            )
        return ids

    def pairs(self, split: str) -> list[Pair]:
        """Captioned pairs of a split. Raises UserError as `pairs_in` does."""
        return self.pairs_in(split_file(self.root, "captions", self.category, split), split)

    def pairs_if_any(self, split: str) -> list[Pair]:
        """Captioned pairs of a split; none without a file of captions."""
        return self.pairs(split) if split_file(self.root, "captions", self.category, split).exists() else []

    def pairs_in(self, path: Path, split: str) -> list[Pair]:
        """Pairs of a split that a file has captions of.

        Captions without a word are dropped, and so are pairs without another caption.

        Raises UserError if the file is missing or malformed, contains ids that are not in the split, or has
        no caption.
        """
        rows = read_json(path, f"the {split} captions of {self.category}", list)
        known = set(self.ids(split))
        pairs = []
        for number, row in enumerate(rows):
            if (
                not isinstance(row, dict)
                or "candidate" not in row
                or not isinstance(row.get("captions"), list)
            ):
                raise UserError(
                    f'{path}, entry {number}: expected {{"target", "candidate", "captions"}}, '
                    f"found {json.dumps(row)[:80]}"
                )
            for name in (row["candidate"], row.get("target", row["candidate"])):
                if not isinstance(name, str) or name not in known:
                    raise UserError(
                        f"{path}, entry {number}: {name!r} is not in the {split} split; "
                        "remove the entry or add the id to the split"
                    )
            captions = tuple(
                composed(text.strip()) for text in row["captions"] if isinstance(text, str) and tokenize(text)
            )
            if captions:
                pairs.append(Pair(row.get("target"), row["candidate"], captions))
        if not rows:
            raise UserError(
                f"{path} lists no pairs: write captions for pairs of the {split} split of {self.category}"
            )
        if not pairs:
            raise UserError(f"{path} has no caption with words: every entry needs at least one")
        return pairs

    @cached_property
    def labels(self) -> dict[str, list[list[str]]]:
        """Six lists of attribute words per labelled product: those of its files, and those in its description."""
        return add_described(self.written_labels, self.descriptions, self.language)

    @cached_property
    def written_labels(self) -> dict[str, list[list[str]]]:
        """Labels in files; 12 or 18 lists are merged by index modulo 6."""
        return {
            name: merge_lists(lists, path, name)
            for path, rows in self._read("attribute labels", *LABEL_FOLDERS)
            for name, lists in rows.items()
        }

    @cached_property
    def titles(self) -> dict[str, str]:
        """Title of every product that has one; texts longer than LONGEST_TITLE are dropped."""
        return {
            name: title
            for _, rows in self._read("titles", "titles")
            for name, row in rows.items()
            if isinstance(row, dict) and (title := title_of(row))
        }

    @cached_property
    def descriptions(self) -> dict[str, str]:
        """What a captioning model says about the picture of every product that has a description."""
        found: dict[str, str] = {}
        for path, rows in self._read("descriptions", "descriptions"):
            if bad := next((name for name, text in rows.items() if not isinstance(text, str)), None):
                raise UserError(
                    f"{path}: expected a sentence for each product, found {json.dumps(rows[bad])[:80]} for {bad}"
                )
            found |= {name: composed(text.strip()) for name, text in rows.items() if text.strip()}
        return found

    @cached_property
    def offers(self) -> dict[str, Offer]:
        """Price, sizes, stock and product page of every product that has an offer. The fingerprint leaves them out."""
        return read_offers(offers_file(self.root, self.category))

    @cached_property
    def images(self) -> dict[str, Path]:
        """Picture of every product that has one.

        `images/<category>/` takes precedence over `images/`, because ids are unique only within a category.
        """
        found: dict[str, Path] = {}
        for folder in (
            self.root / "images" / file_name(self.category),
            self.root / "images" / self.category,
            self.root / "images",
        ):
            if folder.is_dir():
                others = [name for name in self.all_ids() if name not in found]
                found |= pictures_of(folder, [path.name for path in folder.iterdir()], others)
        return found

    @cached_property
    def picture_failures(self) -> dict[str, str]:
        """Reasons for missing pictures according to coverage.json: {id: "dead: 404"}.

        They describe the last download; `images` lists the pictures present now.
        """
        path = self.root / "coverage.json"
        coverage = read_json(path, "the coverage of the pictures", dict) if path.exists() else {}
        return {name: str(reason) for name, reason in missing_pictures(coverage, self.category).items()}

    def fingerprint(self) -> str:
        """Hash of splits and captions: 16 hexadecimal digits."""
        digest = hashlib.sha256(file_name(self.category).encode())
        for folder in ("image_splits", "captions"):
            for split in SPLITS:
                path = split_file(self.root, folder, self.category, split)
                refuse_special(path)
                try:
                    digest.update(path.read_bytes() if path.exists() else b"-")
                except OSError as error:
                    raise UserError(f"cannot read {path}: {error.strerror}") from error
        return digest.hexdigest()[:16]

    def _read(self, what: str, *folders: str) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Files of all splits with their rows, each from the first of the folders that has one."""
        for split in SPLITS:
            paths = (split_file(self.root, folder, self.category, split) for folder in folders)
            if path := next(filter(Path.exists, paths), None):
                yield path, read_json(path, what, dict)


def text_of(catalog: Catalog, name: str, labels: Mapping[str, list[list[str]]] | None = None) -> str:
    """Title, labels and description of a product; without `labels`, those in files, as text encoders read them."""
    words = [word for some in (labels or catalog.written_labels).get(name, []) for word in some]
    described = catalog.descriptions.get(name)
    return " ".join([catalog.titles.get(name, ""), *words, *([described] if described else [])])
