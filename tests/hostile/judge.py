"""Run one case in this process and judge what it printed and wrote."""

import csv
import io
import json
import os
import re
import select
import shutil
import signal
import sys
import time
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from html.parser import HTMLParser
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from world import Room, of_few_products

from fashioniq import files
from fashioniq.cli import main

LIMIT = 60  # seconds of a case
IDLE = 0.1  # seconds of processor time below which a case has only waited
STILLBORN = (
    "in start\n    self._started.wait()"  # for a thread that had no memory to begin: python/cpython#140746
)
ROUNDS = 8  # of LIMIT on a busy machine
OUTCOMES = ("refused", "accepted", "traceback", "hang", "half-written", "silent wrong")
BAD = frozenset(OUTCOMES[2:])

State = dict[str, tuple[int, int, int]]


class Hang(BaseException):
    """The case took longer than LIMIT; no handler of the package catches it."""


@dataclass
class Case:
    """A command line on a room.

    `out` are the places that the command may write to; with `whole` a refused command leaves them as they
    were. `check` returns what is wrong after the command was accepted. `said` is the standard input. `call` runs the
    command inside `during`, and with `apart` in a process of its own, as it starts threads that last. `ends` are other
    exit codes that are right, and `mute` means that nobody can read errors.
    """

    arguments: list[str]
    what: str
    out: list[Path] = field(default_factory=list)
    whole: bool = True
    check: Callable[[], str | None] = lambda: None
    said: str = ""
    during: AbstractContextManager[Any] = field(default_factory=nullcontext)
    apart: bool = False
    call: Callable[[list[str]], int] = main
    ends: tuple[int, ...] = ()
    mute: bool = False


class Verdict(NamedTuple):
    """Outcome of a case, and what was wrong."""

    outcome: str
    problem: str = ""


@dataclass
class Trial:
    """A case of several processes, which judges itself."""

    arguments: list[str]
    what: str
    play: Callable[[], Verdict]


