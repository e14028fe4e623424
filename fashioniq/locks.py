"""Locks on folders and files against other processes."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from fashioniq.files import UserError, one_line, refuse_special, writing
from fashioniq.provenance import command_line

BRIEF = 600.0  # seconds for a lock that others hold for moments, longer on a slow disk


@contextmanager
def locked(folder: Path, wait: float = 0.0) -> Iterator[None]:
    """Create a folder and lock it with `exclusive`. Raises UserError if it cannot be created."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with exclusive(folder, wait):
        yield


@contextmanager
def exclusive(path: Path, wait: float = 0.0) -> Iterator[None]:
    """Lock a path, which need not exist yet, against other processes.

    The lock ends with the process, even if it is killed. The lock is a file next to the path, with the id and
    the command of the process; folders that are made for it are removed again if nothing else is in them. If
    the file system or its permissions allow no lock file, nothing is locked. Raises UserError that names the
    other process if it has the lock for `wait` seconds.
    """
    refuse_special(path)
    resolved = Path(os.path.realpath(path))
    lock = FileLock(resolved.parent / f".{resolved.name}.lock", mode=0o666, fallback_to_soft=False)
    file, made = Path(lock.lock_file), [one for one in resolved.parents if not os.path.exists(one)]
    with ExitStack() as at_end:
        for folder in reversed(made):
            at_end.callback(_tried, folder.rmdir)
        try:
            resolved.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire(wait)
        except Timeout as error:
            raise UserError(
                f"another process is writing to {path}{_holder(file)}: wait until it has finished, or stop it"
            ) from error
        except OSError:
            pass
        else:
            at_end.callback(lock.release)
            # removed before the release: a waiting process notices this and creates a new lock file
            at_end.callback(_tried, file.unlink)
            with suppress(OSError):
                file.write_text(f"{os.getpid()} {command_line()}", encoding="utf-8", errors="replace")
        yield


def _holder(lock: Path) -> str:
    """Process that holds a lock, in words; empty if it cannot be read."""
    try:
        process, _, command = lock.read_text(encoding="utf-8", errors="replace").partition(" ")
    except OSError:
        return ""
    return f" (process {process}, {one_line(command, 300)})" if process else ""


def _tried(remove: Callable[[], None]) -> None:
    with suppress(OSError):  # a folder with other files; Windows cannot remove open files
        remove()


def append_line(path: Path, line: str) -> None:
    """Append one line to a UTF-8 text file atomically; several processes may append to the same file.

    If a crash truncated the last line, that line is terminated first. Raises UserError if the file cannot be
    written.
    """
    with locked(path.parent, wait=BRIEF), writing(path), open(path, "ab+") as file:
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
