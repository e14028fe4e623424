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
import os
import platform
import random
import resource
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import service_faults as faults
from PIL import Image
from service_million import million
from service_server import CATEGORY, LONGEST, SEED, Server, Setting, Use, start, summary, words

THINK = 5.0  # seconds between the turns of a shopper


async def shop(server: Server, shoppers: int, seconds: float, consent: str = "none") -> dict[str, Any]:
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
                    session, turn = await start(server, consent), 0
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


async def uploads(server: Server, seconds: float) -> dict[str, Any]:
    """50 shoppers, and a photo of 768 × 1024 pixels every second."""
    noise = np.random.default_rng(SEED).integers(0, 256, (32, 24, 3), np.uint8)
    written = BytesIO()
    Image.fromarray(noise).resize((768, 1024)).save(written, "JPEG")
    times, codes, ended = [], Counter(), asyncio.Event()

    async def upload(due: float) -> None:
        answer = await server.client.post(
            "/v1/pictures",
            params={"category": CATEGORY},
            content=written.getvalue(),
            headers={"Content-Type": "image/jpeg"},
        )
        codes[answer.status_code] += 1
        times.append(1000 * (time.perf_counter() - due))

    async def visitor() -> None:
        sent = []
        while not ended.is_set():
            sent.append(asyncio.create_task(upload(time.perf_counter())))
            await asyncio.sleep(1)
        await asyncio.gather(*sent)

    await upload(time.perf_counter())  # the first one starts the decoder
    times.clear()
    visiting = asyncio.create_task(visitor())
    turns = await shop(server, 50, seconds)
    ended.set()
    await visiting
    return {"turns": turns, "uploads": summary(times), "answers": dict(codes)}


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
            code = int((await asyncio.wait_for(reader.read(), LONGEST)).split(b" ", 2)[1])
            writer.close()
        except (OSError, IndexError) as error:
            codes[type(error).__name__] += 1
            return
        codes[code] += 1
        (accepted if code == 200 else refused).append(1000 * (time.perf_counter() - began))

    with Use(server) as use:
        await asyncio.gather(*(one() for _ in range(at_once)))
    began = time.perf_counter()
    while time.perf_counter() - began < LONGEST:
        sent = time.perf_counter()
        with contextlib.suppress(httpx.HTTPError):
            answer = await server.client.post(f"/v1/categories/{CATEGORY}/search", json={})
            if answer.status_code == 200 and time.perf_counter() - sent < 0.1:
                break
    else:
        raise TimeoutError(f"the service was not normal again within {LONGEST:g} seconds")
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


async def compared(server: Server, seconds: float) -> dict[str, Any]:
    """Shoppers who see one model and shoppers who see lists of both, in turn, six times each."""
    found: dict[str, list[dict[str, Any]]] = {"none": [], "service": []}
    for number in range(12):
        consent = ("none", "service")[number % 2]
        found[consent].append(await shop(server, 50, seconds / 12, consent))
    ratios = {
        name: sorted(
            round(both[name] / one[name], 2)
            for one, both in zip(found["none"], found["service"], strict=True)
        )
        for name in ("p50", "p95")
    }
    return {"one": found["none"], "both": found["service"], "ratios": ratios}


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


LOAD: dict[str, Callable[[Server, Any], Any]] = {
    "shoppers": lambda server, options: shop(server, 50, options.seconds),
    "crowd": lambda server, options: shop(server, 200, options.seconds),
    "overload": lambda server, options: overload(server, 2000),
    "swap": lambda server, options: swap(server, 20.0),
    "hostile": lambda server, options: faults.hostile(server, options.requests),
    "uploads": lambda server, options: uploads(server, options.seconds),
    "slow": lambda server, options: faults.slow(server, shop, options.seconds),
    "compared": lambda server, options: compared(server, options.seconds),
    "soak": lambda server, options: soak(server, options.seconds),
    "start": lambda server, options: started(server),
}
OWN_SERVERS: dict[str, Callable[[Any], Any]] = {
    "kills": lambda options: faults.kills(2000, options.kills),
    "kills-compared": lambda options: faults.kills(2000, options.kills, "split"),
    "events": lambda options: faults.events(options.events),
    "million": lambda options: million(
        options.folder, options.products, options.index, shop, options.seconds
    ),
    "outages": lambda options: faults.outages(),
    "outages-compared": lambda options: faults.outages(compared="split"),
    "swap-compared": lambda options: faults.swaps(2000, options.seconds),
}


async def started(server: Server) -> dict[str, Any]:
    return {"ready_seconds": round(server.started, 1), "megabytes": round(server.megabytes)}


async def measured(stage: str, options: argparse.Namespace) -> dict[str, Any]:
    """One run of a stage."""
    if stage in OWN_SERVERS:
        return dict(await OWN_SERVERS[stage](options))
    load = {"load_before": round(os.getloadavg()[0], 1)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "service.db"
        special = {
            "swap": {"models": 2},
            "uploads": {"pictures": True},
            "compared": {"compared": "team-draft"},
        }
        more: dict[str, Any] = special.get(stage, {})
        server = Server(Setting(f"sqlite:///{path}", options.products, **more))
        try:
            found = await LOAD[stage](server, options)
            return found | load | {"log_megabytes": _size(Path(f"{path}-wal"))}
        finally:
            server.stop()


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("stage", nargs="+", choices=[*LOAD, *OWN_SERVERS])
    parser.add_argument("--products", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=600.0, help="of a load of shoppers (default: 600)")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--requests", type=int, default=10_000, help="hostile requests")
    parser.add_argument(
        "--folder", type=Path, default=Path("million"), help="data of the stage million, 1.5 GB"
    )
    parser.add_argument("--index", default="IVF1024,Flat", help="of the stage million")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("service.json"))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    facts = {
        "machine": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "date": datetime.now(UTC).date().isoformat(),
        "python": sys.version.split()[0],
        "products": options.products,
    }
    results: list[dict[str, Any]] = []
    for stage in options.stage:
        for repeat in range(1 if stage in ("kills", "soak") else options.repeats):
            results.append({"stage": stage, "repeat": repeat, **await measured(stage, options)})
            print(json.dumps(results[-1]), flush=True)
            options.out.write_text(json.dumps({**facts, "results": results}, indent=1) + "\n")


def _size(path: Path) -> float:
    return round(path.stat().st_size / 2**20, 1) if path.exists() else 0.0


if __name__ == "__main__":
    asyncio.run(main())
