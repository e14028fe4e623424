"""Benchmark of growth: search in 10^4 to 10^7 vectors by each engine, and peak memory of commands on large stores.

    python benchmarks/scale.py search --count 1000000 --index IVF1024,Flat --folder /big/disk
    python benchmarks/scale.py search --count 10000 --gallery milvus:///big/disk/milvus.db --folder /big/disk
    python benchmarks/scale.py commands --count 1000000 --folder /big/disk
    python benchmarks/scale.py --table

Every measurement runs in its own process on one thread, and is a row of benchmarks/scale.json. Times are seconds of
the processor, not of the clock, so that they can be measured on a busy machine. Vectors and features are random.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from fashioniq.files import UserError, write_json, write_text

LATEST = Path(__file__).parent / "scale.json"
DIMENSIONS, INNER, FEATURES = 256, 32, 2560
QUERIES, SINGLE = 64, 16  # queries whose recall is measured, and those that are timed one by one
SHARES = (1.0, 0.5, 0.1, 0.01, 0.001)  # of the products that a filter leaves
TILE = 65536
LONGEST = 6 * 3600.0  # seconds of a measurement
Row = dict[str, Any]


def drawn_vectors(path: Path, count: int) -> np.memmap:
    """File of float16 unit vectors: points of a 32-dimensional space around 1,000 centers, in 256 dimensions."""
    if path.exists():
        return np.lib.format.open_memmap(path, "c")
    random = np.random.default_rng(0)
    turned = random.normal(size=(INNER, DIMENSIONS)).astype(np.float32)
    centers = 1.5 * random.normal(size=(1000, INNER)).astype(np.float32)
    array = np.lib.format.open_memmap(path, "w+", np.float16, (count, DIMENSIONS))
    for start in range(0, count, TILE):
        size = min(TILE, count - start)
        inner = centers[random.integers(0, 1000, size)] + random.standard_normal((size, INNER), np.float32)
        rows = inner @ turned
        array[start : start + size] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    array.flush()
    return np.lib.format.open_memmap(path, "c")


def search_row(count: int, index: str | None, gallery_url: str | None, folder: Path) -> Row:
    """Build or read a search, and measure its recall@10 and time at each filter."""
    import torch

    from fashioniq.data.items import Items
    from fashioniq.loop.gallery import Gallery
    from fashioniq.loop.index import approximate
    from fashioniq.loop.milvus import in_milvus

    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    vectors = drawn_vectors(folder / f"vectors-{count}.npy", count)
    none = torch.empty(count, 0)
    gallery = Gallery(Items([], none, none), vectors)  # ids are not needed
    random = torch.Generator().manual_seed(1)
    near_Q = torch.randint(count, (2 * QUERIES,), generator=random)
    query_QD = gallery.vectors_ND[near_Q].float()
    query_QD += 0.03 * torch.randn(query_QD.shape, generator=random)
    tuning_QD, query_QD = query_QD.split(QUERIES)
    began = time.process_time()
    facts: Row = {}
    if gallery_url:
        gallery, facts = in_milvus(gallery, gallery_url, f"scale_{count}", tuning_QD)
    elif index:
        stored = folder / f"index-{count}"
        for least in (0.95, 0.9, 0.8, 0.5, 0.0):
            with suppress(UserError):  # an index of too little recall is measured, too
                gallery, facts = approximate(gallery, index, tuning_QD, least, folder=stored)
                break
    row = {"search": "milvus-lite" if gallery_url else index or "exact", "count": count, "facts": facts}
    row["build_s"] = time.process_time() - began
    draw_N = torch.rand(count, generator=random)
    nearest = _nearest(gallery, query_QD, draw_N)
    for share in SHARES:
        allowed_N = None if share == 1 else draw_N < share
        item_QK = gallery.top(query_QD, 10, allowed_N=allowed_N)[1]
        found = (item_QK.unsqueeze(2) == nearest[share].unsqueeze(1)).any(2)
        began = time.process_time()
        for query_D in query_QD[:SINGLE]:
            gallery.top(query_D.unsqueeze(0), 10, allowed_N=allowed_N)
        row[f"at {share:g}"] = {
            "recall": found.double().mean().item(),
            "same": found.all(1).double().mean().item(),
            "ms": 1000 * (time.process_time() - began) / SINGLE,
        }
    return row


def _nearest(gallery: Any, query_QD: Any, draw_N: Any) -> dict[float, Any]:
    """Ten nearest items at each filter, compared one by one in a plain way."""
    import torch

    far = {share: torch.empty(len(query_QD), 0) for share in SHARES}
    items = {share: torch.empty(len(query_QD), 0, dtype=torch.long) for share in SHARES}
    for start, vectors_TD in gallery.tiles(TILE):
        far_QT = vectors_TD.square().sum(1) - 2 * query_QD @ vectors_TD.T
        for share in SHARES:
            here_T = (draw_N[start : start + len(vectors_TD)] < share).nonzero()[:, 0]
            far_QK = torch.cat([far[share], far_QT[:, here_T]], 1)
            item_QK = torch.cat([items[share], (here_T + start).expand(len(query_QD), -1)], 1)
            far[share], kept = far_QK.topk(min(10, far_QK.shape[1]), largest=False)
            items[share] = item_QK.gather(1, kept)
    return items


def make_data(folder: Path, count: int) -> None:
    """A catalog of `count` dresses, their features N×2560 in float16, and a retriever with random weights."""
    import torch

    from fashioniq.data.words import Vocabulary
    from fashioniq.models.configs import RetrieverConfig
    from fashioniq.models.retriever import DialogRetriever
    from fashioniq.runs import CatalogOrigin, RetrieverRun, StoreIdentity
    from fashioniq.runs.weights import save_model

    random = np.random.default_rng(0)
    catalog, store, run = folder / "catalog", folder / "store", folder / "run"
    ids = [f"P{number:08d}" for number in range(count)]
    words = ["is", "more", "red", "blue", "long", "short", "floral", "plain", "with", "sleeves"]
    for split, some in (("train", ids), ("val", ids[:200]), ("test", ids)):
        write_json(catalog / f"image_splits/split.dress.{split}.json", some, indent=None)
        pairs = [
            {"target": a, "candidate": b, "captions": [" ".join(random.choice(words, 5)) for _ in range(2)]}
            for a, b in zip(some[:200], reversed(some[:200]), strict=True)
            if a != b
        ]
        write_json(catalog / f"captions/cap.dress.{split}.json", pairs, indent=None)
    titles = {name: {"title": f"Dress {number} {words[number % 10]}"} for number, name in enumerate(ids)}
    write_json(catalog / "titles/dress.test.json", titles, indent=None)
    store.mkdir()
    features = np.lib.format.open_memmap(store / "features.npy", "w+", np.float16, (count, FEATURES))
    block = random.standard_normal((4096, FEATURES), np.float32).astype(np.float16)
    for start in range(0, count, len(block)):  # drawing all of them would take minutes
        part = np.roll(block, random.integers(FEATURES), axis=1)[: count - start]
        features[start : start + len(part)] = part
    features.flush()
    np.save(store / "attributes.npy", random.integers(0, len(words) + 1, (count, 8)).astype(np.int16))
    write_json(store / "ids.json", ids, indent=None)
    identity = StoreIdentity(
        encoder="random", weights="none", image_size=None, dimensions=FEATURES, attribute_words=words
    )
    about = {name: getattr(identity, name) for name in identity.__struct_fields__}
    write_json(store / "store.json", about | {"attributes": "drawn", "count": count, "failures": {}})
    torch.manual_seed(0)
    config, vocabulary = RetrieverConfig(kind="transformer", attention="both-ways"), Vocabulary(words)
    sizes = {"vocabulary": len(vocabulary), "features": FEATURES, "attributes": len(words)}
    sizes |= {"max_words": 8, "max_turns": 5, "word_vector_size": 0}
    model = DialogRetriever(config, **sizes)
    facts = RetrieverRun(
        kind="retriever",
        category="dresses",
        attrs=True,
        model="transformer",
        sizes=config.sizes(**sizes),
        words=vocabulary.words,
        features=identity,
        data=CatalogOrigin(folder=str(catalog)),
        user=None,
    )
    save_model(run, model, facts)
    write_text(run / "config.yaml", f"data: {catalog}\ncategory: dresses\nfeatures: {store}\n")


def commands(folder: Path, index: str) -> dict[str, list[str]]:
    """Commands that read a whole catalog, by name."""
    data = ["--data", str(folder / "catalog"), "--features", str(folder / "store")]
    run, of = ["--run", str(folder / "run")], ["--category", "dresses", "--split", "test"]
    request = ["search", *run, "--text", "is more red"]
    training = ["--epochs", "1", "--batch-size", "32"]
    human = ["eval-dialogs", *data, *of, *run, "--user", "human", "--captions", "joined"]
    return {
        "eval-dialogs, 200 recorded": [*human, "--out", str(folder / "out")],
        "eval-single-turn, 200 pairs": [
            *("eval-single-turn", "--data", str(folder / "catalog"), "--features", str(folder / "store")),
            *(*of, *run, "--out", str(folder / "single")),
        ],
        "train-captioner, 200 pairs": [
            *("train-captioner", *data, *of[:2], *training, "--run", str(folder / "captioner")),
        ],
        "train-retriever, 200 pairs": [
            *("train-retriever", *data, *of[:2], *training, "--run", str(folder / "retriever")),
            *("--users", "recorded", "--turns", "1", "--negatives", "batch"),
        ],
        "search": request,
        "search, index built": [*request, "--index", index],
        "search, index stored": [*request, "--index", index],
    }


def command_row(name: str, arguments: list[str], count: int) -> Row:
    """Run a command in this process, and measure it."""
    from fashioniq.cli import main

    began = time.process_time()
    code = main(arguments)
    if code:
        raise SystemExit(f"{' '.join(arguments)} ended with {code}")
    return {"command": name, "count": count, "cpu_s": time.process_time() - began}


def _measured(answer: Any, work: Callable[..., Row], *arguments: Any) -> None:
    row = work(*arguments)
    peak = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")
    )
    answer.put(row | {"peak_gb": int(peak.split()[1]) * 1024 / 1e9})


def in_own_process(work: Callable[..., Row], *arguments: Any) -> Row:
    """Result of a measurement, with the peak of the resident memory, which includes the memory maps."""
    os.environ["OMP_NUM_THREADS"] = "1"
    context = get_context("spawn")
    answer = context.SimpleQueue()
    process = context.Process(target=_measured, args=(answer, work, *arguments))
    process.start()
    process.join(LONGEST)
    if process.exitcode is None:
        process.kill()
        raise SystemExit(f"error: {work.__name__} has not ended within {LONGEST:g} seconds")
    if process.exitcode:
        raise SystemExit(process.exitcode)
    return answer.get()


def put_row(path: Path, row: Row) -> None:
    """Write a row, replacing that of the same measurement."""
    keys = ("search", "command", "count")
    rows = {tuple(one.get(key) for key in keys): one for one in [*read_rows(path), row]}
    write_json(path, list(rows.values()), indent=1)


def read_rows(path: Path) -> list[Row]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def tables(rows: list[Row]) -> Iterator[str]:
    """Markdown tables of searches and commands."""
    shares = [f"{100 * share:g} %" for share in SHARES]
    yield "| products | search | recall@10 and ms at " + " | ".join(shares) + " | building, s | peak, GB |"
    yield "|" + "---|" * (4 + len(SHARES))
    for row in sorted((row for row in rows if "search" in row), key=lambda row: row["count"]):
        found = [row[f"at {share:g}"] for share in SHARES]
        cells = [f"{one['recall']:.3f}, {one['ms']:.1f}" for one in found]
        knob = "".join(
            f", {name} {row['facts'][name]}" for name in ("nprobe", "efSearch", "ef") if name in row["facts"]
        )
        built = f"{row['build_s']:.0f}" if row["facts"] else "–"
        cells = [f"{row['count']:,}", row["search"] + knob, *cells, built, f"{row['peak_gb']:.2f}"]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield "| command | products | processor, s | peak, GB |"
    yield "|---|---|---|---|"
    for row in (row for row in rows if "command" in row):
        yield f"| {row['command']} | {row['count']:,} | {row['cpu_s']:.0f} | {row['peak_gb']:.2f} |"


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=["search", "commands"])
    parser.add_argument("--count", type=int, default=10_000, help="products")
    parser.add_argument("--index", help="string of FAISS's index_factory")
    parser.add_argument("--gallery", help="address of a Milvus")
    parser.add_argument("--folder", type=Path, help="folder of the vectors and features, which are large")
    parser.add_argument("--only", nargs="+", default=[], help="commands to measure, by name (default: all)")
    parser.add_argument("--out", type=Path, default=LATEST)
    parser.add_argument("--table", action="store_true", help="print the rows of --out as Markdown")
    options = parser.parse_args(given)
    if options.table:
        print("\n".join(tables(read_rows(options.out))))
        return 0
    if not options.what or options.folder is None:
        parser.error("give search or commands, and --folder")
    if options.what == "search":
        row = in_own_process(search_row, options.count, options.index, options.gallery, options.folder)
        put_row(options.out, row)
        print(json.dumps(row))
        return 0
    folder = options.folder / f"data-{options.count}"
    if not folder.exists():
        make_data(folder, options.count)
    if not options.only:
        shutil.rmtree(folder / "run" / "gallery", ignore_errors=True)
    for name, arguments in commands(folder, options.index or "IVF1024,Flat").items():
        if options.only and name not in options.only:
            continue
        row = in_own_process(command_row, name, arguments, options.count)
        put_row(options.out, row)
        print(json.dumps(row), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
