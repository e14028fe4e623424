"""What a check of data finds, and reading that tells of a broken file instead of stopping at it."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fashioniq.data.catalog import ATTRIBUTE_LISTS
from fashioniq.files import UserError, read_json


@dataclass
class Findings:
    """What was found in a category: each kind of finding and of note, with all its examples.

    `counts` has a number for each of train, val and test, or one for all; None where no file could be read. `released` has those of the
    release, where they are known. `unusable` says why nothing can be done with the category.
    """

    counts: dict[str, list[int | None]] = field(default_factory=dict)
    released: dict[str, list[int]] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    unusable: str = ""

    def found(self, kind: str, example: str) -> None:
        """Add an example to a kind of finding."""
        self.findings.setdefault(kind, []).append(_printable(example))

    def note(self, kind: str, examples: Iterable[str]) -> None:
        """Add a kind of note, unless it has no example."""
        if examples := [_printable(example) for example in examples]:
            self.notes[kind] = examples

    def listing(self, folder: Path) -> list[str]:
        """What lies in a folder but for hidden files, in order; nothing where there is no such folder. One that cannot be read is told."""
        try:
            return sorted(name for name in os.listdir(folder) if not name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            self.found("folders that cannot be read", f"{folder.name}: {error.strerror}")
            return []

    def read(self, path: Path, kind: type) -> Any:
        """A JSON file that holds a `kind`. None where it cannot be read, which is told."""
        try:
            if not path.is_file():  # a pipe would be waited for
                raise UserError(f"{path} is not a file")
            return read_json(path, "the file", kind)
        except UserError as error:
            self.found("files that cannot be read", str(error).replace(str(path), path.name))
        return None


def fault_of_pair(row: Any) -> str:
    """What keeps a row of captions from being read; nothing where it can be."""
    if not isinstance(row, dict) or not isinstance(row.get("candidate"), str) or not isinstance(row.get("captions"), list):
        return f'expected {{"target", "candidate", "captions"}}, found {row!r}'[:200]
    if not isinstance(row.get("target", ""), str) or not all(isinstance(text, str) for text in row["captions"]):
        return f"expected target and captions as text, found {row!r}"[:200]
    return ""


def fault_of_labels(lists: Any) -> str:
    """The kind of finding that a row of labels is; nothing where it is as it should be."""
    if not isinstance(lists, list) or not lists or len(lists) % ATTRIBUTE_LISTS:
        return "label rows that cannot be used, for they have not 6 lists"
    if not all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists):
        return "label rows that cannot be used, for they are not lists of words"
    return "label rows of 12 or 18 lists, which are merged when read" if len(lists) > ATTRIBUTE_LISTS else ""


def fault_of_title(row: Any) -> str:
    """The kind of finding that a row of titles is; nothing where it can be read. It may be without a title."""
    return "" if isinstance(row, dict) and isinstance(row.get("title") or "", str) else "title rows that cannot be read"


def _printable(text: str) -> str:
    """On one line and in characters that can be written, whatever an id or a file's name is made of."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
