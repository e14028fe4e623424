"""What a run of the tests must not leave behind: processes, shared memory, and files outside pytest's own folder.

The processes of a run are found by a variable in their environment, which their children inherit.
"""

import os
import tempfile
import time
from pathlib import Path

MARK = "FASHIONIQ_TESTS"
PATIENCE = 30.0  # seconds for processes that are already ending
MEMORY = Path("/dev/shm")


def begin(folder):
    """Mark the processes of this run, and let them make their temporary files and caches in pytest's folder."""
    if MARK not in os.environ:
        os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"
    folder.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    for variable in (
        "TORCHINDUCTOR_CACHE_DIR",
        "MPLCONFIGDIR",
        "XDG_CONFIG_HOME",
    ):  # the last one for browsers
        os.environ[variable] = str(folder / variable.lower())


def places():
    """What is in the folders that programs like to write to; caches do not count."""
    home = Path.home()
    watched = [Path("/tmp"), Path("/var/tmp"), MEMORY, home, home / ".config"]
    return {
        path for folder in watched if folder.is_dir() for path in folder.iterdir() if path.name != ".cache"
    }


def processes():
    """Command of each process of this run by its id, without this one."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
            marked = f"{MARK}={os.environ[MARK]}".encode() in (path / "environ").read_bytes().split(b"\0")
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
        except OSError:  # it has ended, or belongs to somebody else
            continue
        child = int(parent) == os.getpid()  # a forked process has the environment that its parent began with
        helper = child and "from multiprocessing." in command  # it ends with this process
        if (marked or child) and command and not helper and int(path.name) != os.getpid():
            found[int(path.name)] = command
    return found


def left(before):
    """A line for each process, shared memory and file that this run has left; `before` was there at its start."""
    end = time.monotonic() + PATIENCE
    while (running := processes()) and time.monotonic() < end:
        time.sleep(0.1)
    found = [f"process {number}: {command}" for number, command in sorted(running.items())]
    for path in sorted(places() - before):
        # other programs of this machine write to these folders, too; where there are none, everything counts
        if (path.parent == MEMORY and not _is_used(path)) or os.environ.get("CI"):
            found.append(f"file {path}")
    return found


def _is_used(path):
    """Whether a process has mapped this shared memory: then it belongs to another program that still runs."""
    try:
        inode = str(path.stat().st_ino)
    except OSError:  # gone
        return True
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:  # a semaphore is mapped before it has its name, so that the names differ
            if any(
                line.split()[4] == inode and str(MEMORY) in line for line in maps.read_text().splitlines()
            ):
                return True
        except OSError:
            continue
    return False
