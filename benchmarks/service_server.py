"""Server processes of the benchmarks of the live service, and the requests of a shopper."""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import random
import socket
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

CATEGORY = "dresses"
WORDS = [f"word{number}" for number in range(2000)]
SEED = 0
LONGEST = 300.0  # seconds until a server is at work again, and for the last requests
READY = 3600  # seconds for the start of a server, with a million products


@dataclass(frozen=True)
class Setting:
    """What a server serves. With `pictures`, shoppers can upload them. `folder` is one of service_million.py, `spool`
    one for events that wait for the database. With `compared`, the method of an experiment, conversations with consent
    take part in a comparison of two models.
    """

    database: str
    products: int = 20_000
    models: int = 1
    pictures: bool = False
    folder: str = ""
    index: str | None = None
    spool: Path | None = None
    compared: str | None = None


def random_system(setting: Setting, seed: int) -> Any:
    """Random products, and the paper's retriever with random weights."""
    if setting.folder:
        from service_million import system_of

        return system_of(Path(setting.folder), setting.index)
    import torch

    from fashioniq.askers.best_item import BestItem
    from fashioniq.data.cards import ItemCards
    from fashioniq.data.items import Items
    from fashioniq.data.words import Vocabulary
    from fashioniq.loop.gallery import Gallery
    from fashioniq.loop.rollout import System
    from fashioniq.models.configs import RetrieverConfig
    from fashioniq.models.retriever import DialogRetriever

    torch.manual_seed(seed)
    vocabulary, count = Vocabulary(WORDS), setting.products
    config = RetrieverConfig(kind="transformer", attention="both-ways")
    retriever = DialogRetriever(config, vocabulary=len(vocabulary), features=2560, attributes=200)
    retriever.eval().requires_grad_(False)
    ids = [f"p{number}" for number in range(count)]
    items = Items(ids, torch.randn(count, 2560).half().float(), torch.randint(1, 201, (count, 8)))
    cards = ItemCards(titles={name: f"dress {name} {WORDS[hash(name) % 2000]}" for name in ids})
    vectors_ND = torch.cat([retriever.embed_images(x) for x in items.features_ND.split(4096)])
    return System(retriever, BestItem(), Gallery(items, vectors_ND), vocabulary, cards)


def random_uploads() -> Any:
    """The paper's encoder of pictures with random weights."""
    from fashioniq.models.attributes import AttributePredictor
    from fashioniq.models.encoder import create_encoder
    from fashioniq.runs import PredictorRun
    from fashioniq.runs.weights import save_model
    from fashioniq.service.uploads import Uploads

    facts = {"encoder": "efficientnet-b7", "image_size": 224, "attribute_words": WORDS[:200]}
    model = AttributePredictor(create_encoder(facts["encoder"]), 2560, 200)
    with tempfile.TemporaryDirectory() as run:
        save_model(Path(run), model, PredictorRun(kind="attribute predictor", category="all", **facts))
        return Uploads(Path(run), "cpu")


def serve(setting: Setting, ready: Any) -> None:
    """Serve on a free port; send the port when it answers."""
    os.environ["OMP_NUM_THREADS"] = "1"
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # it starts decoders
    import torch
    import uvicorn

    from fashioniq.service.access import Access
    from fashioniq.service.api import create_app
    from fashioniq.service.inference import Inference
    from fashioniq.service.models import Models
    from fashioniq.service.served_model import Served
    from fashioniq.service.service import Service
    from fashioniq.service.store import ExperimentRow, Store

    torch.set_num_threads(1)
    uploads = random_uploads() if setting.pictures else None

    def load(folder: Path) -> Served:
        return Served(
            version=f"{CATEGORY}@{folder.name}",
            category=CATEGORY,
            folder=folder,
            sha256=folder.name,
            system=random_system(setting, int(folder.name)),
            asks=False,
            max_words=8,
            max_turns=5,
            requests=[],
            metrics={},
            uploads=uploads,
        )

    store, inference = Store.open(setting.database), Inference()
    models = Models(store, inference, load, None)
    models.open([Path("/0")])
    for number in range(1, 2 if setting.compared else setting.models):
        models.register(Path(f"/{number}"))
    service = Service(store, models, inference, spool=setting.spool)
    if setting.compared and not store.running_experiments():
        store.begin_experiment(
            ExperimentRow(
                id="cmp_0",
                category=CATEGORY,
                running=f"{CATEGORY}@0",
                challenger=f"{CATEGORY}@1",
                method=setting.compared,  # type: ignore[arg-type]
                error=0.05,
                most=10**6,
                started_at=store.now(),
            )
        )
    service.experiments.refresh()
    models.settle()
    app = create_app(service, Access(store, local=True))
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as in cli/commands/serve.py
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    ready.send(listening.getsockname()[1])
    uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, limit_concurrency=5000, timeout_keep_alive=5)
    ).run(sockets=[listening])


class Server:
    """A process that serves, and what it uses of the machine."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        context = multiprocessing.get_context("forkserver")  # torch is loaded once
        context.set_forkserver_preload(["fashioniq.service.api", "fashioniq.service.served_model", "uvicorn"])
        mine, its = context.Pipe(False)
        began = time.perf_counter()
        self.process = context.Process(target=serve, args=(setting, its), daemon=True)
        self.process.start()
        its.close()
        if not mine.poll(READY):
            self.process.kill()
            raise TimeoutError(f"the server has not started within {READY} seconds")
        self.url = f"http://127.0.0.1:{mine.recv()}"
        self.client = httpx.AsyncClient(
            base_url=self.url,
            timeout=120,
            limits=httpx.Limits(max_connections=3000, max_keepalive_connections=100),
        )
        while not self._is_ready():
            if time.perf_counter() - began > READY or not self.process.is_alive():
                self.process.kill()
                raise TimeoutError(f"the server was not ready within {READY} seconds, or has ended")
        self.started = time.perf_counter() - began

    def _is_ready(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(self.url + "/readyz").status_code == 200
        return False

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
    def peak_megabytes(self) -> float:
        """Largest resident memory so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 2**10

    @property
    def open_files(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def stop(self) -> None:
        self.process.kill()
        self.process.join(READY)


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


async def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition. Raises TimeoutError with what was expected after LONGEST seconds."""
    end = time.perf_counter() + LONGEST
    while not condition():
        if time.perf_counter() > end:
            raise TimeoutError(f"expected {what} within {LONGEST:g} seconds")
        await asyncio.sleep(0.005)


async def start(server: Server, consent: str = "none") -> tuple[str, dict[str, str]]:
    """A session and its header; without consent, it takes no part in a comparison."""
    body = {"category": CATEGORY, "consent": consent, "origin": "test" if consent == "none" else "api"}
    made = (await server.client.post("/v1/sessions", json=body)).json()
    return made["session_id"], {"Authorization": f"Bearer {made['session_token']}"}


def words(draw: random.Random) -> str:
    return " ".join(draw.choices(WORDS, k=draw.randint(2, 8)))
