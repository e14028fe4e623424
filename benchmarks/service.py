"""Load, faults and hostile requests on the live service, with one server process on 127.0.0.1.

    python benchmarks/service.py shoppers --shoppers 50 --seconds 600
    python benchmarks/service.py overload
    python benchmarks/service.py uploads swap start kills hostile --out service.json

The model has the paper's sizes and random weights, and the gallery random vectors: answers are as fast as those of a
trained model. Load is an open loop: requests are due at fixed times, and a late one counts from its due time. Every
result has the share of a core that the server and this client used, since both run on one machine.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import platform
import random
import resource
import secrets
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np

CATEGORY = "dresses"
WORDS = [f"word{number}" for number in range(2000)]
THINK = 5.0  # seconds between the turns of a shopper
SEED = 0


def serve(count: int, database: str, ready: Any, rate_limited: bool = False) -> None:
    """Serve random products on a free port; send the port when it answers."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import socket

    import torch
    import uvicorn

    from fashioniq.askers.best_item import BestItem
    from fashioniq.data.cards import ItemCards
    from fashioniq.data.items import Items
    from fashioniq.data.words import Vocabulary
    from fashioniq.loop.gallery import Gallery
    from fashioniq.loop.rollout import System
    from fashioniq.models.configs import RetrieverConfig
    from fashioniq.models.retriever import DialogRetriever
    from fashioniq.serving.access import Access
    from fashioniq.serving.api import create_app
    from fashioniq.serving.inference import Inference
    from fashioniq.serving.models import Models
    from fashioniq.serving.served import Served
    from fashioniq.serving.service import Service
    from fashioniq.store import Store

    torch.set_num_threads(1)

    def load(folder: Path) -> Served:
        torch.manual_seed(int(folder.name))
        vocabulary = Vocabulary(WORDS)
        retriever = DialogRetriever(
            RetrieverConfig(kind="transformer", attention="both-ways"),
            vocabulary=len(vocabulary),
            features=2560,
            attributes=200,
        )
        retriever.eval().requires_grad_(False)
        ids = [f"p{number}" for number in range(count)]
        items = Items(ids, torch.randn(count, 2560).half().float(), torch.randint(1, 201, (count, 8)))
        cards = ItemCards(titles={name: f"dress {name} {WORDS[hash(name) % 2000]}" for name in ids})
        gallery = Gallery(
            items, torch.cat([retriever.embed_images(x) for x in items.features_ND.split(4096)])
        )
        return Served(
            version=f"{CATEGORY}@{folder.name}",
            category=CATEGORY,
            folder=folder,
            sha256=folder.name,
            system=System(retriever, BestItem(), gallery, vocabulary, cards),
            asks=False,
            max_words=8,
            max_turns=5,
            requests=[],
            metrics={},
        )

    store, inference = Store.open(database), Inference()
    models = Models(store, inference, load, None)
    models.open([Path("/0")])
    if models.store.model(f"{CATEGORY}@1") is None:
        models.register(Path("/1"))
    app = create_app(Service(store, models, inference), Access(store, local=True))
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as in commands/serve.py
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    ready.send(listening.getsockname()[1])
    uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, limit_concurrency=5000, timeout_keep_alive=5)
    ).run(sockets=[listening])


