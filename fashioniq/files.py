"""Atomic writing and reading of files, locks, and errors that the user can fix."""

import errno
import glob
import hashlib
import json
import math
import os
import re
import stat
import tempfile
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")
_TEMPORARY = re.compile(r"\..+-[a-z0-9_]{8}(\.[a-z]+)?")  # names of the temporary files in `atomic_write`


class UserError(Exception):
    """An error that the user can fix, described in one line. Commands print it and exit with code 2."""


def one_line(text: str, most: int = 2000) -> str:
    """Text for a terminal: on one line, without control characters, and cut after `most` characters.

    Names and values from files may contain anything, also sequences that change the colors of a terminal.
    """
    joined = " ".join(plain(text).split())
    return joined if len(joined) <= most else joined[: most - 2].rstrip() + " …"


def plain(text: str) -> str:
    """Text with a space for each control character, also line breaks and half surrogate pairs."""
    control = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(" " if unicodedata.category(one) in control else one for one in text)


def why(error: BaseException, most: int = 160) -> str:
    """Reason of any exception on one line; the name of its class if it has no text."""
    return one_line(str(error), most) or type(error).__name__


@contextmanager
def explaining(
    what: str, then: str, kinds: type[Exception] | tuple[type[Exception], ...] = Exception
) -> Iterator[None]:
    """Convert an exception raised inside to UserError: `what` is wrong, why, and `then`, after a mark, what to do."""
    try:
        yield
    except kinds as error:
        raise UserError(f"{what} ({why(error)}){then}") from error


