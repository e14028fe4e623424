"""Faults of the live service: kills, hostile requests, slow clients, two workers, and a database that fails."""

import asyncio
import contextlib
import json
import os
import random
import secrets
import sqlite3
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from service_server import CATEGORY, LONGEST, SEED, Server, Setting, Use, start, summary, until, words
from sqlalchemy import create_engine, text

BATCH = 1000  # events of a request
OUTAGES = ("full disk", "read-only", "locked", "restarted", "crashed")
SLOW, SLOW_BODIES = 1000, 500  # slow connections, and those among them that send a body


def assignments(url: str, answered: dict[str, set[str]]) -> dict[str, Any]:
    """What became of the conversations of a comparison: those that no arm was stored for, whose model changed, or whose
    stored model is not the one that answered; and the sizes of the arms. `answered` are the models by session.
    """
    engine = create_engine(url)
    with engine.connect() as connection:
        asked = text("SELECT id, model, arm, experiment FROM session WHERE consent = 'service'")
        rows = {
            id: (model, arm, experiment) for id, model, arm, experiment in connection.execute(asked).all()
        }
        fallen = connection.execute(
            text("SELECT count(*) FROM turn WHERE CAST(heard AS TEXT) LIKE '%\"failed\"%'")
        )
        failed = fallen.scalar()
    engine.dispose()
    right = {"running": f"{CATEGORY}@0", "challenger": f"{CATEGORY}@1"}
    return {
        "conversations": len(rows),
        "arms": dict(Counter(arm for _, arm, _ in rows.values())),
        "without_assignment": sum(experiment is None for _, _, experiment in rows.values()),
        "of_another_model": sum(right.get(arm or "") != model for model, arm, _ in rows.values()),
        "answered_by_another": sum(models != {rows[id][0]} for id, models in answered.items() if id in rows),
        "lost": len(answered.keys() - rows.keys()),
        "turns_of_failed_models": failed,
    }


async def kills(count: int, number: int, compared: str | None = None) -> dict[str, Any]:
    """Kill the server at random moments under 20 writers; count acknowledged turns that were lost, and doubled ones.

    With `compared`, the method of a comparison of two models, also what became of its conversations.
    """
    draw, restarts = random.Random(SEED), []
    answered: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "service.db"
        acknowledged: dict[str, tuple[str, int]] = {}
        for kill in range(number):
            server = Server(Setting(f"sqlite:///{path}", count, compared=compared))
            restarts.append(server.started)

            async def writer(server: Server = server) -> None:
                with contextlib.suppress(httpx.HTTPError, KeyError, json.JSONDecodeError):
                    while True:
                        session, header = await start(server, "service" if compared else "none")
                        for turn in range(1, 6):
                            answer = await server.client.post(
                                f"/v1/sessions/{session}/turns",
                                json={"says": words(draw), "after_turn": turn - 1},
                                headers=header | {"Idempotency-Key": secrets.token_hex(8)},
                            )
                            if answer.status_code == 201:
                                acknowledged[answer.json()["query_id"]] = session, turn
                                answered.setdefault(session, set()).add(answer.json()["model"])

            writers = [asyncio.create_task(writer()) for _ in range(20)]
            enough = len(acknowledged) + draw.randint(5, 60)
            await until(lambda: len(acknowledged) >= enough, f"{enough} turns")  # noqa: B023
            await asyncio.sleep(0.05 * draw.random())  # in the middle of the next ones
            server.stop()
            await asyncio.wait_for(asyncio.gather(*writers), LONGEST)
            if kill % 10 == 9:
                print(f"  {kill + 1} kills, {len(acknowledged)} turns", flush=True)
        with contextlib.closing(sqlite3.connect(path)) as database:
            sound = database.execute("PRAGMA integrity_check").fetchone()[0]
            rows = {
                query: (session, n)
                for query, session, n in database.execute("SELECT query_id, session_id, n FROM turn")
            }
            doubled = database.execute(
                "SELECT count(*) FROM (SELECT 1 FROM turn WHERE undone_at IS NULL GROUP BY session_id, n HAVING count(*) > 1)"
            ).fetchone()[0]
        kept = {"assignments": assignments(f"sqlite:///{path}", answered)} if compared else {}
    return kept | {
        "kills": number,
        "acknowledged": len(acknowledged),
        "lost": sum(rows.get(query) != turn for query, turn in acknowledged.items()),
        "doubled": doubled,
        "integrity_check": sound,
        "ready_seconds": {"median": round(float(np.median(restarts)), 1), "worst": round(max(restarts), 1)},
    }