class Server:
    """A process that serves, and what it uses of the machine."""

    def __init__(self, count: int, database: str) -> None:
        context = multiprocessing.get_context("forkserver")  # torch is loaded once
        context.set_forkserver_preload(["fashioniq.serving.api", "fashioniq.serving.served", "uvicorn"])
        mine, its = context.Pipe(False)
        began = time.perf_counter()
        self.process = context.Process(target=serve, args=(count, database, its), daemon=True)
        self.process.start()
        its.close()
        self.url = f"http://127.0.0.1:{mine.recv()}"
        self.client = httpx.AsyncClient(
            base_url=self.url,
            timeout=30,
            limits=httpx.Limits(max_connections=3000, max_keepalive_connections=100),
        )
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if httpx.get(self.url + "/readyz").status_code == 200:
                    break
        self.started = time.perf_counter() - began

    @property
    def seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def megabytes(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    @property
    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def stop(self) -> None:
        os.kill(self.process.pid or 0, signal.SIGKILL)
        self.process.join()


class Use:
    """Processor time of the server and of this process during a block, as shares of a core."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def __enter__(self) -> "Use":
        self.began, self.of_server, self.own = time.perf_counter(), self.server.seconds, time.process_time()
        self.megabytes = self.server.megabytes
        return self

    def __exit__(self, *_: Any) -> None:
        wall = time.perf_counter() - self.began
        self.facts = {
            "seconds": round(wall, 1),
            "server_core_percent": round(100 * (self.server.seconds - self.of_server) / wall),
            "client_core_percent": round(100 * (time.process_time() - self.own) / wall),
            "megabytes_before": round(self.megabytes),
            "megabytes_after": round(self.server.megabytes),
        }


def summary(milliseconds: list[float]) -> dict[str, float]:
    """Percentiles in milliseconds."""
    if not milliseconds:
        return {"requests": 0}
    p50, p95, p99 = np.percentile(milliseconds, [50, 95, 99])
    return {"requests": len(milliseconds), "p50": round(p50, 1), "p95": round(p95, 1), "p99": round(p99, 1)}


async def start(server: Server) -> tuple[str, dict[str, str]]:
    """A session and its header."""
    made = (await server.client.post("/v1/sessions", json={"category": CATEGORY, "origin": "test"})).json()
    return made["session_id"], {"Authorization": f"Bearer {made['session_token']}"}


def words(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(2, 8)))


async def shop(server: Server, shoppers: int, seconds: float) -> dict[str, Any]:
    """Shoppers who say something every THINK seconds and start again after five turns."""
    draw, times, codes = random.Random(SEED), [], Counter()
    begun = time.perf_counter() + 1

    async def shopper(number: int) -> None:
        due = begun + THINK * number / shoppers
        session, turn = None, 0
        while due < begun + seconds:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                if session is None or turn == 5:
                    session, turn = await start(server), 0
                    due = max(due, time.perf_counter())  # a session is not a turn
                answer = await server.client.post(
                    f"/v1/sessions/{session[0]}/turns",
                    json={"says": words(draw), "after_turn": turn},
                    headers=session[1] | {"Idempotency-Key": secrets.token_hex(8)},
                )
                codes[answer.status_code] += 1
                turn += answer.status_code == 201
                times.append(1000 * (time.perf_counter() - due))
            except httpx.HTTPError as error:
                codes[type(error).__name__] += 1
                session = None
            except KeyError:  # of an answer without a session
                codes["session refused"] += 1
                session = None
            due += THINK

    with Use(server) as use:
        await asyncio.gather(*map(shopper, range(shoppers)))
    return summary(times) | {"answers": dict(codes)} | use.facts


async def overload(server: Server, at_once: int) -> dict[str, Any]:
    """Many searches at the same moment, and the time until the service is normal again."""
    draw, accepted, refused, codes = random.Random(SEED), [], [], Counter()

    port = int(server.url.rpartition(":")[2])

    async def one() -> None:  # httpx would need seconds to open that many connections
        body = json.dumps({"turns": [{"says": words(draw)}]})
        head = (
            f"POST /v1/categories/{CATEGORY}/search HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        )
        began = time.perf_counter()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{head}Connection: close\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            code = int((await reader.read()).split(b" ", 2)[1])
            writer.close()
        except (OSError, IndexError) as error:
            codes[type(error).__name__] += 1
            return
        codes[code] += 1
        (accepted if code == 200 else refused).append(1000 * (time.perf_counter() - began))

    with Use(server) as use:
        await asyncio.gather(*(one() for _ in range(at_once)))
    began = time.perf_counter()
    while True:
        sent = time.perf_counter()
        with contextlib.suppress(httpx.HTTPError):
            answer = await server.client.post(f"/v1/categories/{CATEGORY}/search", json={})
            if answer.status_code == 200 and time.perf_counter() - sent < 0.1:
                break
    return {
        "accepted": summary(accepted),
        "refused": summary(refused),
        "answers": dict(codes),
        "normal_after_seconds": round(time.perf_counter() - began, 2),
        **use.facts,
    }


async def swap(server: Server, seconds: float) -> dict[str, Any]:
    """Activate two models in turn, 20 times, while shoppers talk."""
    failed, named = Counter(), Counter()
    stop = time.perf_counter() + seconds

    async def search() -> None:
        draw = random.Random(SEED)
        while time.perf_counter() < stop:
            body = {"turns": [{"says": words(draw), "about": "p1"}]}
            answer = await server.client.post(f"/v1/categories/{CATEGORY}/search", json=body)
            failed[answer.status_code] += 1
            if answer.status_code == 200:
                named[answer.json()["model"]] += 1

    async def activate() -> None:
        for number in range(20):
            answer = await server.client.post(f"/v1/models/{CATEGORY}@{number % 2}/activate")
            failed[f"activate {answer.status_code}"] += 1
            await asyncio.sleep(seconds / 25)

    with Use(server) as use:
        await asyncio.gather(search(), search(), activate())
    return {"answers": dict(failed), "models": dict(named)} | use.facts


async def kills(count: int, number: int) -> dict[str, Any]:
    """Kill the server at random moments under 20 writers; count acknowledged turns that were lost, and doubled ones."""
    draw, restarts = random.Random(SEED), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "service.db"
        acknowledged: dict[str, tuple[str, int]] = {}
        for kill in range(number):
            server = Server(count, f"sqlite:///{path}")
            restarts.append(server.started)

            async def writer(server: Server = server) -> None:
                with contextlib.suppress(httpx.HTTPError, KeyError, json.JSONDecodeError):
                    while True:
                        session, header = await start(server)
                        for turn in range(1, 6):
                            answer = await server.client.post(
                                f"/v1/sessions/{session}/turns",
                                json={"says": words(draw), "after_turn": turn - 1},
                                headers=header | {"Idempotency-Key": secrets.token_hex(8)},
                            )
                            if answer.status_code == 201:
                                acknowledged[answer.json()["query_id"]] = session, turn

            writers = [asyncio.create_task(writer()) for _ in range(20)]
            until = len(acknowledged) + draw.randint(5, 60)
            while len(acknowledged) < until:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.05 * draw.random())  # in the middle of the next ones
            server.stop()
            await asyncio.gather(*writers)
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
    return {
        "kills": number,
        "acknowledged": len(acknowledged),
        "lost": sum(rows.get(query) != turn for query, turn in acknowledged.items()),
        "doubled": doubled,
        "integrity_check": sound,
        "ready_seconds": {"median": round(float(np.median(restarts)), 1), "worst": round(max(restarts), 1)},
    }


async def soak(server: Server, seconds: float) -> dict[str, Any]:
    """Ten turns a second for a long time: memory, open files and the log of the database every minute."""
    samples: list[list[float]] = []

    async def watch() -> None:
        began = time.perf_counter()
        while time.perf_counter() - began < seconds:
            await asyncio.sleep(min(60.0, seconds / 10))
            samples.append([time.perf_counter() - began, server.megabytes, server.open_files])

    load, _ = await asyncio.gather(shop(server, 50, seconds), watch())
    after = [(at, size) for at, size, _ in samples if at >= min(600.0, seconds / 3)]
    slope = (
        np.polyfit([at / 3600 for at, _ in after], [size for _, size in after], 1)[0]
        if len(after) > 2
        else None
    )
    return load | {
        "megabytes_per_hour": None if slope is None else round(float(slope), 2),
        "open_files": [min(one[2] for one in samples), max(one[2] for one in samples)],
        "samples": [[round(value) for value in one] for one in samples],
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


STAGES = ("shoppers", "crowd", "overload", "swap", "start", "kills", "hostile", "soak")


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", nargs="+", choices=STAGES)
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="of shoppers, crowd and soak (default: 600)"
    )
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000, help="hostile requests")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("service.json"))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    results: list[dict[str, Any]] = []
    for stage in options.stage:
        for repeat in range(1 if stage in ("kills", "soak") else options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                if stage == "kills":
                    found = await kills(2000, options.kills)
                else:
                    server = Server(options.products, f"sqlite:///{folder}/service.db")
                    load = os.getloadavg()[0]
                    if stage in ("shoppers", "crowd"):
                        found = await shop(server, 50 if stage == "shoppers" else 200, options.seconds)
                    elif stage == "overload":
                        found = await overload(server, 2000)
                    elif stage == "swap":
                        found = await swap(server, 20.0)
                    elif stage == "hostile":
                        found = await hostile(server, options.requests)
                    elif stage == "soak":
                        found = await soak(server, options.seconds)
                    else:
                        found = {
                            "ready_seconds": round(server.started, 1),
                            "megabytes": round(server.megabytes),
                        }
                    found |= {
                        "load_before": round(load, 1),
                        "log_megabytes": _size(Path(folder) / "service.db-wal"),
                    }
                    server.stop()
            results.append({"stage": stage, "repeat": repeat, **found})
            print(json.dumps(results[-1]), flush=True)
            about = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
            facts = about | {"date": datetime.now(UTC).date().isoformat(), "python": sys.version.split()[0]}
            options.out.write_text(
                json.dumps({**facts, "products": options.products, "results": results}, indent=1) + "\n"
            )


def _size(path: Path) -> float:
    return round(path.stat().st_size / 2**20, 1) if path.exists() else 0.0


if __name__ == "__main__":
    asyncio.run(main())
