"""Output folder of an export: it is empty, or has an earlier export, which is replaced."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fashioniq.files import UserError, check_writable, read_json, remove_leftovers, writing
from fashioniq.folders import refuse_others


def check_folder(
    out: Path, mark: str, is_ours: Callable[[dict[str, Any]], bool], unfinished: Iterable[str] = ()
) -> None:
    """Raise UserError if a folder cannot be written, or has files that are not of an earlier export.

    An earlier export has the JSON file `mark` of which `is_ours` holds. Without it, the folder may have what a killed
    export left: files named in `unfinished`. Hidden files do not count, such as those of git.
    """
    check_writable(out)
    remove_leftovers(out)
    known, has_mark = False, (out / mark).exists()
    if has_mark:
        with suppress(UserError):
            known = is_ours(read_json(out / mark, "the earlier export", dict))
    if not known:
        left = set() if has_mark else {*unfinished}
        refuse_others(out, "an earlier export", "--out", lambda path: path.name in left)


def discard(folder: Path, *patterns: str) -> None:
    """Remove the files of an earlier export that match the patterns, in the order of the patterns, and what killed
    runs left in the folder. Raises UserError if a file cannot be removed.
    """
    remove_leftovers(folder)
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
        with writing(path):
            path.unlink(missing_ok=True)
