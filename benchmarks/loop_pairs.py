"""Compare the speed of a training step in two checkouts, in alternating pairs of processes.

    python benchmarks/loop_pairs.py OLD NEW [--pairs 10]

The step: the transformer retriever with simulated dialogs, 64 × 5 turns, width 128, gallery of 1,000, greedy
user. Each process uses one thread, takes 3 steps to warm up, and measures the CPU seconds of 30 steps. The
order within a pair alternates, so that a load that grows or shrinks affects both. The last losses of both must
be equal. The checkouts may be from before or after the loop of messages (see `training`).
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PRODUCTS, FEATURES, WORDS, ATTRIBUTES = 1000, 256, 400, 100
DIALOGS, TURNS, WARM_UP, STEPS = 64, 5, 3, 30
SIZES = {"width": 128, "heads": 4, "hidden": 256, "layers": 2}
OPTIMIZATION = {"negatives": "batch", "learning_rate": 1e-3, "schedule": "constant"}


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the speed of a training step in two checkouts.")
    parser.add_argument("old", metavar="OLD", type=Path, help="directory of the first checkout")
    parser.add_argument("new", metavar="NEW", type=Path, help="directory of the second checkout")
    parser.add_argument("--pairs", type=int, default=10, help="pairs of processes (default: 10)")
    given = parser.parse_args()
    ratios = []
    for pair in range(given.pairs):
        order = [given.old, given.new] if pair % 2 == 0 else [given.new, given.old]
        found = {checkout: run(checkout) for checkout in order}
        (old_seconds, old_loss), (new_seconds, new_loss) = found[given.old], found[given.new]
        if old_loss != new_loss:
            print(f"error: expected equal losses, found {old_loss} and {new_loss}", file=sys.stderr)
            return 1
        ratios.append(new_seconds / old_seconds)
        print(f"old {old_seconds:6.2f} s   new {new_seconds:6.2f} s   new/old {ratios[-1]:.2f}", flush=True)
    print(f"new/old: median {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    return 0


def run(checkout: Path) -> tuple[float, float]:
    """CPU seconds of the steps with the package of a checkout, and the last loss."""
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "OMP_NUM_THREADS": "1"}
    code = f"import runpy; runpy.run_path({str(Path(__file__).resolve())!r})['measure']()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=3600
    )
    seconds, loss = json.loads(done.stdout.splitlines()[-1])
    return seconds, loss


def measure() -> None:
    """Print CPU seconds and the last loss, with the package that is imported."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = training()
    module.on_train_epoch_start()
    optimizer = module.configure_optimizers()

    def step(number: int) -> float:
        torch.manual_seed(number)
        loss = module.training_step([torch.randperm(PRODUCTS)[:DIALOGS]], 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    for number in range(WARM_UP):
        step(number)
    began = time.process_time()
    losses = [step(number) for number in range(STEPS)]
    print(json.dumps([time.process_time() - began, losses[-1]]))


def training() -> Any:
    """The training module, in the package with the loop of messages or in the one before it."""
    import torch

    from fashioniq.data.words import Vocabulary
    from fashioniq.training.losses import turn_loss

    vocabulary = Vocabulary([f"w{number}" for number in range(WORDS)])
    tensors = torch.randn(PRODUCTS, FEATURES), torch.randint(1, ATTRIBUTES, (PRODUCTS, 8))
    ids, loss = [str(number) for number in range(PRODUCTS)], turn_loss("triplet")
    try:
        from fashioniq.training.dialog_sources import DialogSimulation  # noqa: F401
    except ImportError:
        return _before_messages(vocabulary, ids, tensors, loss)
    return _with_messages(vocabulary, ids, tensors, loss)


def _with_messages(vocabulary: Any, ids: list[str], tensors: Any, loss: Any) -> Any:
    from fashioniq.askers.best_item import BestItem
    from fashioniq.data.items import Items
    from fashioniq.models.captioner import Captioner
    from fashioniq.models.configs import CaptionerConfig, RetrieverConfig
    from fashioniq.models.retriever import DialogRetriever
    from fashioniq.training.retriever import RetrieverTraining
    from fashioniq.training.users import captioner_dialogs
    from fashioniq.users.captioner import Simulator

    of_data = {"vocabulary": len(vocabulary), "features": FEATURES, "attributes": ATTRIBUTES}
    model = DialogRetriever(RetrieverConfig(attention="turn-causal", **SIZES), **of_data)
    captioner = Captioner(CaptionerConfig(**SIZES), **of_data)
    items = dict.fromkeys(("train", "val"), Items(ids, *tensors))
    source = captioner_dialogs(Simulator(captioner, vocabulary), vocabulary, items, turns=TURNS, seed=0)
    return RetrieverTraining(model, source, BestItem(), loss=loss, **OPTIMIZATION)


def _before_messages(vocabulary: Any, ids: list[str], tensors: Any, loss: Any) -> Any:
    from fashioniq.models.captioner import Captioner
    from fashioniq.models.retriever import DialogRetriever
    from fashioniq.training.retriever import RetrieverTraining

    best_item = importlib.import_module("fashioniq.askers").BestItem()  # both have moved since
    items = importlib.import_module("fashioniq.data.features").Items(ids, *tensors)
    of_data = len(vocabulary), FEATURES, ATTRIBUTES
    model = DialogRetriever(*of_data, attention="turn-causal", **SIZES)
    captioner = Captioner(*of_data, **SIZES)
    options = {"recorded": {}, "asker": best_item, "turns": TURNS, "loss": loss, "beams": 1, "seed": 0}
    return RetrieverTraining(model, captioner, vocabulary, items, items, **options, **OPTIMIZATION)


if __name__ == "__main__":
    raise SystemExit(main())
