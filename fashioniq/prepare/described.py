"""Descriptions of the pictures of a catalog by a model, as they are kept on disk.

descriptions/described.dress.jsonl has a line for each picture that a model has seen; it is appended to batch by batch,
and no model sees a picture twice. The description files that a catalog reads follow from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import split_file
from fashioniq.files import UserError, json_line, text_lines, together, write_json
from fashioniq.locks import append_line

Outcome = Literal["described", "empty", "refused"]


class SeenPicture(msgspec.Struct, kw_only=True, frozen=True):
    """A picture, by its SHA-256, that a model has seen, what it said, and its share of the cost of the batch."""

    picture: str
    model: str
    attributes: list[str]
    outcome: Outcome
    text: str
    seconds: float
    prompt_tokens: float
    answer_tokens: float


class DescriptionLog:
    """Pictures of a category that a model has seen, by what they look like."""

    def __init__(self, catalog: Catalog, model: str, attributes: Sequence[str]) -> None:
        self.catalog, self.model, self.attributes = catalog, model, list(attributes)
        self.path = catalog.root / "descriptions" / f"described.{file_name(catalog.category)}.jsonl"
        own = (model, self.attributes)
        self.seen = {one.picture: one for one in self._read() if (one.model, one.attributes) == own}

    def check(self) -> None:
        """Raise UserError if there are descriptions from elsewhere."""
        for path in self.files.values():
            if path.exists() and not self.path.exists():
                raise UserError(
                    f"{path} was not written by describe-pictures; move it away to write descriptions anew"
                )

    @property
    def files(self) -> dict[str, Path]:
        """Description file of each split in the folder."""
        return {
            split: split_file(self.catalog.root, "descriptions", self.catalog.category, split)
            for split in self.catalog.splits
        }

    def add(self, some: Sequence[SeenPicture]) -> None:
        """Append pictures. Raises UserError if the file cannot be written."""
        append_line(self.path, "\n".join(map(json_line, some)))
        self.seen |= {one.picture: one for one in some}

    def write(self, picture_of: Mapping[str, str]) -> None:
        """Write the description files from the SHA-256 of the products' pictures; all of them, or none."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        texts = {name: self.seen[digest].text for name, digest in picture_of.items() if digest in self.seen}
        with together(self.path.parent):
            for split, path in self.files.items():
                write_json(path, {name: texts[name] for name in self.catalog.ids(split) if texts.get(name)})

    def _read(self) -> Iterator[SeenPicture]:
        if not self.path.exists():
            return
        for line in text_lines(self.path, "file of described pictures", "run the command again"):
            try:  # a line that a crash has cut off is of a picture that is described again
                yield msgspec.convert(json.loads(line), SeenPicture)
            except (ValueError, RecursionError, msgspec.ValidationError):
                continue
