"""Cases of environments: streams that are closed or full, limits, locales and odd variables around valid commands."""

import io
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from random import Random
from typing import Any

from cases import case_of, hostile, valid
from judge import LIMIT, Case
from service_inputs import not_serving, options
from world import Room, arguments_of

from fashioniq.cli import main

Environment = Callable[[Random], Any]  # makes a context manager
STREAMS = ("stdin", "stdout", "stderr")
PICTURED = {"train-attributes", "train-generator", "check-data"}
SLOW = {"train-attributes", "train-retriever", "train-captioner", "train-generator"}


def closed(number: int) -> Environment:
    """A standard stream that the shell has closed."""

    @contextmanager
    def around(rng: Random) -> Iterator[None]:
        before = getattr(sys, STREAMS[number])
        os.close(number)
        setattr(sys, STREAMS[number], None)
        try:
            yield
        finally:
            setattr(sys, STREAMS[number], before)

    return around


def sent_to(number: int, target: Callable[[Random], int]) -> Environment:
    """A standard stream that ends in the file descriptor of `target`."""

    @contextmanager
    def around(rng: Random) -> Iterator[None]:
        before = getattr(sys, STREAMS[number])
        os.dup2(target(rng), number)
        stream = io.TextIOWrapper(os.fdopen(number, "wb", closefd=False), "utf-8")
        setattr(sys, STREAMS[number], stream)
        try:
            yield
        finally:
            setattr(sys, STREAMS[number], before)
            with suppress(OSError, ValueError):  # it is closed with the one that the command put around it
                stream.flush()

    return around


def full(rng: Random) -> int:
    """A device that is always full."""
    return os.open("/dev/full", os.O_WRONLY)


def left(rng: Random) -> int:
    """A pipe whose reader goes away after some bytes, as `| head` does."""
    reader, writer = os.pipe()
    most = rng.choice((0, 0, 1, 50, 1000))

    def read() -> None:
        with suppress(OSError):  # another environment closes descriptors
            if most:
                os.read(reader, most)
            os.close(reader)

    threading.Thread(target=read, daemon=True).start() if most else read()
    return writer


@contextmanager
def odd_bytes(rng: Random) -> Iterator[None]:
    """An input that is no text."""
    sys.stdin = io.TextIOWrapper(io.BytesIO(rng.randbytes(rng.choice((1, 100, 10_000)))), "utf-8")
    yield


def limited(kind: int, most: Callable[[Random], int]) -> Environment:
    """A limit of the system."""

    @contextmanager
    def around(rng: Random) -> Iterator[None]:
        soft, hard = resource.getrlimit(kind)
        wanted = most(rng)
        resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
        try:
            yield
        finally:
            resource.setrlimit(kind, (soft, hard))

    return around