class Printed:
    """Standard output and error of this process, also of code outside of Python, in two files."""

    def __init__(self, folder: Path) -> None:
        self.files = [open(folder / name, "w+b") for name in ("stdout", "stderr")]  # noqa: SIM115

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Send what is printed to the files."""
        saved = [os.dup(number) for number in (1, 2)]
        streams = sys.stdout, sys.stderr
        for number, file in enumerate(self.files, start=1):
            file.seek(0)
            file.truncate()
            os.dup2(file.fileno(), number)
        sys.stdout, sys.stderr = (
            io.TextIOWrapper(os.fdopen(number, "wb", closefd=False), "utf-8", errors, write_through=True)
            for number, errors in ((1, "strict"), (2, "backslashreplace"))  # as Python's own
        )
        try:
            yield
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            sys.stdout, sys.stderr = streams
            for number, copy in enumerate(saved, start=1):
                os.dup2(copy, number)
                os.close(copy)

    def texts(self) -> tuple[str, str]:
        """What was printed last to output and error."""
        for file in self.files:
            file.seek(0)
        out, error = (file.read().decode("utf-8", "replace") for file in self.files)
        return out, error


def judge(case: Case, room: Room, printed: Printed) -> Verdict:
    """Run a case and judge it."""
    room.inside.mkdir(parents=True)
    before, beside = state_of(room.folder), set(os.listdir(room.folder.parent))
    code, trace = _run_apart(case, room, printed) if case.apart else _run(case, room, printed)
    out, error = printed.texts()
    if code == "hang" and STILLBORN in trace:
        return Verdict("refused", "Python waits for a thread that could not begin")
    if code == "hang":
        return Verdict("hang", f"longer than {LIMIT} s")
    if trace or "Traceback" in error or "Traceback" in out:
        return Verdict("traceback", trace or error)
    if code in case.ends:
        code = 0
    if code not in (0, 1, 2) or (code == 1 and case.arguments[0] not in ("check-data", "learn", "results")):
        return Verdict("traceback", f"exit code {code}: {error[-300:]}")
    after = state_of(room.folder)
    if set(os.listdir(room.folder.parent)) != beside:
        return Verdict("silent wrong", "wrote outside of the room")
    if pwned := [name for name in after if Path(name).name.startswith("PWNED")]:
        return Verdict("silent wrong", f"executed content: {pwned}")
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    changed -= {name for name in changed if name not in before and (room.folder / name).is_dir()}
    allowed = [str(place.relative_to(room.folder)) for place in case.out]
    allowed += [f"{one}.parts" for one in allowed]  # of make-dialogues
    free = "." in allowed
    if odd := {
        name for name in changed if not free and not any(f"{name}/".startswith(f"{one}/") for one in allowed)
    }:
        return Verdict("silent wrong", f"changed what it only reads: {sorted(odd)[:5]}")
    if problem := incomplete([room.folder / name for name in sorted(changed)]):
        return Verdict("half-written", problem)
    if code == 2:
        if not case.mute and (problem := unclear(error)):
            return Verdict("traceback", problem)
        if case.whole and changed:
            return Verdict(
                "half-written", f"refused ({error.strip()[:200]}), and changed {sorted(changed)[:5]}"
            )
        return Verdict("refused", error.strip()[:300])
    if odd := _control(out + error, "".join(case.arguments)):
        return Verdict("silent wrong", f"printed control characters {odd!r}")
    if problem := _active([room.folder / name for name in changed if name.endswith(".html")]) or case.check():
        return Verdict("silent wrong", problem)
    return Verdict("accepted")


def _run(case: Case, room: Room, printed: Printed) -> tuple[int | str, str]:
    started = time.process_time()
    rounds = iter(range(ROUNDS))

    def alarm(*_: Any) -> None:
        """End the case, unless other processes had the processor: it neither waited nor ran for a minute."""
        spent = time.process_time() - started
        if IDLE < spent < LIMIT / 2 and next(rounds, None) is not None:
            signal.alarm(LIMIT)
        else:
            raise Hang

    here, stdin, environment = os.getcwd(), sys.stdin, dict(os.environ)
    signal.signal(signal.SIGALRM, alarm)
    signal.alarm(LIMIT)
    code: int | str = 0
    trace = ""
    try:
        os.chdir(room.inside)
        os.environ["HOME"] = str(room.inside)  # "~" stays in the room, too
        sys.stdin = io.StringIO(case.said)
        with printed.caught(), of_few_products(), case.during:
            try:
                code = case.call([word for word in case.arguments])
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
    except Hang:
        code, trace = "hang", traceback.format_exc()
    except BaseException:
        trace = traceback.format_exc()
    finally:
        signal.alarm(0)
        os.chdir(here)
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(environment)
    return code, trace


def _run_apart(case: Case, room: Room, printed: Printed) -> tuple[int | str, str]:
    """The same in a forked process, which ends with all of its threads."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        forkserver._forkserver.__init__()  # type: ignore[misc] # that of the parent is no child of this process
        try:
            result = _run(case, room, printed)
            os.write(writer, json.dumps((result[0], result[1][-2000:])).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        content = pipe.read() if select.select([pipe], [], [], (ROUNDS + 1) * LIMIT)[0] else b'["hang", ""]'
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if not content:
        return 0, f"the process died with status {status}"
    code, trace = json.loads(content)
    return code, trace


def state_of(folder: Path) -> State:
    """Kind, size and time of every file and folder below a folder."""
    found = {}
    for path, folders, names in os.walk(folder):
        for name in folders + names:
            one = os.lstat(os.path.join(path, name))
            is_folder = name in folders and not os.path.islink(os.path.join(path, name))
            key = os.path.relpath(os.path.join(path, name), folder)
            found[key] = (one.st_mode, 0, 0) if is_folder else (one.st_mode, one.st_size, one.st_mtime_ns)
    return found


def unclear(error: str) -> str:
    lines = [line for line in error.splitlines() if line.strip()]
    if len(lines) != 1 or not lines[0].startswith("error: "):
        return f"expected one line with an error, found {lines[-4:]}"
    return "" if lines[0].isprintable() else f"control characters in {lines[0]!r}"


def _control(text: str, given: str) -> list[str]:
    """Control characters in a text, but for those that were given on the command line."""
    odd = {one for one in text if unicodedata.category(one) in ("Cc", "Cf", "Cs")}
    return sorted(odd - {"\n", "\r", "\t", *given})


def incomplete(changed: Iterable[Path]) -> str:
    for path in changed:
        if files._TEMPORARY.fullmatch(path.name) or path.name.endswith(".lock") or "unfinished" in path.name:
            return f"left {path}"
        if path.is_file() and not path.is_symlink() and path.suffix in READERS:
            try:
                READERS[path.suffix](path)
            except Exception as error:
                return f"{path} cannot be read: {error!r}"
    return ""


def strict_json(text: str) -> Any:
    """JSON without NaN and infinity."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


def _page(path: Path) -> None:
    if "</html>" not in path.read_text(encoding="utf-8")[-20:]:
        raise ValueError("no end of the page")


def _image(path: Path) -> None:
    from PIL import Image

    with Image.open(path) as image:
        image.load()


def _weights(path: Path) -> None:
    from safetensors.numpy import load_file

    for name, tensor in load_file(path).items():
        if not np.isfinite(tensor).all():
            raise ValueError(f"{name} is not finite")


READERS: dict[str, Callable[[Path], Any]] = {
    ".json": lambda path: strict_json(path.read_text(encoding="utf-8")),
    ".jsonl": lambda path: [
        strict_json(line) for line in path.read_text(encoding="utf-8").split("\n") if line
    ],
    ".npy": lambda path: np.load(path, mmap_mode="r"),
    ".html": _page,
    ".png": _image,
    ".safetensors": _weights,
    ".csv": lambda path: list(csv.reader(path.read_text(encoding="utf-8").splitlines())),
    ".trec": lambda path: [
        float(line.split()[3 if path.name.startswith("qrels") else 4])
        for line in path.read_text(encoding="utf-8").splitlines()
    ],
}


class _Active(HTMLParser):
    """Finds what a browser would execute or load on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            text = value or ""
            loads = name in ("src", "href", "srcdoc", "action") and re.match(
                r"\s*(javascript|http|//|data:text)", text
            )
            if name.startswith("on") or loads or (tag not in ("img", "a") and "pwned" in name):
                self.found.append(f"<{tag} {name}={text[:60]}>")
        if tag in ("script", "iframe", "object", "embed", "base", "form"):
            self.found.append(f"<{tag}>")


def _active(pages: list[Path]) -> str:
    for page in pages:
        if not page.is_file():
            continue
        parser = _Active()
        text = page.read_text(encoding="utf-8")
        parser.feed(text)
        if parser.found:
            return f"{page} has {parser.found[:3]}"
        if str(7 * 191) in text and "pwned" in text:
            return f"{page} evaluates templates of its content"
    return ""


def cleared(folder: Path) -> None:
    """Remove a room, with all that is odd in it."""
    shutil.rmtree(folder, ignore_errors=True)
