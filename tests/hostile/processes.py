"""Processes of hostile cases: commands beside each other, and a service with its clients."""

import atexit
import http.client
import json
import os
import re
import select
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from judge import Verdict, unclear

LIMIT = 240  # seconds of a command or an answer, on a busy machine


class Wrong(Exception):
    """What is wrong with a case of several processes, as a verdict."""

    def __init__(self, outcome: str, problem: str) -> None:
        super().__init__(outcome, problem)
        self.verdict = Verdict(outcome, problem)


def verdict(play: Callable[[], str]) -> Callable[[], Verdict]:
    """Function that plays a case, which returns "accepted" or "refused", or raises Wrong."""

    def played() -> Verdict:
        try:
            return Verdict(play())
        except Wrong as wrong:
            return wrong.verdict

    return played


class Nursery:
    """A process that forks all others of this one: it has imported everything, and no threads (`nursery.py`)."""

    _of: ClassVar[dict[int, "Nursery"]] = {}  # by process

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("nursery.py"))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = subprocess.Popen(command, start_new_session=True, text=True, **pipes)  # type: ignore[call-overload]
        self._lock = threading.Lock()
        atexit.register(self.end_here)

    @classmethod
    def here(cls) -> "Nursery":
        """The nursery of this process."""
        if os.getpid() not in cls._of:
            cls._of[os.getpid()] = cls()
        return cls._of[os.getpid()]

    @classmethod
    def end_here(cls) -> None:
        """End the nursery of this process, if it has one."""
        if nursery := cls._of.pop(os.getpid(), None):
            nursery.end()

    def ask(self, **request: Any) -> Any:
        """Answer to a request, which comes at once but for the first, which waits for the imports."""
        with self._lock:
            self._process.stdin.write(json.dumps(request, default=str) + "\n")
            self._process.stdin.flush()
            if not select.select([self._process.stdout], [], [], 2 * LIMIT)[0]:
                raise Wrong("hang", f"the process that starts others has not answered within {2 * LIMIT} s")
            return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End the nursery, which kills all that it started."""
        self._process.stdin.close()
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()


class Process:
    """A function of the nursery in a forked process of its own session, which prints to two files."""

    def __init__(self, function: str, printed: Path, said: str = "", **given: Any) -> None:
        self.out, self.err, read = (printed.with_suffix(f".{one}") for one in ("out", "err", "in"))
        read.write_text(said)
        self._nursery, self._code = Nursery.here(), None
        self.pid: int = self._nursery.ask(start=function, given=given, read=read, out=self.out, err=self.err)

    @property
    def runs(self) -> bool:
        """Whether the process has not ended."""
        if self._code is None:
            self._code = self._nursery.ask(code=self.pid)
        return self._code is None

    def wait(self, seconds: float = LIMIT) -> int:
        """Exit code, negative for a signal. Raises Wrong if the process does not end."""
        for _ in until(seconds, lambda: f"the process ends: {self.said()[-500:]}"):
            if not self.runs:
                break
        return int(self._code)

    def kill(self) -> None:
        """End the process and all of its session."""
        for pid in (self.pid, *session_of(self.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL) if pid != self.pid or self.runs else None
        self.wait()

    def said(self) -> str:
        """What it printed to standard error."""
        return self.err.read_text(errors="replace")

    def ended(self, right: tuple[int, ...] = (0, 2)) -> int:
        """Exit code, which must be a right one; with 2, there is one line on standard error."""
        code = self.wait(LIMIT)
        text = self.said()
        if "Traceback" in text or code not in right:
            raise Wrong("traceback", f"exit code {code}: {text[-1500:]}")
        if code == 2 and (problem := unclear(text)):
            raise Wrong("traceback", problem)
        return code


def command(name: str, options: dict[str, Any], printed: Path, said: str = "") -> Process:
    """Start a command with a text as its standard input."""
    return Process("command", printed, said, name=name, options=options)


def session_of(pid: int) -> dict[int, str]:
    """Other living processes of a session, with their commands."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(session) == pid and int(path.name) != pid and state != "Z":
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    return found


