"""Waits of the tests, each with a limit and an error that names what did not happen."""

import subprocess
import time

LIMIT = 240  # seconds, for a busy machine; pytest ends a test after 300, without such an error


def ended(process):
    """Exit code of a process, of multiprocessing or subprocess; it is killed if it does not end."""
    if isinstance(process, subprocess.Popen):
        try:
            return process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            pass
    else:
        process.join(LIMIT)
        if process.exitcode is not None:
            return process.exitcode
    process.kill()
    raise AssertionError(f"{process} has not ended within {LIMIT} seconds")


def joined(*threads):
    """Wait until threads have ended."""
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive(), f"{thread} has not ended within {LIMIT} seconds"


def received(pipe):
    """What comes through a pipe of multiprocessing; EOFError if its other end is closed."""
    assert pipe.poll(LIMIT), f"nothing came through the pipe within {LIMIT} seconds"
    return pipe.recv()


def happened(event):
    """Wait until an event is set."""
    assert event.wait(LIMIT), f"{event} was not set within {LIMIT} seconds"


def attempts(what):
    """Yield until the loop is left, or fail after LIMIT seconds."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        yield
    raise AssertionError(f"expected that {what} within {LIMIT} seconds")
