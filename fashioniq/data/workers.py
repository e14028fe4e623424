"""Processes that decode pictures: how they are started."""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

_STARTING = threading.Lock()


def kill_starter() -> None:
    """Kill the process that starts others and waits for their ends: while it is stopped, this one cannot end."""
    if sys.platform != "win32":
        from multiprocessing import forkserver

        if pid := forkserver._forkserver._forkserver_pid:  # type: ignore[attr-defined]
            os.kill(pid, signal.SIGKILL)


def worker_context(preload: str) -> Any:
    """Start method for worker processes, which share the imports of the module `preload`.

    Workers are not forked from a process with running threads, and ignore Ctrl-C, which the command handles. They do
    not run the script again that calls a command: it needs no `if __name__ == "__main__":`.
    """
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver  # not available on Windows

    context = _DecodingContext()
    context.set_forkserver_preload([preload])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


@contextmanager
def _without_script() -> Iterator[None]:
    """Show an empty module in place of the script, whose file a new process would be told to run first."""
    with _STARTING:
        script = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = script


if sys.platform != "win32":
    from multiprocessing.context import ForkServerContext, ForkServerProcess

    class _DecodingProcess(ForkServerProcess):
        @staticmethod
        def _Popen(process_obj: BaseProcess) -> Any:
            with _without_script():
                return ForkServerProcess._Popen(process_obj)  # type: ignore[attr-defined]

    class _DecodingContext(ForkServerContext):
        Process = _DecodingProcess  # type: ignore[assignment]
