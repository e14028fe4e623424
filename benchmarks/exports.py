"""Quality, size and speed of the ONNX files of a retriever, beside the model itself.

python benchmarks/exports.py demo/runs/retriever --users demo/runs/captioner grammar

The dialogs are those of `fashioniq eval-dialogs` on the test split, with what each model shows. Times are processor
seconds of one thread.
"""

import argparse
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fashioniq import plugins
from fashioniq.config import EvalDialogs
from fashioniq.evaluation.run import run_dialogs
from fashioniq.exports.onnx import INPUTS, compute, export_onnx, sessions
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Turn
from fashioniq.loop.task import Batch
from fashioniq.metrics.measures import turn_table
from fashioniq.runs.trained import load_retriever
from fashioniq.runs.training_data import recorded_settings
from fashioniq.systems import fashion_iq

ENGINES = {"onnx": "", "onnx int8": ".int8"}
MEASURES = ("P", "R@1", "R@10", "MRR")
SECONDS = 3  # of each measurement of time


class OnnxRetriever:
    """Retriever whose state are all turns, which the graph reads again at each turn."""

    def __init__(self, opened: dict[str, Any]) -> None:
        self.opened = opened

    def start(self, batch: int) -> tuple[Turn, ...]:
        return ()

    def step(self, state: tuple[Turn, ...], turn: Turn) -> tuple[Tensor, tuple[Turn, ...]]:
        turns = (*state, turn)
        most = max(one.words_BL.shape[1] for one in turns)
        words = [torch.nn.functional.pad(one.words_BL, (0, most - one.words_BL.shape[1])) for one in turns]
        inputs = (words, [one.attributes_BA for one in turns], [one.image_BD for one in turns])
        stacked = [torch.stack(parts, 1) for parts in inputs]
        mask_BT = torch.ones(stacked[0].shape[:2], dtype=torch.bool)
        return compute(self.opened, "query", *stacked, mask_BT), turns


def with_files(batch: Batch, opened: dict[str, Any]) -> Batch:
    """The same dialogs with the graphs in place of the model."""
    items = batch.system.gallery.items
    gallery = Gallery(items, compute(opened, "embed_images", items.features_ND))
    return batch._replace(system=replace(batch.system, retriever=OnnxRetriever(opened), gallery=gallery))


def quality(run: Path, folder: Path, user: str, data: Path, features: Path | None) -> None:
    """Print the measures after the last turn with one user."""
    category = load_retriever(run)[2].category
    options = EvalDialogs(run=run, data=data, category=category, features=features, user=[user], device="cpu")
    (task,) = fashion_iq.build(options)
    for engine in ("torch", *ENGINES):
        one = task
        if engine in ENGINES:
            opened = sessions(folder, ENGINES[engine])
            one = replace(
                task, batch=lambda rows, batch=task.batch, opened=opened: with_files(batch(rows), opened)
            )
        torch.manual_seed(0)
        done = run_dialogs(one, plugins.find("protocols", task.protocol), batch_size=128)
        last = turn_table(done.rank_NT, done.gallery)[-1]
        print(f"{user}  {engine:10}" + "".join(f"  {name} {last[name]:.3f}" for name in MEASURES))


@torch.no_grad()
def speed(run: Path, folder: Path) -> None:
    """Print processor seconds of the queries of dialogs of five turns, as a ratio to the model that steps through them."""
    model, _, about = load_retriever(run)
    for batch in (1, 32):
        sizes, words = about.sizes, 8
        words_BTL = torch.randint(4, sizes["vocabulary"], (batch, 5, words))
        attributes_BTA = torch.randint(1, sizes["attributes"] + 1, (batch, 5, 8))
        image_BTD = torch.randn(batch, 5, sizes["features"])
        given = words_BTL, attributes_BTA, image_BTD, torch.ones(batch, 5, dtype=torch.bool)
        ways = {"torch, whole dialogs": partial(model, *given)} | {
            engine: partial(compute, sessions(folder, kind), "query", *given)
            for engine, kind in ENGINES.items()
        }
        seconds = {name: processor_seconds(way) for name, way in ways.items()}
        first = seconds["torch, whole dialogs"]
        for name, value in seconds.items():
            print(
                f"{batch:3} dialogs of 5 turns  {name:20}  {1000 * value:.2f} ms  ratio {value / first:.2f}"
            )


def processor_seconds(way: Any) -> float:
    """Processor seconds of a call: the fastest of rounds of ten."""
    way()
    found, end = [], time.process_time() + SECONDS
    while time.process_time() < end:
        start = time.process_time()
        for _ in range(10):
            way()
        found.append((time.process_time() - start) / 10)
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="run of train-retriever")
    parser.add_argument("--users", nargs="+", default=["grammar"], help="users of eval-dialogs")
    parser.add_argument("--data", type=Path, help="(default: that of the training)")
    parser.add_argument("--features", type=Path, help="(default: that of the training)")
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = recorded_settings(given.run)
    data, features = given.data or Path(settings["data"]), given.features or settings["features"]
    with tempfile.TemporaryDirectory() as name:
        print(export_onnx(given.run, Path(name)))
        for graph in INPUTS:
            for kind in ENGINES.values():
                size = (Path(name) / f"{graph}{kind}.onnx").stat().st_size
                print(f"{graph}{kind}.onnx: {size / 1e6:.2f} MB")
        speed(given.run, Path(name))
        for user in given.users:
            quality(given.run, Path(name), user, data, features)


if __name__ == "__main__":
    main()