def memory(rng: Random) -> int:
    """Bytes: some more than this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize() + (rng.choice((0, 1, 2, 4, 8, 16, 32, 64, 128, 256)) << 20)


def open_files(rng: Random) -> int:
    """Numbers of files: some more than this process has."""
    return max(map(int, os.listdir("/proc/self/fd"))) + 1 + rng.randrange(12)


@contextmanager
def nowhere(rng: Random) -> Iterator[None]:
    """A working directory that was removed."""
    os.rmdir(os.getcwd())
    yield


VARIABLES = (
    {"HOME": "/nonexistent"}, {"HOME": "/dev/null"}, {"TMPDIR": "/nonexistent"}, {"TMPDIR": "/dev/null"}, {"XDG_CACHE_HOME": "/dev/null"},
    {"MPLCONFIGDIR": "/dev/null"}, {"TZ": "Nowhere/Nothing"}, {"TZ": ":/dev/zero"}, {"COLUMNS": "-1", "LINES": "0"}, {"COLUMNS": "x"},
    {"COLUMNS": "1"}, {"TERM": "no-such-terminal"}, {"TERM": ""}, {"NO_COLOR": ""}, {"FORCE_COLOR": "1", "TERM": "dumb"}, {"LANG": "xx_YY.nothing"},
    {"LC_ALL": "tr_TR.UTF-8"}, {"OMP_NUM_THREADS": "-3"}, {"CUDA_VISIBLE_DEVICES": "nothing"}, {"http_proxy": "::::"}, {"PYTHONHASHSEED": "7"},
    {"PAGER": "/bin/false"}, {"EDITOR": ""}, {"USER": "\udcff"}, {"PATH": ""}, {"JUPYTER_PLATFORM_DIRS": "1"},
)  # fmt: skip
LAUNCHERS = (
    {"RANK": "x", "WORLD_SIZE": "2"}, {"WORLD_SIZE": "0"}, {"LOCAL_RANK": "-1", "RANK": "3", "WORLD_SIZE": "2"}, {"SLURM_NTASKS": "4"},
    {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "2", "SLURM_PROCID": "x"}, {"RANK": "1"}, {"MASTER_ADDR": "nowhere", "MASTER_PORT": "x"},
    {"GROUP_RANK": "1"}, {"TORCHELASTIC_RUN_ID": "x"}, {"PMI_RANK": "1"}, {"OMPI_COMM_WORLD_RANK": "1"},
)  # fmt: skip


def variables(given: tuple[dict[str, str], ...]) -> Environment:
    """Variables of the environment; `judge` restores them."""

    @contextmanager
    def around(rng: Random) -> Iterator[None]:
        os.environ.update(rng.choice(given))
        yield

    return around


@contextmanager
def masked(rng: Random) -> Iterator[None]:
    """A file mode of new files that nobody can read; root can."""
    before = os.umask(0o777)
    try:
        yield
    finally:
        os.umask(before)


MUTE = {"stderr closed", "stderr full", "stderr left"}
HARMLESS = {"stdin closed", "stdin of bytes", "variables", "umask", *MUTE}
AROUND: dict[str, Environment] = {
    "stdin closed": closed(0),
    "stdin of bytes": odd_bytes,
    "stdout closed": closed(1),
    "stdout full": sent_to(1, full),
    "stdout left": sent_to(1, left),
    "stderr closed": closed(2),
    "stderr full": sent_to(2, full),
    "stderr left": sent_to(2, left),
    "memory": limited(resource.RLIMIT_AS, memory),
    "size of files": limited(resource.RLIMIT_FSIZE, lambda rng: rng.choice((4096, 8192, 20_000, 70_000, 300_000))),
    "open files": limited(resource.RLIMIT_NOFILE, open_files),
    "nowhere": nowhere,
    "umask": masked,
    "variables": variables(VARIABLES),
    "launchers": variables(LAUNCHERS),
}  # fmt: skip
LOCALES: tuple[dict[str, str], ...] = (
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "ascii:strict"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONIOENCODING": "cp1252:strict"},
    {"PYTHONUTF8": "1"},
    {"PYTHONOPTIMIZE": "2"},
    {"PYTHONUNBUFFERED": "1"},
)


def anew(environment: dict[str, str]) -> Callable[[list[str]], int]:
    """A command in a new interpreter, with the streams and limits of this process."""

    def call(arguments: list[str]) -> int:
        command = [sys.executable, "-W", "ignore", "-m", "fashioniq.cli", *arguments]
        return subprocess.run(command, env={**os.environ, **environment}, timeout=LIMIT).returncode

    return call


def accepted(arguments: list[str]) -> int:
    """The exit code of a command that has no reason to fail."""
    code = main(arguments)
    assert code == 0, f"exit code {code} in an environment that is harmless"
    return code


@hostile("environments", 700, 10)
def environments(room: Room, rng: Random) -> Case:
    commands = [name for name in valid(room) if name not in SLOW or rng.random() < 0.2]
    served = rng.random() < 0.15
    command = rng.choice(("serve", "learn", "forget", "api-key", "compare-live") if served else commands)
    names = rng.sample(list(AROUND), rng.choice((1, 1, 1, 2)))
    if served:
        given = options(room, room.copy("log.db"))[command]
        case = Case(arguments_of(command, **given), command, [room.folder], during=not_serving())
    else:
        of_catalog = valid(room)[command][0].get("data") == room.world.catalog
        copied = of_catalog and (command == "download-images" or rng.random() < 0.5)
        data = room.catalog(pictures=command in PICTURED) if copied else None
        case = case_of(room, command, "", **({"data": _accented(rng, data)} if data else {}))
    case.whole, case.apart = False, True  # all may be written before an output is full
    case.ends, case.mute = (141,), bool(MUTE & set(names))
    chance = Random(rng.random())
    if set(names) <= HARMLESS and command not in ("download-images", "learn", "check-data"):
        case.call = accepted
    if new := rng.random() < 0.1 and command != "serve":
        locale = rng.choice(LOCALES)
        case.call, names = anew(locale), [name for name in names if name not in ("memory", "open files")]
        case.what += f" {locale}"
    case.out += [room.folder] if "nowhere" in names else [room.path("out.parts"), room.path("out.json.parts")]
    case.what += f"{'anew, ' if new else ''}{' and '.join(names)}"
    inner = case.during

    @contextmanager
    def around() -> Iterator[None]:
        with inner, ExitStack() as entered:
            for name in names:
                entered.enter_context(AROUND[name](chance))
            yield

    case.during = around() if names else nullcontext()
    return case


def _accented(rng: Random, data: Path) -> Path:
    """A catalog whose titles are not ASCII."""
    for path in (data / "titles").glob("*.json"):
        titles = {name: {"title": f"Kleid {name} größer 漢 😀"} for name in json.loads(path.read_text())}
        path.write_text(json.dumps(titles, ensure_ascii=rng.random() < 0.5), encoding="utf-8")
    return data
