"""Caption files of a catalog with captions by people.

captions/cap.NAME.SPLIT.json            a caption by a person has the name of the person in "people"
captions/generated/cap.NAME.SPLIT.json  captions that were generated, set aside with the first one by a person
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import split_file
from fashioniq.data.words import tokenize
from fashioniq.files import UserError, one_line, read_json, write_json
from fashioniq.locks import BRIEF, locked
from fashioniq.prepare.pairs_to_caption import Comparison

LONGEST_CAPTION = 300  # characters
LONGEST_NAME = 40  # characters of a person's name
HUMAN = "human"


class CaptionError(UserError):
    """A caption or a name that cannot be saved."""


class Written(NamedTuple):
    """A caption by a person."""

    pair: Comparison
    caption: str
    person: str


def checked_caption(text: str) -> str:
    """Caption on one line. Raises CaptionError if it has no word or is longer than LONGEST_CAPTION."""
    caption = one_line(text, LONGEST_CAPTION + 2)
    if not tokenize(caption):
        raise CaptionError(
            "the caption has no word: describe how the wanted product differs, or skip the pair"
        )
    if len(caption) > LONGEST_CAPTION:
        raise CaptionError(f"the caption is longer than {LONGEST_CAPTION} characters; shorten it")
    return caption


def checked_name(text: str) -> str:
    """Name of a person on one line. Raises CaptionError if it is empty or longer than LONGEST_NAME."""
    name = one_line(text, LONGEST_NAME + 2)
    if not name or len(name) > LONGEST_NAME:
        raise CaptionError(f"expected a name of 1 to {LONGEST_NAME} characters")
    return name


class CaptionFiles:
    """Caption files of a category."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.folder = catalog.root / "captions"
        self._about = catalog.root / "catalog.json"
        self.threads = threading.Lock()  # some file systems have no locks

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the files against other threads and processes."""
        with self.threads, locked(self.folder, wait=BRIEF):
            yield

    def rows(self, split: str, folder: str = "captions") -> list[dict[str, Any]]:
        """Entries of the caption file of a split; empty if there is no file.

        With the folder SET_ASIDE, those by people whose products are gone, see `reimporting.keep`. Raises UserError if
        the file is malformed.
        """
        path = split_file(self.catalog.root, folder, self.catalog.category, split)
        if not path.exists():
            return []
        rows = read_json(path, f"the {split} captions of {self.catalog.category}", list)
        for number, row in enumerate(rows):
            if (
                not isinstance(row, dict)
                or not all(isinstance(row.get(name, ""), str) for name in ("candidate", "target"))
                or not all(_are_texts(row.get(name, [])) for name in ("captions", "people"))
            ):
                raise UserError(
                    f'{path}, entry {number}: expected {{"target", "candidate", "captions"}}, '
                    f"found {json.dumps(row)[:80]}"
                )
        return rows

    def by_people(self, split: str) -> dict[Comparison, list[str]]:
        """Pairs of a split with captions by people, and the names of these people, [] where not recorded."""
        generated = self.generated
        return {
            _pair_of(split, row): row.get("people", [])
            for row in self.rows(split)
            if "people" in row or not generated
        }

    @property
    def generated(self) -> bool:
        """Whether captions without the name of a person were generated."""
        return self._read_origin() != HUMAN

    def count_generated(self) -> int:
        """Number of entries that were generated."""
        return (
            sum("people" not in row for split in SPLITS for row in self.rows(split)) if self.generated else 0
        )

    def add(self, written: Sequence[Written]) -> None:
        """Save captions, each as the only one of its pair. The caller has the lock.

        Generated captions of all splits are set aside first: results on a mixture would be neither those of
        people nor those of labels.
        """
        self._set_aside()
        for split in dict.fromkeys(one.pair.split for one in written):
            new = {one.pair: one for one in written if one.pair.split == split}
            rows = [row for row in self.rows(split) if _pair_of(split, row) not in new]
            rows += [
                {
                    "target": pair.target,
                    "candidate": pair.candidate,
                    "captions": [one.caption],
                    "people": [one.person],
                }
                for pair, one in new.items()
            ]
            write_json(self._path(split), rows)
        self._record_origin()

    def remove(self, pair: Comparison) -> str:
        """Remove the captions by people of a pair, and return the first one; "" if there is none."""
        rows = self.rows(pair.split)
        found = [row for row in rows if _pair_of(pair.split, row) == pair and "people" in row]
        if found:
            write_captions(self._path(pair.split), [row for row in rows if row not in found])
        return str(next((text for row in found for text in row["captions"]), ""))

    def _set_aside(self) -> None:
        """Move generated entries to captions/generated/. An interrupted move continues with the next one."""
        if not self.generated:
            return
        for split in SPLITS:
            rows = self.rows(split)
            if generated := [row for row in rows if "people" not in row]:
                write_json(self.folder / "generated" / self._path(split).name, generated)
                write_captions(self._path(split), [row for row in rows if "people" in row])

    def _read_origin(self) -> str:
        """Origin of the captions now, as another process may have changed it."""
        self.catalog.about = (
            read_json(self._about, "the catalog's description", dict) if self._about.exists() else {}
        )
        return self.catalog.captions_origin

    def _record_origin(self) -> None:
        if self._read_origin() == HUMAN:
            return
        about = self.catalog.about
        categories = about["categories"] if isinstance(about.get("categories"), dict) else {}
        own = categories.get(self.catalog.category)
        own = {**own, "captions": HUMAN} if isinstance(own, dict) else {"captions": HUMAN}
        write_json(self._about, {**about, "categories": {**categories, self.catalog.category: own}})

    def _path(self, split: str) -> Path:
        return split_file(self.catalog.root, "captions", self.catalog.category, split)


def write_captions(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a caption file, or remove it: one without a caption is an error for the commands that read it."""
    if rows:
        write_json(path, rows)
    else:
        path.unlink(missing_ok=True)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _pair_of(split: str, row: dict[str, Any]) -> Comparison:
    return Comparison(split, row.get("candidate", ""), row.get("target", ""))
