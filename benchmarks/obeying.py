"""Benchmark of a search that obeys: turns with words, filters and facets among 10^3 to 10^6 products.

    python benchmarks/obeying.py --count 1000000 --index IVF1024,Flat

Runs in one process on one thread. A turn is a call of the service as REST makes it, without HTTP and database: it
reads the request, searches with vectors, words and wishes, and counts facets. Products are random: vectors of 64
dimensions around 1,000 centers, six labels of the English language file each, titles, prices, sizes and stock; the
retriever has random weights, and its queries are near random products. Times are
seconds of the processor, not of the clock, so that they can be measured on a busy machine.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F

from fashioniq.askers.best_item import BestItem
from fashioniq.data.cards import ItemCards
from fashioniq.data.items import Items
from fashioniq.data.languages import ENGLISH
from fashioniq.data.offers import Offer
from fashioniq.data.wording import Weights
from fashioniq.data.words import Vocabulary, tokenize
from fashioniq.files import write_json
from fashioniq.language.lexicon import Lexicon
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.index import approximate
from fashioniq.loop.rollout import System
from fashioniq.loop.wording import Wording
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.retriever import DialogRetriever
from fashioniq.service.inference import Inference
from fashioniq.service.schemas import SearchBody
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import Store

LATEST = Path(__file__).parent / "obeying.json"
WIDTH, INNER, CENTERS, FEATURES = 64, 16, 1000, 8
FAMILIES = ["colour", "pattern", "sleeves", "length", "neck", "detail"]
NOUNS = 3000  # other words of titles
WEIGHTS = Weights(0.04, 1.0, 1.0)
SEED = 0
KINDS = {  # texts of the turns of a dialog, and further fields of the request
    "one wish": ([["a {colour} dress"]], {}),
    "two wishes and a denial": ([["a {colour} dress with {sleeves}, not {pattern}"]], {}),
    "three turns about products": ([["{colour}"], ["with {sleeves}"], ["not {pattern} and longer"]], {}),
    "a wish and words of titles": ([["{colour} {noun} {noun}"]], {}),
    "misspelled": ([["{misspelled} dress"]], {}),
    "under 100 euros, in M, in stock": ([["{colour}, under 100 euros, in size M, in stock"]], {}),
    "an explicit filter": (
        [["a {colour} dress"]],
        {"filters": {"in_stock": True, "sizes": {"any": ["M", "L"]}}},
    ),
    "nothing said": ([], {}),
}


class NearProducts(DialogRetriever):
    """A retriever with random weights whose queries are near products of the gallery."""

    vectors_ND: torch.Tensor

    def step(self, state: Any, turn: Any) -> Any:
        query_BD, state = super().step(state, turn)
        item_B = (1e4 * query_BD.sum(1)).long().abs() % len(self.vectors_ND)  # equal for equal dialogs
        noise_BD = torch.randn(len(item_B), WIDTH, generator=torch.Generator().manual_seed(int(item_B[0])))
        return F.normalize(self.vectors_ND[item_B].float() + noise_BD / WIDTH**0.5, dim=1), state


def drawn_vectors(count: int) -> torch.Tensor:
    """Unit vectors in float16 around centers of a smaller space."""
    draw = torch.Generator().manual_seed(SEED)
    turned, centers = (
        torch.randn(INNER, WIDTH, generator=draw),
        1.5 * torch.randn(CENTERS, INNER, generator=draw),
    )
    vectors_ND = torch.empty(count, WIDTH, dtype=torch.float16)
    for part_TD in vectors_ND.split(65536):
        near = torch.randint(CENTERS, (len(part_TD),), generator=draw)
        inner = centers[near] + torch.randn(len(part_TD), INNER, generator=draw)
        part_TD.copy_(F.normalize(inner @ turned, dim=1))
    return vectors_ND


class Shop:
    """Drawn labels, titles and offers."""

    def __init__(self, count: int) -> None:
        draw = np.random.default_rng(SEED)
        self.words = {
            family: [word for word, group in ENGLISH.group_of.items() if group.family == family]
            for family in FAMILIES
        }
        kinds = {word: group.kind for word, group in ENGLISH.group_of.items()}
        self.nouns = [
            f"{chr(97 + one % 26)}o{chr(97 + one // 26 % 26)}um{chr(97 + one // 676)}" for one in range(NOUNS)
        ]
        self.ids = [f"p{number:07d}" for number in range(count)]
        columns = []
        for family in FAMILIES:
            share = 1 / np.arange(1, len(self.words[family]) + 1)  # as frequent as Zipf's law says
            columns.append(draw.choice(len(share), count, p=share / share.sum()))
        chosen = np.stack(columns, 1)
        self.labels: dict[str, list[list[str]]] = {}
        for name, row in zip(self.ids, chosen.tolist(), strict=True):
            lists: list[list[str]] = [[], [], [], [], [], []]
            for family, number in zip(FAMILIES, row, strict=True):
                word = self.words[family][number]
                lists[kinds[word]].append(word)
            self.labels[name] = lists
        of_titles = (NOUNS * draw.random((count, 4)) ** 3).astype(int)
        self.titles = {
            name: " ".join([*(self.nouns[one] for one in row), "dress"])
            for name, row in zip(self.ids, of_titles.tolist(), strict=True)
        }
        prices, sizes = draw.integers(1000, 30000, count).tolist(), [("S", "M"), ("M", "L"), ("L", "XL")]
        self.offers = {
            name: Offer(price_minor=price, currency="EUR", sizes=sizes[number % 3], in_stock=number % 10 > 0)
            for number, (name, price) in enumerate(zip(self.ids, prices, strict=True))
        }

    def said(self, texts: list[str], draw: random.Random) -> str:
        """A text with words of the shop in its places."""
        colour = draw.choice(self.words["colour"][:20])
        cut = draw.randrange(1, len(colour) - 1)
        words = {family: draw.choice(self.words[family][:12]) for family in FAMILIES} | {"colour": colour}
        return texts[0].format(
            **words,
            noun=draw.choice(self.nouns),
            misspelled=colour[:cut] + colour[cut + 1] + colour[cut] + colour[cut + 2 :],
        )


def megabytes() -> float:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1000


class Steps:
    """Seconds and megabytes of the steps of loading."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, float]] = {}

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        before, began = megabytes(), time.process_time()
        result = work()
        self.rows[name] = {
            "seconds": round(time.process_time() - began, 1),
            "megabytes": round(megabytes() - before),
        }
        return result