HOSTILE = [
    b"", b"null", b"[]", b"{}", b"{", b'{"category": "\\ud800"}', b'{"\\ud800": 1}', b"\xff\xfe\x00", b"NaN",
    b'{"category": "dresses", "k": NaN}', b'{"category": "dresses", "k": 1e999}', b'{"k": ' + b"9" * 5000 + b"}",
    b"[" * 50_000, b'{"a":' * 10_000, b'{"category": "dresses", "start": {"text": "\\u0000"}}', b" " * 70_000,
    b'{"turns": [{"says": "' + b"A" * 300 + b'"}]}', b'{"turns": [{"says": "\\u202e<script>alert(1)</script>"}]}',
    b'{"turns": [{"says": "word1", "about": "../../etc/passwd"}]}', b'{"turns": ' + b"[{}," * 500 + b"{}]}",
    b'{"filters": {"price": {"lte": -1, "currency": "EUR"}}}', b'{"filters": {"sizes": {"any": []}}}',
    b'{"turns": [{"says": "word1 OR 1=1; DROP TABLE turn; --"}]}', b'{"says": "word1", "after_turn": 99999999999999999999}',
]  # fmt: skip
PATHS = [
    "/v1/sessions", "/v1/categories/dresses/search", "/v1/categories/..%2f..%2fetc/search", "/v1/events", "/v1/pictures",
    "/v1/categories/dresses/products", "/v1/sessions/ses_0/turns", "/v1/sessions/%00/turns", "/v1/models",
    "/v1/categories/dresses/products/..%2f..%2fetc%2fpasswd/image", "/v1/categories/dresses/products/%ff/similar?k=-1",
    "/v1/models/%2e%2e/activate", "/shop", "/shop/dresses", "/%2e%2e/%2e%2e/etc/passwd", "//", "/v1/clients/x",
]  # fmt: skip


