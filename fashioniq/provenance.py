"""Provenance of a result: command, code, data, machine, time and memory."""

import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from fashioniq import __version__

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

ROOT = Path(__file__).resolve().parent.parent
GIGA = 1e9
GIT_SECONDS = 10  # time limit of a call of git


class Machine(msgspec.Struct, kw_only=True):
    """CPU, cores available to this process, threads of torch, GPU in use, platform and versions."""

    cpu: str
    cores: int | None
    threads: int
    gpu: str | None
    platform: str
    python: str
    torch: str


class Provenance(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`provenance` in metrics.json and model.json. Memory is in GB of 10⁹ bytes.

    `data` maps the name of a category or file to its fingerprint; `retriever` is the provenance of the
    evaluated model. A key may be absent in files of earlier versions.
    """

    command: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    commit: str | UnsetType | None = UNSET
    data: dict[str, str] | UnsetType = UNSET
    machine: Machine | UnsetType = UNSET
    seconds: dict[str, float] = {}
    peak_gb: dict[str, float | None] = {}
    date: str | UnsetType = UNSET
    retriever: "Provenance | UnsetType" = UNSET


def _cpu_seconds() -> float:
    """CPU seconds of this process and its finished children, over all cores."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@dataclass
class Running:
    """A running command: the words of its command line, and a clock that starts with it."""

    words: Sequence[str]
    wall: float = field(default_factory=lambda: time.monotonic())
    cpu: float = field(default_factory=_cpu_seconds)


_RUNNING: ContextVar[Running] = ContextVar("running command")


@contextmanager
def running(words: Sequence[str]) -> Iterator[None]:
    """Start the clock of a command, given as the words of its command line."""
    token = _RUNNING.set(Running(words))
    git_commit()  # cached now: the checkout may change while the command runs
    try:
        yield
    finally:
        _RUNNING.reset(token)


def restart_clock() -> None:
    """Restart the clock, for commands that compute several results."""
    _RUNNING.set(Running(_now().words))


def command_line() -> str:
    """The running command as it is typed, without passwords in addresses, such as that of a database."""
    return re.sub(r"(?<=://)[^@/\s]*@", "", shlex.join(_now().words))


def seconds() -> dict[str, float]:
    """Wall-clock and CPU seconds since the clock started."""
    began = _now()
    return {"wall": round(time.monotonic() - began.wall, 1), "cpu": round(_cpu_seconds() - began.cpu, 1)}


def provenance(
    data: Mapping[str, str],
    retriever: Provenance | None = None,
    earlier: Mapping[str, float] | None = None,
) -> Provenance:
    """Provenance of a result of the running command.

    `earlier` are the seconds of interrupted runs that this one continued.
    """
    spent = seconds()
    return Provenance(
        command=command_line(),
        version=__version__,
        commit=git_commit(),
        data=dict(data),
        machine=machine(),
        seconds={name: round(value + (earlier or {}).get(name, 0.0), 1) for name, value in spent.items()},
        peak_gb=peak_memory(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        retriever=retriever or UNSET,
    )


def machine() -> Machine:
    """Machine that this process runs on; no host name."""
    import torch  # here, so that --help does not import it

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Machine(
        cpu=_cpu_model(),
        cores=cores,
        threads=torch.get_num_threads(),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_initialized() else None,
        platform=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        torch=str(torch.__version__),
    )


def peak_memory() -> dict[str, float | None]:
    """Peak memory of this process and its GPU in GB; None if it is not reported or no GPU is in use."""
    import torch

    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit if resource else None
    gpu = torch.cuda.max_memory_allocated() if torch.cuda.is_initialized() else None
    return {
        name: None if size is None else round(size / GIGA, 2)
        for name, size in (("process", own), ("gpu", gpu))
    }


@lru_cache(maxsize=1)
def git_commit() -> str | None:
    """Commit of this checkout, with "-dirty" after edits of tracked files; None without a checkout or git."""
    if not (ROOT / ".git").exists():  # an installed package; a checkout around it belongs to another project
        return None
    own = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_")
    }  # git hooks set these to another repository
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40"]
    try:
        described = subprocess.run(
            command,
            env={**own, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            encoding="utf-8",
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip() or None if described.returncode == 0 else None


@lru_cache(maxsize=1)
def _cpu_model() -> str:
    try:
        found = re.search(
            r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
        )
    except OSError:  # not Linux
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _now() -> Running:
    """The running command, or this process since its start if there is none, such as in a spawned process."""
    return _RUNNING.get(None) or _of_process()


@lru_cache(maxsize=1)
def _of_process() -> Running:
    return Running(sys.argv, cpu=0.0)
