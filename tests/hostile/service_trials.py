"""Cases of a running service: its processes are killed, its database is exchanged, and it is ended under its clients."""

import os
import shutil
import signal
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

from cases import hostile
from damage import damage_bytes
from damage_places import spoil_place
from judge import Trial
from processes import LIMIT, Refused, Service, Wrong, session_of, until, verdict
from world import Options, Room

AT_ONCE = 3  # clients


def serving(
    room: Room, rng: Random, what: str, play: Callable[[Service, Random], str], **options: Any
) -> Trial:
    """Case of a service with the default retriever."""
    given: Options = {"run": room.world.runs["retriever"], **options}

    def played() -> str:
        service = Service(room.folder, given)
        try:
            return play(service, rng)
        finally:
            service.close()

    return Trial(["serve"], what, verdict(played))


def together(service: Service, rng: Random, steps: int, disturb: Callable[[], None]) -> None:
    """Let clients do some things while `disturb` is called. Raises Wrong for what one of them finds."""
    found: list[BaseException] = []

    def shop(chance: Random) -> None:
        try:
            service.shopping(chance, steps)
        except BaseException as error:
            found.append(error)

    clients = [
        threading.Thread(target=shop, args=(Random(rng.random()),), daemon=True) for _ in range(AT_ONCE)
    ]
    for client in clients:
        client.start()
    disturb()
    for client in clients:
        client.join(2 * LIMIT)
    if found:
        raise found[0]


# Killed processes


