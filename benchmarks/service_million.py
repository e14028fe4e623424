"""The live service with a million products: a folder of vectors, features and prices, and its load.

The vectors are of 2,000 clusters of 32 dimensions, projected to 256 with a little noise, since a trained model does
not use all of its dimensions either: independent directions would be the worst case for an index. A query is the
vector of a product plus a random vector of half its length. The features, of which a turn reads one row, are zeros.
"""

import asyncio
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from service_server import CATEGORY, SEED, WORDS, Server, Setting, Use, summary, words

WIDTH, FEATURES, ATTRIBUTES = 256, 2560, 8
CLUSTERS, INNER = 2000, 32  # of the vectors
BLOCK = 50_000  # rows that are written at a time
SHARES = (1.0, 0.5, 0.1, 0.01, 0.001)  # of products that a filter leaves
COMPARED = 50  # answers of each share that are compared with exact ones


def prepare(folder: Path, count: int) -> None:
    """Write vectors, features and a database with a price for each product, if they are missing."""
    if (folder / "ready").exists():
        return
    from fashioniq.service.store import ProductRow, Store

    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.default_rng(SEED)
    vectors = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float16, (count, WIDTH))
    np.lib.format.open_memmap(folder / "features.npy", "w+", np.float16, (count, FEATURES))
    centers, to_width = draw.normal(size=(CLUSTERS, INNER)), draw.normal(size=(INNER, WIDTH))
    store = Store.open(f"sqlite:///{folder}/service.db")
    prices = draw.permutation(count)
    for start in range(0, count, BLOCK):
        place = np.arange(start, min(count, start + BLOCK))
        inner = centers[draw.integers(CLUSTERS, size=len(place))] + 0.5 * draw.normal(
            size=(len(place), INNER)
        )
        rows = inner @ to_width + 0.3 * draw.normal(size=(len(place), WIDTH))
        vectors[place] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        sizes = [["S", "M"], ["M", "L"]]
        facts = {"currency": "EUR", "in_stock": True, "updated_at": store.now(), "category": CATEGORY}
        products = [
            ProductRow(id=f"p{number}", price_minor=int(prices[number]), sizes=sizes[number % 2], **facts)
            for number in place
        ]
        for first in range(0, len(products), 5000):
            store.add_products(CATEGORY, products[first : first + 5000])
    store.close()
    (folder / "ready").touch()


def system_of(folder: Path, index: str | None) -> Any:
    """The paper's retriever with random weights, whose queries are near products of the folder."""
    import torch
    import torch.nn.functional as F

    from fashioniq.askers.best_item import BestItem
    from fashioniq.data.arrays import open_array
    from fashioniq.data.cards import ItemCards
    from fashioniq.data.items import Items, Rows
    from fashioniq.data.words import Vocabulary
    from fashioniq.loop.gallery import Gallery
    from fashioniq.loop.rollout import System
    from fashioniq.models.configs import RetrieverConfig
    from fashioniq.models.retriever import DialogRetriever
    from fashioniq.runs.galleries import with_search

    vectors_ND = open_array(folder / "vectors.npy", mode="c")

    class NearProducts(DialogRetriever):
        def step(self, state: Any, turn: Any) -> Any:
            query_BD, state = super().step(state, turn)
            seeds = [round(1e4 * value) for value in query_BD.sum(1).tolist()]  # equal for equal dialogs
            return torch.cat([self._near(seed) for seed in seeds]), state

        def _near(self, seed: int) -> torch.Tensor:
            generator = torch.Generator().manual_seed(seed % 2**32)
            item = int(torch.randint(len(vectors_ND), (1,), generator=generator))
            away_1D = F.normalize(torch.randn(1, WIDTH, generator=generator))
            return F.normalize(torch.from_numpy(vectors_ND[item : item + 1]).float() + away_1D / 2)

    torch.manual_seed(SEED)
    vocabulary, count = Vocabulary(WORDS), len(vectors_ND)
    config = RetrieverConfig(kind="transformer", attention="both-ways", width=WIDTH)
    retriever = NearProducts(config, vocabulary=len(vocabulary), features=FEATURES, attributes=200)
    retriever.eval().requires_grad_(False)
    ids = [f"p{number}" for number in range(count)]
    features = Rows(open_array(folder / "features.npy"), np.arange(count), ValueError("damaged"))
    items = Items(ids, features, torch.randint(1, 201, (count, ATTRIBUTES)))
    cards = ItemCards(titles={name: f"dress {name} {WORDS[place % 2000]}" for place, name in enumerate(ids)})
    system = System(retriever, BestItem(), Gallery(items, vectors_ND), vocabulary, cards)
    return with_search(system, folder, "", index, None) if index else system