class Service:
    """A service in a process of its own, on a database in `folder`. What it acknowledges is remembered."""

    def __init__(self, folder: Path, options: dict[str, Any], name: str = "service") -> None:
        self.database, printed = folder / "log" / "service.db", folder / name
        url = f"sqlite:///{self.database}"
        self.process = Process("serve", printed, options={"database": url, "port": 0, **options})
        self.turns: dict[str, str] = {}  # sessions of acknowledged turns, by query
        self.events: dict[str, str] = {}  # sessions of accepted events
        self.erased: set[str] = set()  # words and ids of erased sessions
        self.sessions: dict[str, tuple[str, str, dict[str, Any]]] = {}  # token, word and last answer
        self.statuses: list[int] = []
        self._lock = threading.Lock()
        for _ in until(LIMIT, "the service has started"):
            if found := re.search(
                r"http://[^:]+:(\d+)", self.process.out.read_text() if self.process.out.exists() else ""
            ):
                break
            if not self.process.runs:
                self.process.ended((2,))  # raises Wrong for anything else
                raise Refused
        self.port = int(found[1])

    def ask(
        self, method: str, path: str, body: Any = None, token: str = "", **headers: str
    ) -> tuple[int, Any]:
        """Status and content of an answer; status 0 if there is none, as the service ends. Raises Wrong for 5xx."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        kinds = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        try:
            connection.request(method, path, content, kinds | headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        except TimeoutError as error:
            raise Wrong("hang", f"no answer to {method} {path} within {LIMIT} s") from error
        except (OSError, http.client.HTTPException):
            return 0, None
        finally:
            connection.close()
        self.statuses.append(status)
        if status >= 500 and status != 503:
            raise Wrong(
                "traceback", f"{method} {path}: {status} {text[:200]!r}; {self.process.said()[-1500:]}"
            )
        is_json = answer.headers.get_content_type().endswith("json")
        return status, json.loads(text) if text and is_json else text

    def begin(self, rng: Random, consent: str = "training") -> str | None:
        """Begin a session and return its id; None if that was refused."""
        status, made = self.ask("POST", "/v1/sessions", {"category": "dresses", "consent": consent})
        if status != 201:
            return None
        word = "zq" + "".join(rng.choices("bcdfghjklmnpqrstvwx", k=12))
        with self._lock:
            self.sessions[made["session_id"]] = made["session_token"], word, made["last"]
            self.turns[made["last"]["query_id"]] = made["session_id"]
        return str(made["session_id"])

    def shop(self, rng: Random, session: str) -> int:
        """Do one thing in a session and return the status of the answer."""
        if not (known := self.sessions.get(session)):
            return 404  # erased meanwhile
        token, word, last = known
        path, draw = f"/v1/sessions/{session}", rng.random()
        if draw < 0.6:
            status, said = self.ask("POST", f"{path}/turns", {"says": f"is red and {word}"}, token)
            if status == 201:
                with self._lock:
                    if session in self.sessions:  # not erased meanwhile by another shopper of the trial
                        self.turns[said["query_id"]] = session
                        self.sessions[session] = token, word, said
            return status
        if draw < 0.8:
            id = f"e{rng.randrange(10**12)}"
            event = {
                "event_id": id,
                "action_name": "click",
                "query_id": last["query_id"],
                "session_id": session,
            }
            event |= {"timestamp": "2026-11-22T10:00:00Z"}
            event |= {"event_attributes": {"object": {"object_id": last["results"][0]["product_id"]}}}
            status, told = self.ask("POST", "/v1/events", {"events": [event]})
            if status == 202 and not told["errors"]:
                with self._lock:
                    if session in self.sessions:
                        self.events[id] = session
            return status
        if draw < 0.9:
            return self.ask("GET", path, None, token)[0]
        if draw < 0.95:
            return self.ask("GET", "/readyz")[0]
        status, _ = self.ask("DELETE", path, None, token)
        if status in (0, 204) or status >= 500:  # 0: the service ended before it could answer
            self.forgotten(session, told=status == 204)
        return status

    def forgotten(self, session: str, told: bool = True) -> None:
        """Remember that a session was erased; unless the client was `told`, it may have been, before the failure."""
        with self._lock:
            if session in self.sessions:  # of two shoppers who erase it, both may be told that it is
                _, word, _ = self.sessions.pop(session)
                self.erased |= {session, word} if told else set()
            for kept in (self.turns, self.events):
                for name in [name for name, owner in kept.items() if owner == session]:
                    del kept[name]

    def shopping(self, rng: Random, steps: int) -> None:
        """Do some things in new and old sessions."""
        for _ in range(steps):
            session = (
                rng.choice([*self.sessions]) if self.sessions and rng.random() < 0.7 else self.begin(rng)
            )
            if session is not None:
                self.shop(rng, session)

    def end(self, right: tuple[int, ...] = (-signal.SIGTERM, 0)) -> None:
        """End the service as a system does, and check how it ends."""
        if self.process.runs:
            os.kill(self.process.pid, signal.SIGTERM)
        self.process.ended(right)
        for _ in until(LIMIT, "the processes of the service have ended"):
            if not session_of(self.process.pid):
                break
        if "failed: " in (text := self.process.said()) and "Error in" in text:
            raise Wrong("traceback", text[-1500:])

    def check(self) -> None:
        """Check that the database has all that was acknowledged, and nothing of what was erased. After `end`."""
        files = sorted(self.database.parent.iterdir())
        for path in files:
            content = path.read_bytes() if path.is_file() else b""
            if found := [one for one in self.erased if one.encode() in content]:
                raise Wrong("silent wrong", f"{path.name} has {found} of erased sessions")
        with closing(sqlite3.connect(self.database)) as database:
            if (found := database.execute("PRAGMA integrity_check").fetchone()) != ("ok",):
                raise Wrong("half-written", f"integrity_check: {found}")
            turns = {query for (query,) in database.execute("SELECT query_id FROM turn")}
            events = {event for (event,) in database.execute("SELECT event_id FROM event")}
        if lost := self.turns.keys() - turns:
            raise Wrong("silent wrong", f"{len(lost)} of {len(self.turns)} acknowledged turns are lost")
        waiting = "".join(
            path.read_text() for path in files if "-events-" in path.name and path.suffix == ".jsonl"
        )
        if lost := {one for one in self.events.keys() - events if f'"{one}"' not in waiting}:
            raise Wrong("silent wrong", f"{len(lost)} of {len(self.events)} accepted events are lost")

    def close(self) -> None:
        """Kill what is left."""
        self.process.kill()
        for pid in session_of(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Refused(Exception):
    """The service did not start, and said why in one line."""


def until(seconds: float, what: str | Callable[[], str]) -> Iterator[None]:
    """Yield until the loop is left. Raises Wrong after some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.01)
    raise Wrong("hang", f"expected that {what if isinstance(what, str) else what()} within {seconds} s")
