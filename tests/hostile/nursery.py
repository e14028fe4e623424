"""Forks processes on request, each in a session of its own, and kills them all when it ends.

Requests and answers are lines of JSON. A process that is forked from a test has its threads' locks, and may wait for
them without end; this one has no threads. It ends with the process that started it, however that ends.
"""

import gc
import json
import os
import random
import select
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the folder of this file is there already

import pytest
from processes import session_of
from world import run

from fashioniq.service import (
    api as _api,  # noqa: F401
    server,
    uploads,
)
from fashioniq.service.learning import run as _learn  # noqa: F401 - what commands import later
from fashioniq.service.service import Service as _Service  # noqa: F401
from fashioniq.service.store import engine
from tests import forgetting

SOON = 0.5  # seconds of limits of the service that a case may reach


def serve(options: dict[str, Any]) -> int:
    """A service whose limits are short."""
    server.LAST, engine.WAIT, uploads.SECONDS, uploads.LONGEST = SOON, SOON, 4 * SOON, 40 * SOON
    return run("serve", **options)


def order(folder: str, seed: str) -> int:
    """A random order of steps that learn and forget; fails as an assertion does."""
    root = Path(folder)
    with pytest.MonkeyPatch.context() as patch:
        template = root / "template"
        template.mkdir()
        forgetting.make_database(template)
        forgetting.do_not_train(patch, template / "catalog")
        one = forgetting.Order(forgetting.ShopWorld(root / "shop", template), random.Random(seed))
        try:
            one.run()
        except AssertionError:
            print(*one.done, sep="\n", file=sys.stderr)
            raise
    return 0


FUNCTIONS = {"command": lambda name, options: run(name, **options), "serve": serve, "order": order}


def begin(asked: dict[str, Any]) -> None:
    """Call a function in this forked process, and end."""
    code = 70
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name in ((0, asked["read"]), (1, asked["out"]), (2, asked["err"])):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0), 0o644), number)
        code = FUNCTIONS[asked["start"]](**asked["given"]) or 0
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Answer requests until the input ends or the parent is gone."""
    gc.freeze()
    del sys.modules["__main__"].__file__  # processes that decode pictures would import all of this again
    parent, started, buffer = os.getppid(), dict[int, int | None](), b""
    while os.getppid() == parent:
        if not select.select([0], [], [], 1)[0]:
            continue
        if not (read := os.read(0, 1 << 16)):
            break
        *lines, buffer = (buffer + read).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "start" in asked:
                if not (answer := os.fork()):
                    begin(asked)
                started[answer] = None
            else:
                pid = asked["code"]
                if started[pid] is None:
                    ended, status = os.waitpid(pid, os.WNOHANG)
                    started[pid] = os.waitstatus_to_exitcode(status) if ended else None
                answer = started[pid]
            print(json.dumps(answer), flush=True)
    for pid, code in started.items():
        for one in (*session_of(pid), *([pid] if code is None else [])):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


if __name__ == "__main__":
    main()