@hostile("killed decoders", 60, 1)
def killed_decoders(room: Room, rng: Random) -> Trial:
    """Processes that decode uploaded pictures, and those that start them, are killed or stopped."""
    pictures = sorted((room.world.root / "photos").iterdir())
    kills = [
        rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGSTOP))
        for _ in range(rng.randrange(1, 5))
    ]

    def play(service: Service, rng: Random) -> str:
        def upload(content: bytes) -> int:
            headers = {"Content-Type": "image/jpeg"}
            return service.ask("POST", "/v1/pictures?category=dresses", content, **headers)[0]

        def disturb() -> None:
            for kill in kills:
                threading.Event().wait(rng.random() * 0.2)
                content = rng.choice(pictures).read_bytes()
                uploads = [
                    threading.Thread(target=upload, args=(content,), daemon=True)
                    for _ in range(rng.randrange(3))
                ]
                for one in uploads:
                    one.start()
                threading.Event().wait(rng.random() * 0.1)
                others = {
                    pid
                    for pid, command in session_of(service.process.pid).items()
                    if "resource_tracker" not in command
                }
                if others:
                    with suppress(ProcessLookupError):
                        os.kill(rng.choice(sorted(others)), kill)
                for one in uploads:
                    one.join(LIMIT)

        for _ in until(LIMIT, "the processes that read pictures have started"):
            if (status := upload(pictures[0].read_bytes())) == 201:
                break
            if status != 503:
                raise Wrong("silent wrong", f"a picture was refused before anything happened: {status}")
        together(service, rng, 3, disturb)
        for pid in session_of(service.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        for _ in until(LIMIT, f"pictures are read again after {kills}"):
            if upload(pictures[0].read_bytes()) == 201:
                break
        service.end()
        service.check()
        return "accepted"

    options = {"run": room.world.runs["seer"], "predictor": room.world.runs["dresses"]}
    return serving(room, rng, f"{[kill.name for kill in kills]}", play, **options)


# Exchanged files

WAYS = ("deleted", "moved", "copied", "folder moved", "log deleted", "log emptied", "memory deleted", "backup moved over", "backup copied over",
        "emptied", "damaged", "spoilt place", "other tables", "no tables", "events file")  # fmt: skip
BACK = {"deleted", "moved", "copied", "folder moved"}  # what can be taken back
KEPT = {"memory deleted", "events file"}  # nothing is lost


def exchange(rng: Random, path: Path, backup: Path, way: str) -> Callable[[], None]:
    """Do something to the file of a database, and return how it is taken back."""
    away, log = path.with_name("away"), path.with_name(f"{path.name}-wal")
    if way in ("deleted", "moved", "copied"):
        path.rename(away)
        if way == "copied":
            shutil.copy(away, path)
    elif way == "folder moved":
        path, away = path.parent, path.parent.with_name("away")
        path.rename(away)
    elif way == "log deleted":
        log.unlink(missing_ok=True)
    elif way == "log emptied":
        log.write_bytes(b"")
    elif way == "memory deleted":
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
    elif way == "backup moved over":
        shutil.copy(backup, away)
        away.replace(path)
    elif way == "backup copied over":
        shutil.copy(backup, path)
    elif way == "emptied":
        path.write_bytes(b"")
    elif way == "damaged":
        damage_bytes(rng, path)
    elif way == "spoilt place":
        spoil_place(rng, path, path.parent)
    elif way in ("other tables", "no tables"):
        path.unlink()
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE turn (x)") if way == "other tables" else database.execute("VACUUM")
            database.commit()
    else:
        path.with_name(f"{path.name}-events-0123456789abcdef.jsonl").write_bytes(rng.randbytes(300))
    return (lambda: None) if way not in BACK else lambda: away.replace(path) and None


@hostile("exchanged files", 150, 1)
def exchanged_files(room: Room, rng: Random) -> Trial:
    """The file of SQLite is deleted, moved, damaged or replaced while the service runs."""
    way, again = rng.choice(WAYS), rng.random() < 0.5

    def play(service: Service, rng: Random) -> str:
        service.shopping(rng, 4)
        backup = room.path("backup.db")
        shutil.copy(service.database, backup)
        if rng.random() < 0.5:
            service.shopping(rng, 3)
        take_back: Callable[[], None] = lambda: None  # noqa: E731

        def disturb() -> None:
            nonlocal take_back
            threading.Event().wait(rng.random() * 0.1)
            take_back = exchange(rng, service.database, backup, way)

        together(service, rng, 2, disturb)
        service.shopping(rng, 3)
        if again:
            take_back()
            service.shopping(rng, 3)
        service.end()
        if not again:
            take_back()
        if way in BACK | KEPT:
            return _restarted(room, rng, service)
        return _started_or_refused(room, rng)

    return serving(room, rng, f"{way}{', taken back' if again else ''}", play)


def _restarted(room: Room, rng: Random, before: Service) -> str:
    """A new service has all that the earlier one acknowledged."""
    service = Service(room.folder, {"run": room.world.runs["retriever"]}, "again")
    try:
        service.sessions, service.turns, service.events, service.erased = (
            before.sessions,
            before.turns,
            before.events,
            before.erased,
        )
        for _ in until(LIMIT, "waiting events are stored"):
            if not list(service.database.parent.glob("*-events-*.jsonl")):
                break
        service.shopping(rng, 2)
        service.end()
        service.check()
    finally:
        service.close()
    return "accepted"


def _started_or_refused(room: Room, rng: Random) -> str:
    """A new service starts, or is refused in a line."""
    try:
        service = Service(room.folder, {"run": room.world.runs["retriever"]}, "again")
    except Refused:
        return "refused"
    try:
        service.shopping(rng, 2)
        service.end()
    finally:
        service.close()
    return "accepted"


# Signals

REQUEST = b"POST /v1/categories/dresses/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 29\r\n\r\n"
BODY = b'{"turns": [{"says": "red"}]} '
STATES = (b"", b"G", b"GET /livez HTTP/1.1\r\nHost:", REQUEST, REQUEST + BODY[:9], REQUEST + BODY, (REQUEST + BODY) * 20,
          b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /shop/dresses HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n", b"\0" * 99,
          b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", b"POST /v1/pictures HTTP/1.1\r\nHost: x\r\n"
          b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", b"POST /v1/sessions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")  # fmt: skip
ENDING = (signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGINT)
OTHERS = (
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGQUIT,
    signal.SIGPIPE,
    signal.SIGCHLD,
    signal.SIGWINCH,
    signal.SIGCONT,
    signal.SIGURG,
)
ENDS_AT_ONCE = {signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT}  # as in any process


@hostile("signals", 150, 1)
def signals(room: Room, rng: Random) -> Trial:
    """Signals while connections are open in any state, some of them read slowly or reset."""
    given = [rng.choice(ENDING if rng.random() < 0.7 else OTHERS) for _ in range(rng.choice((1, 1, 2, 3)))]
    stopped = rng.random() < 0.2

    def play(service: Service, rng: Random) -> str:
        service.shopping(rng, 2)
        opened = []
        for _ in range(rng.randrange(12)):
            one = socket.create_connection(("127.0.0.1", service.port), LIMIT)
            with suppress(OSError):
                one.sendall(rng.choice(STATES))
            if rng.random() < 0.3:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
                one.close()
            else:
                opened.append(one)
        send = lambda number: os.kill(service.process.pid, number)  # noqa: E731

        def disturb() -> None:
            threading.Event().wait(rng.random() * 0.3)
            with suppress(ProcessLookupError):
                if stopped:
                    send(signal.SIGSTOP)
                    threading.Event().wait(0.1)
                    send(signal.SIGCONT)
                for number in given:
                    send(number)
                    threading.Event().wait(rng.choice((0, 0, 0.05, 0.7)))

        together(service, rng, 2, disturb)
        ends = [-number for number in (*given, signal.SIGTERM)]
        if set(ENDING) & set(given):
            service.process.wait(LIMIT)
        service.end((0, 130, *ends))
        for one in opened:
            _check_answer(one)
        if ENDS_AT_ONCE & set(given) or given.count(signal.SIGINT) + given.count(signal.SIGTERM) > 1:
            return _restarted(room, rng, service)  # it may have been cut short
        service.check()
        return "accepted"

    return serving(
        room, rng, f"{[number.name for number in given]}{' after a stop' if stopped else ''}", play
    )


def _check_answer(connection: socket.socket) -> None:
    """What a client got: whole answers, or nothing."""
    received = b""
    with closing(connection), suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            received += part
    while received:
        head, found, rest = received.partition(b"\r\n\r\n")
        if not found or not head.startswith(b"HTTP/1.1 "):
            raise Wrong("half-written", f"answer without an end of its headers: {received[:200]!r}")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        length = int(fields.get(b"content-length", 0))
        if head[9:10] == b"5" and head[9:12] != b"503":
            raise Wrong("traceback", f"{head[:60]!r}")
        received = rest[length:]
