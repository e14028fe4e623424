"""Pictures of products: matching of files to ids, and the first readable picture of each product."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path

from fashioniq.categories import file_name
from fashioniq.data.catalog_files import IMAGE_SUFFIXES
from fashioniq.data.images import PictureReader, UnreadableImage, load_square
from fashioniq.data.words import composed
from fashioniq.files import UserError
from fashioniq.prepare.archives import is_hidden

_NUMBERED = re.compile(r"(.+)[_-](\d{1,9})")
_WORD = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"\d*|(?=.*\d)[0-9a-f]{8,}", re.IGNORECASE)  # number, hash or UUID


class PictureFolder:
    """The pictures in a folder and its subfolders.

    A folder that contains only one folder is replaced by that folder.

    With `folders`, only these subfolders are searched. Without, and with a category, only the subfolder of
    the category is searched if there is one, because other categories may use the same ids. `files` maps
    every picture to its subfolder, for example "red/long"; "" for this folder and that of the category.
    `taken` and `not_taken` count the pictures of each subfolder. Raises UserError if a folder cannot be read
    or one of `folders` is missing.
    """

    def __init__(self, folder: Path, category: str | None = None, folders: Sequence[str] = ()) -> None:
        self.folder = folder
        own = {category, file_name(category)} if category else set()
        wanted = {composed(name).lower() for name in folders}
        try:
            loose, inner = _top(folder, wanted or own)
            chosen = [path for path in inner if _named(path) in (wanted or own)]
            _check_found(folders, inner, folder)
            self.files = {} if wanted else dict.fromkeys(loose, "")
            self.taken = {}
            for path in chosen or inner:
                below = _below(path, path.name if wanted or not chosen else "")
                self.files |= below
                self.taken[path.name] = len(below)
        except OSError as error:
            raise UserError(
                f"cannot read the folder of pictures {error.filename or folder}: {error.strerror}"
            ) from error
        others = [path for path in inner if chosen and path not in chosen]
        self.not_taken = {path.name: number for path in others if (number := _count_pictures(path))}
        if wanted and loose:
            self.not_taken["outside of folders"] = len(loose)
        self._by_name: dict[str, list[Path]] = defaultdict(list)
        self._by_id: dict[str, list[Path]] = defaultdict(list)
        self._numbered: dict[str, list[tuple[int, Path]]] = defaultdict(list)
        for path in self.files:
            name, stem = composed(path.name), composed(path.stem)
            self._by_name[name].append(path)
            self._by_id[stem].append(path)
            if numbered := _NUMBERED.fullmatch(stem):
                self._numbered[numbered[1]].append((int(numbered[2]), path))

    def of(self, id: str, ids: Container[str]) -> list[Path]:
        """The files <id>.jpg, <id>_1.jpg, <id>-2.png …, in this order; those of B/005 are in a folder B.

        Files of another id in `ids`, which are composed, are excluded: 12_1 may be a product of its own. Files in
        several folders mean that the match is ambiguous.
        """
        *parts, stem = composed(id).split("/")
        first = _inside(self._by_id.get(stem, []), parts)
        numbered = [
            path for _, path in sorted(self._numbered.get(stem, [])) if composed(path.stem) not in ids
        ]
        others = _inside(numbered, parts)
        folders = {path.parent for path in first or others}
        return [*first, *(path for path in others if path.parent in folders)]

    def named(self, name: str) -> list[Path]:
        """The files that match a name, which may begin with folders; several if the name is ambiguous."""
        parts = tuple(part for part in name.replace("\\", "/").split("/") if part not in ("", "."))
        parts = tuple(map(composed, parts))
        found = self._by_name.get(parts[-1], []) if parts else []
        return [path for path in found if tuple(map(composed, path.parts[-len(parts) :])) == parts]


def _inside(files: Sequence[Path], folders: Sequence[str]) -> list[Path]:
    """Files in these nested folders."""
    if not folders:
        return list(files)
    return [path for path in files if list(map(composed, path.parts[-len(folders) - 1 : -1])) == folders]


def _named(path: Path) -> str:
    """Name of a folder for comparison."""
    return composed(path.name).lower()


def _top(folder: Path, names: Container[str]) -> tuple[list[Path], list[Path]]:
    """Pictures and folders in a folder, or in the only folder in it if that is not one of `names`."""
    inner, pictures = _look_into(folder)
    while not pictures and len(inner) == 1 and _named(inner[0]) not in names:
        inner, pictures = _look_into(inner[0])
    return pictures, inner


def _check_found(wanted: Sequence[str], inner: Sequence[Path], folder: Path) -> None:
    for name in wanted:
        if composed(name).lower() not in map(_named, inner):
            found = ", ".join(path.name for path in inner) or "no folders"
            raise UserError(f"--folders: there is no folder {name!r} in {folder}: found {found}")


def _below(folder: Path, name: str) -> dict[Path, str]:
    """Pictures in a folder and its subfolders, with the name of their folder, which begins with `name`."""
    found: dict[Path, str] = {}
    folders = [(folder, name)]
    for path, name in folders:  # the list grows during the loop
        inner, pictures = _look_into(path)
        found.update(dict.fromkeys(pictures, name))
        # links can form cycles
        folders += [(below, f"{name}/{below.name}".lstrip("/")) for below in inner if not below.is_symlink()]
    return found


def _count_pictures(folder: Path) -> int:
    """Number of pictures in a folder that is not imported; unreadable subfolders are not counted."""
    return sum(
        Path(file).suffix.lower() in IMAGE_SUFFIXES and not is_hidden(file)
        for _, _, files in os.walk(folder)
        for file in files
    )


def _look_into(folder: Path) -> tuple[list[Path], list[Path]]:
    """Folders and pictures in a folder, sorted by name."""
    entries = sorted(
        (path for path in folder.iterdir() if not is_hidden(path.name)), key=lambda path: path.name
    )
    pictures = [path for path in entries if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()]
    return [path for path in entries if path.is_dir()], pictures


def title_of(folder: str, stem: str) -> str:
    """Title from the path of a picture: "red-dress" and "long 12" give "red dress long 12".

    A file name that is a number, a hash or a UUID is not used. "" without letters.
    """
    own = _WORD.findall(stem)
    title = " ".join(_WORD.findall(folder) + ([] if _IDENTIFIER.fullmatch("".join(own)) else own))
    return title if any(char.isalpha() for char in title) else ""


def first_readable(
    files: Mapping[str, Sequence[Path]], workers: int, tell: Callable[[int, int], None]
) -> tuple[dict[str, Path], dict[str, str]]:
    """First readable picture of each product, and the reasons for products without one.

    `tell` is called with the number of products processed and the total.
    """
    picked: dict[str, Path] = {}
    reasons: dict[str, list[str]] = defaultdict(list)
    waiting, turn, done = dict(files), 0, 0
    # from a module without torch, so that workers start quickly
    with PictureReader(partial(load_square, size=1), workers) as reader:
        while waiting:
            read = reader([paths[turn] for paths in waiting.values()])
            for (name, paths), found in zip(waiting.items(), read, strict=True):
                if isinstance(found, UnreadableImage):
                    reasons[name].append(_why(paths[turn], found))
                else:
                    picked[name] = paths[turn]
                if name in picked or len(paths) == turn + 1:
                    done += 1
                    tell(done, len(files))
            turn += 1
            waiting = {
                name: paths for name, paths in waiting.items() if name not in picked and len(paths) > turn
            }
    return picked, {name: "; ".join(parts) for name, parts in reasons.items() if name not in picked}


def _why(path: Path, error: UnreadableImage) -> str:
    empty = path.is_file() and not path.stat().st_size
    return f"{path.name}: {'empty file' if empty else error}"