def refuse_special(path: Path) -> None:
    """Raise UserError if a path is a pipe, a device or a socket, or if no file can have its name."""
    try:
        mode = os.stat(path).st_mode
    except ValueError as error:  # a null character, or half a surrogate pair
        raise UserError(f"{path} is not a path ({why(error)}); correct it") from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UserError(f"{one_line(str(path), 60)} is too long for a path; shorten it") from error
        return  # missing files have their own errors
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UserError(f"{path} is a pipe, a device or a socket; give a file or a folder")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`.

    On success the temporary file is synced and renamed to `path`; otherwise it is removed. Raises UserError if the
    disk is full, the folder cannot be written, or `path` is a folder.
    """
    waiting = _waiting.get()
    with writing(path):
        if path.is_dir():  # found now, not after other files have been replaced
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.parent.mkdir(parents=True, exist_ok=True)
        if waiting is not None and all(other.parent != path.parent for _, other in waiting.files):
            remove_leftovers(path.parent)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
    temporary = Path(name)
    try:
        with writing(path):
            yield temporary
            with open(temporary, "rb+") as written:  # Windows syncs only files opened for writing
                os.fsync(written.fileno())
            os.umask(umask := os.umask(0))
            temporary.chmod(0o666 & ~umask)  # as for any new file; those of mkstemp are private
            if waiting is None:
                temporary.replace(path)
            else:
                waiting.files.append((temporary, path))
    finally:
        if waiting is None or (temporary, path) not in waiting.files:
            temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


class _Unnamed(NamedTuple):
    """Files written in a block of `together`, by their temporary names, and patterns of those that they replace."""

    files: list[tuple[Path, Path]]
    replaced: list[tuple[Path, str]]


_waiting: ContextVar[_Unnamed | None] = ContextVar("waiting", default=None)


@contextmanager
def together(folder: Path, *replaced: str) -> Iterator[None]:
    """Give the files written inside their names only when all of them are written; after an exception, remove them.

    The files in `folder` that match the patterns `replaced` are removed first, then the new ones are named in their
    order; what a killed command left is removed from each folder before its first file. A block inside another one
    ends with it. Raises UserError if a file cannot be removed or named.
    """
    outer = _waiting.get()
    waiting = outer or _Unnamed([], [])
    waiting.replaced.extend((folder, pattern) for pattern in replaced)
    if outer is not None:
        yield
        return
    mark = _waiting.set(waiting)
    try:
        yield
        new = {os.path.abspath(temporary) for temporary, _ in waiting.files}
        for path in (path for one, pattern in waiting.replaced for path in sorted(one.glob(pattern))):
            if os.path.abspath(path) not in new:
                with writing(path):
                    path.unlink(missing_ok=True)
        for temporary, path in waiting.files:
            with writing(path):
                temporary.replace(path)
    finally:
        _waiting.reset(mark)
        for temporary, _ in waiting.files:
            temporary.unlink(missing_ok=True)
    for parent in {path.parent for _, path in waiting.files}:
        sync_folder(parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that a new name survives a power failure, if the system supports it."""
    with suppress(OSError):  # Windows cannot open folders, and some file systems cannot sync them
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_leftovers(folder: Path, of: str = "") -> None:
    """Remove temporary files of `atomic_write` that killed runs left in a folder: of all files, or of one."""
    pattern = f".{glob.escape(Path(of).stem)}-????????{glob.escape(Path(of).suffix)}" if of else ".*"
    for path in folder.glob(pattern):
        if _TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> UserError:
    """Error for a failure to write `path`: the disk is full, or the reason given by the system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(f"no space left to write {path}: free some space and run the same command again")
    return UserError(f"cannot write {path}: {error.strerror or error}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Convert an OSError raised inside, while writing `path`, to a UserError."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def check_writable(folder: Path) -> None:
    """Raise UserError if no file can be written to a folder, which may not exist yet; write none."""
    existing = folder
    while not os.path.lexists(existing) and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise cannot_write(folder, NotADirectoryError(errno.ENOTDIR, f"{existing} is not a folder"))
    with writing(folder):
        tempfile.TemporaryFile(dir=existing).close()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder, which is removed at the end. Raises UserError if it cannot be made."""
    with writing(Path("a temporary folder")):
        folder = tempfile.TemporaryDirectory(prefix="fashioniq-", ignore_cleanup_errors=True)
    with folder as name:
        yield Path(name)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")  # it may have half a surrogate pair


def write_json(path: Path, content: Any, indent: int | None = 2) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def write_jsonl(path: Path, records: Iterable[Any]) -> None:
    """Write a file with one JSON record per line atomically, line by line."""
    with atomic_write(path) as temporary, open(temporary, "w", encoding="utf-8", errors="replace") as file:
        file.writelines(json_line(record) + "\n" for record in records)


def json_line(record: Any) -> str:
    """JSON of a record on one line; msgspec structs are objects."""
    return json.dumps(record, ensure_ascii=False, default=msgspec.to_builtins)


@contextmanager
def reading(path: Path, what: str, need: str) -> Iterator[None]:
    """Convert errors of reading the text file `path` to UserError: `what` it is, and what to do (`need`) without it."""
    refuse_special(path)
    try:
        yield
    except FileNotFoundError as error:
        raise UserError(f"there is no {what} {path}: {need}") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"the {what} {path} is not UTF-8 text ({error.reason} at byte {error.start}): save it in UTF-8"
        ) from error
    except OSError as error:
        raise UserError(f"cannot read the {what} {path}: {error.strerror}") from error


def read_text(path: Path, what: str, need: str) -> str:
    """Text of a UTF-8 file without its byte order mark. Raises the errors of `reading`."""
    with reading(path, what, need):
        return Path(path).read_text(encoding="utf-8-sig")


def text_lines(path: Path, what: str, need: str) -> Iterator[str]:
    """Yield the lines of a UTF-8 text file without its byte order mark. Raises the errors of `reading`."""
    with reading(path, what, need), open(path, encoding="utf-8-sig", newline="\n") as file:
        yield from file


def read_json(path: Path, what: str, kind: type | None = None) -> Any:
    """Read a JSON file, without its byte order mark. `what` describes it in errors; `kind` is the type of its content.

    Raises UserError if the file is missing or truncated, or contains another type or a number that is not finite.
    """
    refuse_special(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_real, parse_float=_real)
    except FileNotFoundError as error:
        raise UserError(f"cannot find {what}: there is no file {path}") from error
    except OSError as error:
        raise UserError(f"cannot read {what} {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deeply
        raise UserError(
            f"{what} {path} is not valid JSON ({why(error)}): download or create the file again"
        ) from error
    if kind is not None and not isinstance(content, kind):
        raise UserError(f"{what} {path}: expected a {kind.__name__}, found a {type(content).__name__}")
    return content


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # Python also reads NaN and Infinity, and 1e999 as infinite
        raise ValueError(f"{text} is not a finite number")
    return number


def typed(content: dict[str, Any], kind: type[T], path: Path, repair: str) -> T:
    """Convert the content of the JSON file `path` to a msgspec struct; unknown keys are ignored.

    Raises UserError for missing keys and wrong types; `repair` tells the user what to do.
    """
    required = {one.encode_name for one in msgspec.structs.fields(kind) if one.required}  # type: ignore[arg-type]
    if missing := required - set(content):
        raise UserError(f"{path} lacks {', '.join(sorted(missing))}: {repair}")
    with explaining(f"{path} is malformed", f": {repair}", ValueError):  # also of half a surrogate pair
        return msgspec.convert(content, kind)


def checksum(path: Path, digits: int = 16) -> str:
    """First hexadecimal digits of the SHA-256 of a file, which has 64. Raises UserError for a pipe or a device."""
    refuse_special(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:digits]
