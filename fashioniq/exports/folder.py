"""Output folder of an export: it is empty, or has an earlier export, which is replaced."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fashioniq.files import UserError, check_writable, read_json, remove_leftovers


def check_folder(
    out: Path, mark: str, is_ours: Callable[[dict[str, Any]], bool], unfinished: Iterable[str] = ()
) -> None:
    """Raise UserError if a folder cannot be written, or has files that are not of an earlier export.

    An earlier export has the JSON file `mark` of which `is_ours` holds. Without it, the folder may have what a killed
    export left: files named in `unfinished`. Hidden files do not count, such as those of git.
    """
    check_writable(out)
    remove_leftovers(out)
    found = sorted(path.name for path in out.glob("*") if not path.name.startswith("."))
    if not found or (mark not in found and set(found) <= set(unfinished)):
        return
    try:
        known = mark in found and is_ours(read_json(out / mark, "the earlier export", dict))
    except UserError:
        known = False
    if not known:
        raise UserError(
            f"expected an empty folder or an earlier export in {out}, found {mark if mark in found else found[0]} of "
            "something else; give another --out"
        )