async def hostile(server: Server, number: int) -> dict[str, Any]:
    """Damaged requests of many kinds; answers must be problems, and none a failure of the server."""
    draw, codes, bad, times = random.Random(SEED), Counter(), [], []
    token = await start(server)
    gate = asyncio.Semaphore(16)

    async def one() -> None:
        body = bytearray(draw.choice(HOSTILE))
        if draw.random() < 0.3 and body:
            for _ in range(draw.randint(1, 4)):
                body[draw.randrange(len(body))] = draw.randrange(256)
        kinds = [
            "application/json",
            "text/plain",
            "image/png",
            "multipart/form-data",
            "application/x-www-form-urlencoded",
            "",
        ]
        headers = {"Content-Type": draw.choice(kinds[:1] * 6 + kinds), "X-Canary": "canary"}
        if draw.random() < 0.3:
            headers |= token[1]
        if draw.random() < 0.2:
            headers["Idempotency-Key"] = draw.choice(["", "a" * 300, "a b", "k"])
        if draw.random() < 0.02:
            headers |= {f"X-{number}": "x" * 500 for number in range(40)}
        path = draw.choice(PATHS).replace("ses_0", token[0] if draw.random() < 0.5 else "ses_0")
        method = draw.choice(["POST"] * 6 + ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
        async with gate:
            began = time.perf_counter()
            try:
                answer = await server.client.request(method, path, content=bytes(body), headers=headers)
            except httpx.HTTPError as error:
                codes[type(error).__name__] += 1
                return
            times.append(1000 * (time.perf_counter() - began))
        codes[answer.status_code] += 1
        kind = answer.headers.get("content-type", "")
        if answer.status_code >= 500 and answer.status_code != 503:
            bad.append([method, path, answer.status_code, bytes(body[:60]).decode("latin-1")])
        elif answer.status_code >= 400 and path.startswith("/v1") and kind != "application/problem+json":
            bad.append([method, path, f"{answer.status_code} as {kind}", bytes(body[:60]).decode("latin-1")])
        elif any(word in answer.text for word in ("canary", "Traceback", "DROP TABLE", "etc/passwd")):
            bad.append([method, path, "repeats the input", bytes(body[:60]).decode("latin-1")])

    with Use(server) as use:
        await asyncio.gather(*(one() for _ in range(number)))
    codes_by_name = {str(code): count for code, count in sorted(codes.items(), key=str)}
    return summary(times) | {"answers": codes_by_name, "wrong": len(bad), "examples": bad[:10]} | use.facts


async def slow(server: Server, shop: Any, seconds: float) -> dict[str, Any]:
    """The same shoppers alone, and beside idle connections and bodies that come with one byte a second."""
    port, waiting, draw = int(server.url.rpartition(":")[2]), [], random.Random(SEED)
    alone = await shop(server, 50, seconds)

    async def connect(body: bool) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        waiting.append(writer)
        if not body:
            return
        head = (
            f"POST /v1/categories/{CATEGORY}/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        )
        writer.write(f"{head}Content-Length: 60000\r\n\r\n".encode())
        with contextlib.suppress(OSError):
            await asyncio.sleep(draw.random())  # not all in the same moment
            while not reader.at_eof():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(1)

    slow_ones = [asyncio.create_task(connect(number < SLOW_BODIES)) for number in range(SLOW)]
    await asyncio.sleep(2)
    beside = await shop(server, 50, seconds)
    for writer in waiting:
        writer.close()
    await asyncio.wait_for(asyncio.gather(*slow_ones), LONGEST)
    return {"alone": alone, "beside": beside, "p99_times": round(beside["p99"] / alone["p99"], 2)}


async def events(count: int) -> dict[str, Any]:
    """50 writers of events in batches of 1,000, through two servers on one SQLite database."""
    draw, codes, times = random.Random(SEED), Counter(), []
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/service.db"
        servers = [Server(Setting(url, 2000)) for _ in range(2)]

        async def prepare(number: int) -> list[bytes]:
            server = servers[number % 2]
            session, token = await start(server)
            said = await server.client.post(
                f"/v1/sessions/{session}/turns", json={"says": words(draw)}, headers=token
            )
            about = {"query_id": said.json()["query_id"], "session_id": session}
            shown = [one["product_id"] for one in said.json()["results"]]
            return [
                json.dumps({"events": [_event(about, draw.choice(shown)) for _ in range(BATCH)]}).encode()
                for _ in range(count // (50 * BATCH))
            ]

        async def write(number: int, bodies: list[bytes]) -> None:
            for body in bodies:
                began = time.perf_counter()
                answer = await servers[number % 2].client.post(
                    "/v1/events", content=body, headers={"Content-Type": "application/json"}
                )
                times.append(1000 * (time.perf_counter() - began))
                answered = Counter(one["status"] for one in answer.json().get("items", ()))
                codes.update({f"event {status}": number for status, number in answered.items()})
                codes[answer.status_code if answer.status_code == 202 else answer.json()["code"]] += 1

        bodies = [await prepare(number) for number in range(50)]
        with Use(servers[0]) as use:
            await asyncio.gather(*(write(number, own) for number, own in enumerate(bodies)))
        for server in servers:
            server.stop()
        with contextlib.closing(sqlite3.connect(f"{folder}/service.db")) as database:
            stored = database.execute("SELECT count(*) FROM event").fetchone()[0]
            sound = database.execute("PRAGMA integrity_check").fetchone()[0]
    return (
        summary(times)
        | {"answers": {str(code): number for code, number in codes.items()}, "stored": stored}
        | {"events_per_second": round(stored / use.facts["seconds"]), "integrity_check": sound}
        | use.facts
    )


def _event(about: dict[str, str], product: str) -> dict[str, Any]:
    return about | {
        "event_id": secrets.token_hex(8),
        "action_name": "view",
        "timestamp": datetime.now(UTC).isoformat(),
        "event_attributes": {"object": {"object_id": product}, "position": {"ordinal": 1}},
    }


class Disk:
    """A file system of its own in a file, which can be filled up and whose files can be made read-only; needs root."""

    def __init__(self, folder: str) -> None:
        self.root = Path(folder) / "disk"
        self.root.mkdir()
        image = Path(folder) / "image"
        with image.open("wb") as file:
            file.truncate(32 * 2**20)
        _run("mkfs.ext4", "-q", "-m", "0", image)
        _run("mount", "-o", "loop", image, self.root)
        self.url = f"sqlite:///{self.root}/service.db"

    def fill(self) -> None:
        with (self.root / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))

    def empty(self) -> None:
        (self.root / "filler").unlink()

    def protect(self, sign: str = "+") -> None:
        # service.db-shm is in memory: SQLite ends the process where it cannot be written
        for name in ("service.db", "service.db-wal"):
            _run("chattr", sign + "i", self.root / name)

    def close(self) -> None:
        _run("umount", self.root)


class PostgreSQL:
    """A server of its own; needs the programs of PostgreSQL, and another user if this one is root."""

    def __init__(self, folder: str) -> None:
        self.folder, self.programs = folder, Path(max(glob("/usr/lib/postgresql/*/bin")))
        os.chmod(folder, 0o777)
        initdb = ["-D", f"{folder}/data", "-A", "trust", "-U", "shop"]
        self._run("initdb", *initdb)
        self.start()
        self._run("createdb", "-h", folder, "-U", "shop", "shop")
        self.url = f"postgresql+psycopg://shop@/shop?host={folder}"

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses=''"
        self._run(
            "pg_ctl", "-D", f"{self.folder}/data", "-o", options, "-l", f"{self.folder}/log", "-w", "start"
        )

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", f"{self.folder}/data", "-m", mode, "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        user: dict[str, Any] = (
            {} if os.getuid() else {"user": "nobody", "group": "nogroup", "extra_groups": []}
        )
        _run(self.programs / program, *arguments, cwd=self.folder, **user)


def _run(*command: Any, **options: Any) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=LONGEST, **options)


async def outage(
    server: Server, fail: Callable[[], Any], mend: Callable[[], Any], seconds: float
) -> dict[str, Any]:
    """Ten shoppers who repeat a refused turn until it is stored, while the database fails for some time.

    Everything refused must be a problem with status 503, and in the end each turn is stored once, and the event of each.
    """
    draw, answers, wrong, acknowledged, accepted = random.Random(SEED), [], Counter(), {}, list[str]()
    ended, answered = False, dict[str, set[str]]()
    taking_part = server.setting.compared is not None
    body = {"category": CATEGORY} | ({"consent": "service"} if taking_part else {"origin": "test"})

    async def send(method: str, path: str, **given: Any) -> httpx.Response:
        """Repeat a request until it is answered with something else than 503."""
        while True:
            began = time.perf_counter()
            try:
                answer = await server.client.request(method, path, **given)
            except httpx.HTTPError as error:
                wrong[type(error).__name__] += 1
                await asyncio.sleep(1)
                continue
            now = time.perf_counter()
            answers.append((now, answer.status_code, now - began))
            if answer.status_code != 503:
                return answer
            if (
                answer.headers["content-type"] != "application/problem+json"
                or "retry-after" not in answer.headers
            ):
                wrong["503 without a problem"] += 1
            await asyncio.sleep(0.1)

    async def shopper() -> None:
        while not ended:
            made = await send("POST", "/v1/sessions", json=body)
            for turn in range(1, 11):
                if made.status_code != 201 or ended:
                    break
                session, token = made.json()["session_id"], made.json()["session_token"]
                answer = await send(
                    "POST",
                    f"/v1/sessions/{session}/turns",
                    json={"says": words(draw), "after_turn": turn - 1},
                    headers={"Authorization": f"Bearer {token}", "Idempotency-Key": secrets.token_hex(8)},
                )
                if answer.status_code != 201:
                    wrong[f"{answer.status_code} {answer.json()['code']}"] += 1
                    break
                acknowledged[answer.json()["query_id"]] = session, turn
                answered.setdefault(session, set()).add(answer.json()["model"])
                about = {"query_id": answer.json()["query_id"], "session_id": session}
                event = _event(about, answer.json()["results"][0]["product_id"])
                if (await send("POST", "/v1/events", json={"events": [event]})).status_code == 202:
                    accepted.append(event["event_id"])
                await asyncio.sleep(0.2)

    async def search() -> None:
        while not ended:
            with contextlib.suppress(httpx.HTTPError):
                answer = await server.client.post(f"/v1/categories/{CATEGORY}/search", json={})
                searched[answer.status_code] += 1
            await asyncio.sleep(0.5)

    async def at_work() -> float:
        """Wait for ten more turns; return when the last refusal was."""
        enough = len(acknowledged) + 20
        await until(lambda: len(acknowledged) >= enough, f"{enough} turns")
        return max((when for when, code, _ in answers if code == 503), default=0.0)

    searched: Counter[int] = Counter()
    tasks = [asyncio.create_task(shopper()) for _ in range(10)] + [asyncio.create_task(search())]
    await at_work()
    before = len(answers)
    await asyncio.to_thread(fail)
    await asyncio.sleep(seconds)
    await asyncio.to_thread(mend)
    mended = time.perf_counter()
    last_refused = await at_work()
    await asyncio.sleep(5)
    last_refused = max(last_refused, max(when for when, code, _ in answers if code == 503))
    ended = True
    await asyncio.wait_for(asyncio.gather(*tasks), LONGEST)
    during = [answer for answer in answers[before:]]
    stored, events = _stored(server.setting.database)
    kept = {"assignments": assignments(server.setting.database, answered)} if taking_part else {}
    return kept | {
        "answers": dict(Counter(code for _, code, _ in during)),
        "wrong": dict(wrong),
        "searches": dict(searched),
        "slowest_refusal_seconds": round(
            max((took for _, code, took in during if code == 503), default=0.0), 1
        ),
        "recovered_after_seconds": round(max(0.0, last_refused - mended), 1),
        "turns": len(acknowledged),
        "lost": sum(stored.get(query) != turn for query, turn in acknowledged.items()),
        "not_acknowledged": len(stored.keys() - acknowledged.keys()),
        "doubled": len(stored) - len(set(stored.values())),
        "events": len(accepted),
        "events_lost": len(set(accepted) - events),
    }


def _stored(url: str) -> tuple[dict[str, tuple[str, int]], set[str]]:
    """Turns by their query, and the ids of events."""
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT query_id, session_id, n FROM turn WHERE n > 0")).all()
        events = connection.scalars(text("SELECT event_id FROM event")).all()
    engine.dispose()
    return {query: (session, n) for query, session, n in rows}, set(events)


async def swaps(count: int, seconds: float) -> dict[str, Any]:
    """Activate two models in turn, 20 times, while shoppers of a comparison talk. While another model than the running
    one of the comparison is active, new conversations take no part; those that do keep their model.
    """
    draw, codes = random.Random(SEED), Counter[int]()
    answered: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/service.db"
        server = Server(Setting(url, count, compared="split"))
        stop = time.perf_counter() + seconds

        async def shopper() -> None:
            while time.perf_counter() < stop:
                session, header = await start(server, "service")
                for _ in range(5):
                    path = f"/v1/sessions/{session}/turns"
                    answer = await server.client.post(path, json={"says": words(draw)}, headers=header)
                    codes[answer.status_code] += 1
                    answered.setdefault(session, set()).add(answer.json()["model"])

        async def activate() -> None:
            for number in range(20):
                await server.client.post(f"/v1/models/{CATEGORY}@{(number + 1) % 2}/activate")
                await asyncio.sleep(seconds / 25)

        await asyncio.gather(activate(), *(shopper() for _ in range(5)))
        server.stop()
        found = assignments(url, answered)
    left_out = found.pop("without_assignment")
    found["of_another_model"] -= left_out  # they have no arm
    return {"answers": dict(codes), "assignments": found, "without_part": left_out}


async def outages(names: Iterable[str] = OUTAGES, compared: str | None = None) -> dict[str, Any]:
    """Failures of a database, one after the other. Those of disks need root."""
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            if name in ("restarted", "crashed"):
                engine = PostgreSQL(folder)
                stack.callback(engine.stop)
                mode = "fast" if name == "restarted" else "immediate"
                fail, mend = partial(engine.stop, mode), engine.start
            else:
                engine = Disk(folder)
                stack.callback(engine.close)
            server = Server(Setting(engine.url, 2000, spool=Path(folder), compared=compared))
            stack.callback(server.stop)
            if name == "locked":
                other = sqlite3.connect(
                    engine.root / "service.db", isolation_level=None, check_same_thread=False
                )
                stack.callback(other.close)
                fail, mend = partial(other.execute, "BEGIN IMMEDIATE"), other.rollback
            elif name == "full disk":
                fail, mend = engine.fill, engine.empty
            elif name == "read-only":
                fail, mend = engine.protect, partial(engine.protect, "-")
            found[name] = await outage(server, fail, mend, 30.0 if name == "locked" else 10.0)
            print(f"  {name}: {json.dumps(found[name])}", flush=True)
    return found
