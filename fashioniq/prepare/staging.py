"""A folder that appears whole, or takes a category whole: made in a hidden folder beside it, and taken back if a kill cuts the move short."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fashioniq.files import UserError, cannot_write, locked, read_json, write_json

LAST = "catalog.json"  # a folder has what this says: until it is moved, nothing is
_REPLACED = "dropped.json"  # of the whole folder, so a new category writes it anew


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """Give a hidden folder beside `out`, which is this process's alone and goes at the end. What a killed process left is mended first.

    Raises UserError where another process has it.
    """
    work = out.parent / f".{out.name}.importing"
    with locked(work):
        try:
            _take_back(work, out)
            _empty(work)
            yield work
        except OSError as error:
            raise cannot_write(out, error) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)


def move_in(work: Path, out: Path) -> None:
    """Give `work/made` its place: as `out`, or file by file into the folder that is there, where all or none of it arrives.

    Raises UserError where a file of the same name is there.
    """
    made = work / "made"
    if not out.exists():
        made.rename(out)
        return
    names = [str(path.relative_to(made)) for folder in made.iterdir() if folder.is_dir() for path in sorted(folder.iterdir())]
    for name in names:
        if (out / name).exists():
            raise UserError(f"{out / name} exists, though {out / LAST} says nothing of its category: remove it and run again")
    if (out / _REPLACED).exists():
        shutil.copyfile(out / _REPLACED, work / _REPLACED)
    write_json(work / "moving.json", names)
    try:
        for name in names:
            (out / name).parent.mkdir(exist_ok=True)
            (made / name).rename(out / name)
        (made / _REPLACED).replace(out / _REPLACED)
        (made / LAST).replace(out / LAST)
    except BaseException:
        _take_back(work, out)
        raise


def _take_back(work: Path, out: Path) -> None:
    """Undo a move into `out` that did not come to its end."""
    made = work / "made"
    if not (work / "moving.json").exists() or not (made / LAST).exists():
        return
    for name in read_json(work / "moving.json", "the list of files that were being moved", list):
        if not (made / name).exists():
            with suppress(FileNotFoundError):
                (out / name).rename(made / name)
            with suppress(OSError):  # other categories have files there
                (out / name).parent.rmdir()
    if (work / _REPLACED).exists():
        os.replace(work / _REPLACED, out / _REPLACED)


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
