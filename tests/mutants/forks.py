"""Test runs in processes forked from one that has imported torch and all other libraries, but not the package."""

import importlib
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from types import ModuleType
from typing import Any

import coverage
import pytest

SETUP = "setup"  # context of lines that fixtures reach, whose results later tests of the file may share
_OWN = ("fashioniq", "tests", "conftest")  # not to be inherited: these are the modules under test


class Chosen:
    """Plugin that runs the tests given by their ids, the fastest file first, and reports the first that fails."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds = seconds
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [item for item in items if item.nodeid in self.seconds]
        of_file: dict[Path, float] = {}
        for item in kept:
            of_file[item.path] = of_file.get(item.path, 0) + self.seconds[item.nodeid]
        # tests of a file stay together, as they share fixtures
        items[:] = sorted(kept, key=lambda item: (of_file[item.path], item.path, self.seconds[item.nodeid]))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_sessionstart(self) -> None:
        from tests import leftovers  # those of the copy

        leftovers.PATIENCE = 0


class Measured:
    """Plugin that records the lines of `sources` which each test reaches, and its seconds of processor time.

    Processes that a test forks by multiprocessing count, too, if they end by themselves; what they reach is written to
    `folder`.
    """

    def __init__(self, sources: Sequence[str], folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        register_after_fork(self, Measured._save_at_end)
        self.coverage = coverage.Coverage(data_file=None, include=sources, config_file=False, messages=False)
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []
        self._began = 0.0

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._began = _spent()

    def pytest_runtest_setup(self) -> None:
        self.coverage.switch_context(SETUP)

    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self.coverage.switch_context(item.nodeid)

    def pytest_runtest_teardown(self) -> None:
        self.coverage.switch_context(SETUP)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = _spent() - self._began

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def _save_at_end(self) -> None:
        def save() -> None:
            self.coverage.stop()
            (self.folder / f"{os.getpid()}.json").write_text(json.dumps(self._contexts()))

        Finalize(None, save, exitpriority=0)

    def _contexts(self) -> dict[str, dict[int, list[str]]]:
        """Tests that reach each line, by file and line."""
        data = self.coverage.get_data()
        return {path: data.contexts_by_lineno(path) for path in data.measured_files()}

    def result(self, root: Path) -> dict[str, Any]:
        """Seconds of the tests that pass, and the numbers of those that reach each line; none for SETUP."""
        self.coverage.stop()
        found = [self._contexts(), *(json.loads(path.read_text()) for path in self.folder.iterdir())]
        tests = [name for name in self.seconds if name not in self.failed]
        number_of = {name: number for number, name in enumerate(tests)} | {SETUP: -1}
        reached: dict[str, dict[int, set[int]]] = {}
        for path, contexts_of in ((path, lines) for one in found for path, lines in one.items()):
            for line, contexts in contexts_of.items():
                if numbers := {number_of[name] for name in contexts if name in number_of}:
                    own = reached.setdefault(Path(path).relative_to(root).as_posix(), {})
                    own.setdefault(int(line), set()).update(numbers)
        lines = {
            path: {line: sorted(numbers) for line, numbers in own.items()} for path, own in reached.items()
        }
        seconds = {name: self.seconds[name] for name in tests}
        return {"seconds": seconds, "failed": self.failed, "lines": lines}


def _spent() -> float:
    """Seconds of processor time of this process, and of those that it started and that have ended."""
    return sum(os.times()[:4])


def import_libraries(root: Path, files: Sequence[str]) -> None:
    """Import what the tests in `files` import, apart from the package and the tests."""
    sys.path.insert(0, str(root))
    from fashioniq import compat

    compat.keep_caches_together()
    compat.prepare_torchvision()
    names, _ = forked(lambda: _imported(root, files), root / "imports", 600)
    for name in names or []:
        try:
            importlib.import_module(name)
        except Exception:  # a few can only be imported in another order
            continue
    for name in [name for name in sys.modules if name.startswith(_OWN) and name != compat.__name__]:
        del sys.modules[name]


def _imported(root: Path, files: Sequence[str]) -> list[str]:
    pytest.main([*files, "--collect-only", "-qq", "-p", "no:cacheprovider"])
    libraries = [
        name
        for name, module in sys.modules.items()
        if (file := getattr(module, "__file__", None)) and not Path(file).is_relative_to(root)
    ]
    return [name for name in libraries if not name.startswith((*_OWN, "_pytest", "__main__"))]


def forked(work: Callable[[], Any], place: Path, limit: float) -> tuple[Any, str]:
    """The result of a function in a forked process, which may take `limit` seconds of processor time.

    Returns None and "limit" where it takes longer, or ten times as long by the clock; None and "died" where the
    process dies. Its output is in `place`.log.
    """
    result = place.with_suffix(".json")
    result.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            sys.modules["__main__"] = ModuleType(
                "__main__"
            )  # not to be imported by processes that the tests start
            output = os.open(place.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
            result.write_text(json.dumps(work()))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    end, status = time.monotonic() + 10 * limit, 0
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended or time.monotonic() > end:
            break
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # the processes that it started
    if not ended:
        os.waitpid(child, 0)
    if result.exists():
        try:
            return json.loads(result.read_text()), ""
        except ValueError:
            pass
    over = not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL))
    return None, "limit" if over else "died"