async def million(folder: Path, count: int, index: str, shop: Any, seconds: float) -> dict[str, Any]:
    """Start, turns, filters and their recall, beside an exact server."""
    prepare(folder, count)
    setting = Setting(f"sqlite:///{folder}/service.db", folder=str(folder), index=index)
    stored = any(folder.glob("*.faiss"))
    server = Server(setting)
    found: dict[str, Any] = {} if stored else {"first_start_seconds": round(server.started, 1)}
    if not stored:
        server.stop()
        server = Server(setting)
    try:
        found |= {"ready_seconds": round(server.started, 1), "megabytes_at_start": round(server.megabytes)}
        found["turns"] = await shop(server, 50, seconds)
        for share in SHARES[1:]:
            found[f"filter_{share:g}"] = await _searches(server, int(count * share), seconds)
        answers = await _answers(server, count)
        found |= {"megabytes": round(server.megabytes), "peak_megabytes": round(server.peak_megabytes)}
    finally:
        server.stop()
    exact = Server(Setting(setting.database, folder=str(folder)))
    try:
        with Use(exact) as use:
            expected = await _answers(exact, count)
        found["exact"] = expected.pop("times") | {"ready_seconds": round(exact.started, 1)} | use.facts
    finally:
        exact.stop()
    answers.pop("times")
    found["recall"] = {
        share: round(
            float(
                np.mean([len(a & e) / len(e) for a, e in zip(answers[share], expected[share], strict=True)])
            ),
            4,
        )
        for share in answers
    }
    return found


def _body(draw: random.Random, most: int | None) -> dict[str, Any]:
    filters = {"price": {"lte": most - 1, "currency": "EUR"}} if most else None
    about = f"p{draw.randrange(10_000)}"
    return {"turns": [{"says": words(draw), "about": about}], "k": 10} | (
        {"filters": filters} if filters else {}
    )


async def _searches(server: Server, most: int, seconds: float) -> dict[str, Any]:
    """Ten searches a second with a filter that leaves some products."""
    draw, times, codes = random.Random(SEED), [], Counter()

    async def search(due: float) -> None:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        answer = await server.client.post(f"/v1/categories/{CATEGORY}/search", json=_body(draw, most))
        codes[answer.status_code] += 1
        times.append(1000 * (time.perf_counter() - due))

    begun = time.perf_counter()
    await asyncio.gather(*(search(begun + number / 10) for number in range(int(10 * seconds))))
    return summary(times) | {"answers": dict(codes)}


async def _answers(server: Server, count: int) -> dict[str, Any]:
    """Products found one after the other, for each share, and the times of searches without a filter."""
    draw, found, times = random.Random(SEED), {}, []
    for share in SHARES:
        found[f"{share:g}"] = []
        for _ in range(COMPARED):
            began = time.perf_counter()
            body = _body(draw, int(count * share) if share < 1 else None)
            answer = await server.client.post(f"/v1/categories/{CATEGORY}/search", json=body)
            if share == 1:
                times.append(1000 * (time.perf_counter() - began))
            found[f"{share:g}"].append({one["product_id"] for one in answer.json()["results"]})
    return found | {"times": summary(times)}
