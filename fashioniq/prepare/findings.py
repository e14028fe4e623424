"""Findings of a data check, and readers that record a damaged file and continue."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from fashioniq.data.catalog_files import ATTRIBUTE_LISTS
from fashioniq.files import UserError, read_json

T = TypeVar("T")


@dataclass
class Findings:
    """Findings and notes for a category: each kind with all its examples.

    `counts` contains one number for each of train, val and test, or one in total; None if a file could not be
    read. `released` contains the counts of the release, if known. `unusable` is the reason why the category
    is unusable.
    """

    counts: dict[str, list[int | None]] = field(default_factory=dict)
    released: dict[str, list[int]] = field(default_factory=dict)
    findings: dict[str, list[str]] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)
    unusable: str = ""

    def found(self, kind: str, *examples: str) -> None:
        """Add a kind of finding if there are examples."""
        if examples:
            self.findings.setdefault(kind, []).extend(map(_printable, examples))

    def note(self, kind: str, *examples: str) -> None:
        """Add a kind of note if there are examples."""
        if examples:
            self.notes.setdefault(kind, []).extend(map(_printable, examples))

    def listing(self, folder: Path) -> list[str]:
        """Sorted names of the visible files in a folder; empty if the folder is missing.

        An unreadable folder is a finding.
        """
        try:
            return sorted(name for name in os.listdir(folder) if not name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            self.found("folders that cannot be read", f"{folder.name}: {error.strerror}")
            return []

    def read_json(self, path: Path, kind: type) -> Any:
        """Read a JSON file of type `kind`. A file that cannot be read is a finding and returns None."""
        return self.read(path, lambda path: read_json(path, "the file", kind))

    def read(self, path: Path, read: Callable[[Path], T]) -> T | None:
        """Read a file with a function. A file that cannot be read is a finding and returns None."""
        try:
            if not path.is_file():  # reading a pipe would block
                raise UserError(f"{path} is not a file")
            return read(path)
        except UserError as error:
            self.found("files that cannot be read", str(error).replace(str(path), path.name))
        return None


def fault_of_pair(row: Any) -> str:
    """Reason why a row of captions cannot be read; "" if it can."""
    if (
        not isinstance(row, dict)
        or not isinstance(row.get("candidate"), str)
        or not isinstance(row.get("captions"), list)
    ):
        return f'expected {{"target", "candidate", "captions"}}, found {row!r}'[:200]
    if not isinstance(row.get("target", ""), str) or not all(
        isinstance(text, str) for text in row["captions"]
    ):
        return f"expected target and captions as text, found {row!r}"[:200]
    return ""


def fault_of_labels(lists: Any) -> str:
    """Kind of finding for a row of labels; "" if the row is valid."""
    if not isinstance(lists, list) or not lists or len(lists) % ATTRIBUTE_LISTS:
        return "unusable label rows: not 6, 12 or 18 lists"
    if not all(isinstance(words, list) and all(isinstance(word, str) for word in words) for words in lists):
        return "unusable label rows: not lists of words"
    return (
        "label rows with 12 or 18 lists, which are merged when read" if len(lists) > ATTRIBUTE_LISTS else ""
    )


def fault_of_title(row: Any) -> str:
    """Kind of finding for a row of titles; "" if the row is valid. The title is optional."""
    return (
        ""
        if isinstance(row, dict) and isinstance(row.get("title") or "", str)
        else "title rows that cannot be read"
    )


def _printable(text: str) -> str:
    """Escape a text that cannot be printed on one line, such as an unusual id or file name."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
