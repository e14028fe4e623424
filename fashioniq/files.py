"""Files that appear whole or not at all, and errors that a user can mend."""

import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_TEMPORARY = re.compile(r"\..+-[a-z0-9_]{8}(\.[a-z]+)?")  # the names that mkstemp gives in `whole`


class UserError(Exception):
    """A mistake that the user can mend, told in one line; commands print it and exit with code 2."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; at a clean exit it is synced and takes the name, else it is removed.

    Raises UserError where the disk is full or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-", suffix=path.suffix)
        os.close(handle)
    except OSError as error:
        raise cannot_write(path, error) from error
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as written:  # Windows syncs what may be written only
            os.fsync(written.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files; ours are as any other
        temporary.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Let a new name outlive a power cut, where the system can."""
    if (handle := _open_folder(folder)) is not None:
        with suppress(OSError):  # not every file system syncs folders
            os.fsync(handle)
        os.close(handle)


def _open_folder(folder: Path) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY)
    except OSError:  # as always on Windows
        return None


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of `whole` that killed runs left in a folder."""
    for path in folder.glob(".*"):
        if _TEMPORARY.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


@contextmanager
def held(folder: Path, wait: bool = False) -> Iterator[None]:
    """Make a folder and keep other processes from filling it meanwhile; a process that is killed lets go of it.

    Raises UserError where another holds it and it is not to `wait`, or it cannot be made. Systems that cannot lock a folder let everybody in.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    with ExitStack() as at_end:
        if fcntl and (handle := _open_folder(folder)) is not None:
            at_end.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError as error:
                raise UserError(f"another process is filling {folder}: wait until it is done, or stop it") from error
            except OSError:
                pass  # a file system without locks
        yield


def cannot_write(path: Path, error: OSError) -> UserError:
    """What to tell of a failure to write `path`: the disk is full, or the system's reason."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(f"no space left to write {path}: free some and run the same command again")
    return UserError(f"cannot write {path}: {error.strerror or error}")


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")  # halves of a character, as cut texts have them, are no UTF-8


def append_line(path: Path, line: str) -> None:
    """Append one line to a UTF-8 text file: whole or not at all, also where several processes append to it.

    A last line that a crash cut short is ended first. Raises UserError where the file cannot be written.
    """
    with held(path.parent, wait=True):
        try:
            with open(path, "ab+") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - 1))
                start = b"" if file.read() in (b"", b"\n") else b"\n"
                try:
                    file.write(start + line.encode("utf-8", errors="replace") + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(end)
                    raise
        except OSError as error:
            raise cannot_write(path, error) from error


def discard(folder: Path, *patterns: str) -> None:
    """Remove the files of an earlier result, the patterns' in their order, so that none outlives what it belongs to. Raises UserError."""
    for path in (path for pattern in patterns for path in sorted(folder.glob(pattern))):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise cannot_write(path, error) from error


def write_json(path: Path, content: Any, indent: int | None = 2) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def read_json(path: Path, what: str, kind: type | None = None) -> Any:
    """Read a JSON file; `what` names it in errors, `kind` is the type that its content must have.

    Raises UserError where the file is missing, truncated, or holds something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{what} is missing: there is no file {path}") from error
    except OSError as error:
        raise UserError(f"cannot read {what} {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # nested too deeply
        raise UserError(f"{what} {path} is not whole JSON ({error}): get or make the file again") from error
    if kind is not None and not isinstance(content, kind):
        raise UserError(f"{what} {path} should hold a {kind.__name__}, it holds a {type(content).__name__}")
    return content


def checksum(path: Path) -> str:
    """The SHA-256 of a file, as 16 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