def served_of(count: int, index: str | None, steps: Steps) -> tuple[Served, Shop]:
    """A model in service with drawn products."""
    torch.manual_seed(SEED)
    shop = steps("drawing the shop", lambda: Shop(count))
    vectors_ND = steps("vectors", lambda: drawn_vectors(count))
    vocabulary = Vocabulary(
        sorted({word for words in shop.words.values() for label in words for word in tokenize(label)})
    )
    retriever = NearProducts(
        RetrieverConfig(width=WIDTH, heads=4, hidden=128, layers=2),
        vocabulary=len(vocabulary),
        features=FEATURES,
        attributes=10,
    )
    retriever.eval().requires_grad_(False)
    retriever.vectors_ND = vectors_ND
    items = Items(shop.ids, torch.zeros(count, FEATURES), torch.zeros(count, 8, dtype=torch.long))
    gallery = Gallery(items, vectors_ND)
    if index:
        query_QD = F.normalize(
            vectors_ND[:: max(1, count // 64)][:64].float() + 0.1 * torch.randn(1, WIDTH), dim=1
        )
        gallery = steps("index", lambda: approximate(gallery, index, query_QD)[0])
    lexicon = steps("lexicon", lambda: Lexicon.of(shop.labels, shop.titles.values(), vocabulary.words, "en"))

    def wording() -> Wording:
        own = [[label for some in shop.labels[name] for label in some] for name in shop.ids]
        texts = [" ".join([shop.titles[name], *some]) for name, some in zip(shop.ids, own, strict=True)]
        return Wording(lexicon, WEIGHTS, [frozenset(some) for some in own], texts)

    words = steps("wording", wording)
    system = System(
        retriever,
        BestItem(),
        gallery.with_scorer(words),
        vocabulary,
        ItemCards({}, shop.titles),
        wording=words,
    )

    def served() -> Served:
        return Served(
            version="dresses@drawn",
            category="dresses",
            folder=Path("drawn"),
            sha256="drawn",
            system=system,
            asks=False,
            max_words=8,
            max_turns=5,
            requests=[],
            metrics={},
            offers=shop.offers,
            labels=shop.labels,
        )

    return steps("shelf and facets", served), shop


class One:
    """The only model."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def active(self, category: str) -> Served:
        return self.served


def requests(kind: str, shop: Shop, count: int) -> Iterator[SearchBody]:
    """Drawn requests of a kind; later turns are about random products."""
    draw = random.Random(SEED)
    turns, fields = KINDS[kind]
    for _ in range(count):
        said = [
            {"says": shop.said(texts, draw), **({"about": draw.choice(shop.ids)} if number else {})}
            for number, texts in enumerate(turns)
        ]
        yield SearchBody.model_validate({"turns": said, "facets": True, **fields})


def measure(count: int, index: str | None, repeats: int, only: list[str]) -> dict[str, Any]:
    """Time of turns of each kind, and time and memory of loading."""
    torch.set_num_threads(1)
    steps = Steps()
    served, shop = served_of(count, index, steps)
    inference = Inference()
    folder = tempfile.TemporaryDirectory()
    store = Store.open(f"sqlite:///{folder.name}/service.db")  # nothing is stored in it
    service = Service(store, One(served), inference)  # type: ignore[arg-type]
    found: dict[str, Any] = {"count": count, "search": index or "exact", "loading": steps.rows}
    try:
        for kind in only or KINDS:
            times = []
            for request in requests(kind, shop, repeats):
                began = time.process_time()
                answer = service.searches.search("dresses", request)
                times.append(1000 * (time.process_time() - began))
                assert answer.results, kind
            low, middle, high = np.percentile(times, [0, 50, 95])
            found.setdefault("turns", {})[kind] = {
                "p50_ms": round(middle, 1),
                "p95_ms": round(high, 1),
                "least_ms": round(low, 1),
            }
            print(f"{kind:<34}{middle:8.1f}{high:8.1f}", file=sys.stderr)
    finally:
        inference.close()
        store.close()
        folder.cleanup()
    return found | {"megabytes": round(megabytes())}


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown tables of turns and of loading."""
    yield "| request | " + " | ".join(f"{row['count']:,}, {row['search']}" for row in rows) + " |"
    yield "|" + "---|" * (1 + len(rows))
    for kind in KINDS:
        cells = [row["turns"][kind] for row in rows if kind in row["turns"]]
        yield f"| {kind} | " + " | ".join(f"{one['p50_ms']}, {one['p95_ms']}" for one in cells) + " |"
    yield ""
    yield (
        "| step of loading | "
        + " | ".join(f"{row['count']:,}, {row['search']}: s, MB" for row in rows)
        + " |"
    )
    yield "|" + "---|" * (1 + len(rows))
    for step in rows[-1]["loading"]:
        cells = [row["loading"].get(step, {"seconds": "–", "megabytes": "–"}) for row in rows]
        yield f"| {step} | " + " | ".join(f"{one['seconds']}, {one['megabytes']}" for one in cells) + " |"
    yield "| resident in the end, MB | " + " | ".join(f"{row['megabytes']:,}" for row in rows) + " |"


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=10_000, help="products")
    parser.add_argument("--index", help="string of FAISS's index_factory")
    parser.add_argument("--repeats", type=int, default=100, help="turns of each kind")
    parser.add_argument(
        "--only", nargs="+", default=[], choices=list(KINDS), metavar="KIND", help="kinds of requests"
    )
    parser.add_argument("--out", type=Path, default=LATEST)
    parser.add_argument("--table", action="store_true", help="print the rows of --out as Markdown")
    options = parser.parse_args(given)
    rows = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else []
    if options.table:
        print("\n".join(tables(rows)))
        return 0
    row = measure(options.count, options.index, options.repeats, options.only)
    others = [one for one in rows if (one["count"], one["search"]) != (row["count"], row["search"])]
    write_json(options.out, sorted([*others, row], key=lambda one: (one["count"], one["search"])), indent=1)
    print(json.dumps(row, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
