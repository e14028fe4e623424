"""Atomic creation of a folder, or of a category in an existing one.

The files are first written to a hidden folder next to it. A move that is interrupted by a kill is rolled
back.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fashioniq.files import UserError, cannot_write, read_json, write_json
from fashioniq.locks import locked

LAST = "catalog.json"  # describes the contents of the folder, so it is moved last
_MOVING = "moving.json"  # names of what is moved
_OLD = "old"  # what is replaced, until the move is complete
_REPLACED = "dropped.json"  # covers the whole folder, so every new category replaces it


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Yield a locked hidden folder next to `out` and remove it at the end.

    An interrupted move of a killed process is rolled back first. If that fails, the folder stays, as it has what was
    to be replaced. Raises UserError if another process holds the lock, or if the roll back fails.
    """
    work = out.parent / f".{out.name}.importing"
    with locked(work):
        try:
            _take_back(work, out)
            shutil.rmtree(work)  # what a killed run left
            work.mkdir()
            yield work
        except OSError as error:
            raise cannot_write(out, error) from error
        finally:
            if not _is_moving(work):
                shutil.rmtree(work, ignore_errors=True)


def _is_moving(work: Path) -> bool:
    """Whether some files were moved, but not the last one."""
    return (work / _MOVING).exists() and (work / "made" / LAST).exists()


def move_in(work: Path, out: Path, replaced: Collection[str] = ()) -> None:
    """Move `work/made` to `out`, or its files into an existing `out`, in place of those `replaced`; if one move fails,
    all are undone.

    Raises UserError if another file of the same name exists.
    """
    made = work / "made"
    if not out.exists():
        made.rename(out)
        return
    names = [
        str(path.relative_to(made))
        for folder in made.iterdir()
        if folder.is_dir()
        for path in sorted(folder.iterdir())
    ]
    for name in names:
        if name not in replaced and (out / name).exists():
            raise UserError(
                f"{out / name} exists, but {out / LAST} does not list its category: remove it and run again"
            )
    if (out / _REPLACED).exists():
        shutil.copyfile(out / _REPLACED, work / _REPLACED)
    write_json(work / _MOVING, names)
    try:
        for name in replaced:
            (work / _OLD / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).rename(work / _OLD / name)
        for name in names:
            (out / name).parent.mkdir(exist_ok=True)
            (made / name).rename(out / name)
        (made / _REPLACED).replace(out / _REPLACED)
        (made / LAST).replace(out / LAST)
    except BaseException:
        _take_back(work, out)
        raise


def _take_back(work: Path, out: Path) -> None:
    """Undo an interrupted move into `out`."""
    made = work / "made"
    if not _is_moving(work):
        return
    for name in read_json(work / _MOVING, "the list of files that were being moved", list):
        if not (made / name).exists():
            with suppress(FileNotFoundError):
                (out / name).rename(made / name)
            with suppress(OSError):  # the folder contains files of other categories
                (out / name).parent.rmdir()
    for old in (work / _OLD).glob("*/*"):
        (out / old.relative_to(work / _OLD)).parent.mkdir(exist_ok=True)
        old.rename(out / old.relative_to(work / _OLD))
    if (work / _REPLACED).exists():
        os.replace(work / _REPLACED, out / _REPLACED)
    (work / _MOVING).unlink()  # before anything else is removed, which would seem to have been moved
