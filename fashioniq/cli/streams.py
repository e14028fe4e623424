"""Standard streams, folder and memory of a command, which others may have closed, filled, removed or limited."""

import codecs
import errno
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial

from fashioniq import compat
from fashioniq.files import UserError, explaining, one_line, why

_NO_MEMORY = re.compile(
    "can(no|')t allocate memory|failed to map segment|out of memory|bad.alloc|can't start new thread", re.I
)
# what Python and oneDNN say under a limit, where they have no room for the reason
_LIMITED = re.compile("error return without exception set|could not create a primitive")
_LOCALE = "the encoding of the locale, {}, does not have; set LC_ALL=C.UTF-8"


class OutputError(Exception):
    """Standard output cannot be written. It is no OSError, as those are errors of files for who catches them."""


class _Stream(io.TextIOWrapper):
    """Standard stream whose errors become others, or none, in the context that `guard` makes."""

    first: io.TextIOWrapper
    guard: Callable[[], AbstractContextManager[None]]

    def write(self, text: str) -> int:
        with self.guard():
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with self.guard():
            super().flush()


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(error.strerror) from error


def prepare() -> None:
    """Make the standard streams usable: a closed input is empty, and what the locale lacks is escaped.

    Streams that others have put there, such as pytest, stay as they are. Raises UserError if standard output is
    closed.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if type(sys.stdin) is io.TextIOWrapper and sys.stdin.errors != "replace":
        is_ascii = codecs.lookup(sys.stdin.encoding).name == "ascii"  # UTF-8 includes it
        sys.stdin.reconfigure(encoding="utf-8" if is_ascii else None, errors="replace")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if type(sys.stderr) is io.TextIOWrapper:
        # what cannot be written there ends no command
        sys.stderr = _wrapped(sys.stderr, partial(suppress, OSError))
    if sys.stdout is None:
        raise UserError("standard output is closed; redirect it, such as to /dev/null")
    if type(sys.stdout) is io.TextIOWrapper:
        sys.stdout = _wrapped(sys.stdout, _own_errors)


def _wrapped(stream: io.TextIOWrapper, guard: Callable[[], AbstractContextManager[None]]) -> io.TextIOWrapper:
    wrapped = _Stream(
        stream.buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    wrapped.guard = guard
    wrapped.first = stream  # it would close the buffer if it were not kept
    return wrapped


def check_working_directory() -> None:
    """Raise UserError if the working directory was removed: many libraries ask for its path."""
    with explaining("the working directory cannot be used", "; change to another one", OSError):
        os.getcwd()


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise UserError if the locale has no characters for the bytes of an argument."""
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8" and any("\udc80" <= one <= "\udcff" for text in arguments for one in text):
        raise UserError(f"the command line has characters that {_LOCALE.format(encoding)}")


def end_of(error: Exception) -> tuple[int, str] | None:
    """Exit code and message for an error of the streams, of the locale, of the memory, or of a name that is too long
    for a path, which only a user can have given; None for any other.
    """
    if isinstance(error, OutputError):
        with suppress(OSError, ValueError):  # the interpreter writes what is left when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error.__cause__, BrokenPipeError):  # the reader, such as `| head`, has read enough
            return 141, ""
        return 2, f"cannot write standard output ({why(error)}); free some space, or redirect it elsewhere"
    if isinstance(error, UnicodeEncodeError) and sys.getfilesystemencoding() != "utf-8":
        found = ascii(error.object[error.start : error.end])
        return 2, f"found characters ({found}) that {_LOCALE.format(error.encoding)}"
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    for one in reversed(chain):  # the first reason is the most exact
        limited = _LIMITED.search(str(one)) and compat.has_memory_limit()
        if isinstance(one, MemoryError) or _NO_MEMORY.search(str(one)) or limited:
            return 2, (
                f"not enough memory ({why(one)}); end other programs, raise the limit (ulimit -v), or give smaller "
                "sizes"
            )
        if isinstance(one, OSError) and one.errno == errno.ENAMETOOLONG:
            return 2, f"{one_line(str(one.filename), 60)} is too long for a path; shorten it"
    return None
