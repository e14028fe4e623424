"""How well do online comparisons and off-policy estimates find the truth about two models? Simulated shoppers know it.

    make demo
    python benchmarks/live_comparison.py --out live.json
    python benchmarks/live_comparison.py --quick --out live.json    # seconds, with the package's own model

A pool of shoppers (benchmarks/live_shoppers.py) talks to the running model, to the challenger, to both interleaved, and
to the running model with exploration. The difference of the shares of shoppers who find their product is the truth.
Experiments draw shoppers from the pool with replacement: an A/B test, two kinds of interleaving, estimators of the log
with exploration, and the gates that would activate the challenger. Models are worse by noise in their weights, of a
size at which 3 percent of the shoppers find their product no more: they test methods, not models.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import live_tables
import msgspec
import numpy as np
import torch
from live_methods import SIZES, arms, fixed, interleaving, sequential, split_test
from live_off_policy import ANSWERS, Explored, exploring, off_policy
from live_shoppers import Behavior, Log, Street, alone, converse, degraded

from fashioniq.data.catalog import Catalog
from fashioniq.files import write_json
from fashioniq.loop.rollout import System
from fashioniq.provenance import provenance, running
from fashioniq.sample import draw_sample
from fashioniq.sample.shop import make_shop
from fashioniq.systems import load

PRODUCTS = 6000  # of the drawn catalog; a fifth of them is searched
WORSE = 0.03  # share of successful shoppers that the degraded model loses
STEPS = 6  # of the bisection of its noise


class Pair(NamedTuple):
    """The running model and its challenger; `equal` if gates are judged on shoppers with whom neither is better."""

    name: str
    models: tuple[System, System]
    equal: bool = False


def compared(pair: Pair, street: Street, logs: Sequence[Log], experiments: int, seed: int) -> dict[str, Any]:
    """All comparisons of a pair, whose models had the conversations `logs` alone."""
    begun, draw = time.process_time(), np.random.default_rng(seed)
    ids = pair.models[0].gallery.items.ids
    methods = [split_test(*logs)]
    for name, arm in arms(ids).items():
        log = converse(street, pair.models, arm)
        # as in the service: the product chosen, or else the clicks
        methods.append(interleaving(name, np.where(log.success_B, log.choice_B, log.score_B)))
        methods.append(interleaving(f"{name}, all clicks", log.score_B))
    truth = methods[0].mean
    per_shopper = len(logs[0].turn_R) / len(logs[0].success_B)
    budgets = {str(answers): answers / per_shopper for answers in ANSWERS}
    rows = []
    for method in methods:
        needed = method.needed
        rows.append(
            {
                "method": method.name,
                "mean": method.mean,
                "standard deviation": method.variance**0.5,
                "standard error in the pool": (method.variance / method.pooled) ** 0.5,
                "shoppers needed": needed,
                "share of A/B's": needed and methods[0].needed and needed / methods[0].needed,
                "agrees with A/B": bool(method.mean * truth > 0),
                "by shoppers": {str(size): fixed(method, size, experiments, draw) for size in SIZES},
                "at the shoppers needed": needed and fixed(method, round(needed), experiments, draw),
                "sequential": sequential(method, budgets, experiments, draw),
            }
        )
    changed_B = logs[1].success_B.astype(float) - logs[0].success_B
    explored = Explored(converse(street, pair.models, exploring, ranks=True), street, seed, equal=pair.equal)
    return {
        "pair": pair.name,
        "success": [100 * float(log.success_B.mean()) for log in logs],
        "truth": 100 * truth,
        "standard error of the truth": 100 * float(changed_B.std()) / len(changed_B) ** 0.5,
        "answers per shopper": per_shopper,
        "methods": rows,
        "off-policy": off_policy(explored, experiments, seed),
        "CPU seconds": time.process_time() - begun,
    }


def noisy(system: System, street: Street, success: float, seed: int) -> tuple[System, float]:
    """The system with noise at which this share of the shoppers finds their product, and the noise, by bisection."""
    low, high = 0.0, 2.0
    for _ in range(STEPS):
        noise = (low + high) / 2
        worse = degraded(system, noise, seed)
        if converse(street, [worse], alone(0)).success_B.mean() > success:
            low = noise
        else:
            high = noise
    return degraded(system, low, seed), low


def pairs_of(
    trained: System, street: Street, others: dict[str, System]
) -> tuple[list[Pair], dict[str, float]]:
    """The pairs of models, and the noise of those that are degraded."""
    success = converse(street, [trained], alone(0)).success_B.mean()
    worse, noise = noisy(trained, street, success - WORSE, 1)
    level = converse(street, [worse], alone(0)).success_B.mean()
    equal, second = noisy(trained, street, level, 2)
    pairs = [
        Pair("equal: both degraded", (worse, equal), equal=True),
        Pair("worse: degraded", (trained, worse)),
        Pair("better: degraded is running", (worse, trained)),
        *[Pair(name, (trained, other)) for name, other in others.items()],
        Pair("identical", (trained, trained)),
    ]
    return pairs, {"first": noise, "second": second}


def systems(demo: Path) -> tuple[Catalog, System, dict[str, System]]:
    """The trained search of the demo and others, in a larger catalog of which the pictures alone are known."""
    from fashioniq.cli import main as fashioniq

    data = demo / "large"
    if not data.exists():
        draw_sample(data, PRODUCTS, 0, ["dresses"])
        known = f"--data {data} --category dresses --predictor {demo / 'runs/attributes-dresses'}"
        fashioniq(["extract-features", *known.split()])
    if not (demo / "runs/early").exists():
        early = f"--config configs/sample/retriever.yaml --run {demo / 'runs/early'} --epochs 1"
        fashioniq(["train-retriever", *early.split()])
    trained, early = (
        load(demo / "runs" / name, data=data, split="test", device="cpu", words=False)
        for name in ("retriever", "early")
    )
    untrained = load(encoder="metadata", data=data, category="dresses", device="cpu", words=False)
    return Catalog(data, "dresses"), trained, {"one epoch": early, "untrained, by labels": untrained}


def main(given: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the command, print its tables, and write its results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", type=Path, default=Path("demo"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shoppers", type=int, default=20_000, help="shoppers of the pool")
    parser.add_argument("--experiments", type=int, default=200, help="experiments of each kind and size")
    parser.add_argument(
        "--bias", type=float, default=0.5, help="place p is examined with probability p^-bias"
    )
    parser.add_argument("--leaves", type=float, default=0.15, help="probability to leave after a turn")
    parser.add_argument("--pairs", nargs="*", help="names of pairs that contain one of these texts")
    parser.add_argument(
        "--quick", action="store_true", help="300 shoppers, 10 experiments, the package's model"
    )
    words = sys.argv[1:] if given is None else list(given)
    chosen = parser.parse_args(words)
    if chosen.quick:
        chosen.shoppers, chosen.experiments = min(300, chosen.shoppers), min(10, chosen.experiments)
    torch.set_num_threads(1)
    with (
        running(["python", "benchmarks/live_comparison.py", *words]),
        tempfile.TemporaryDirectory() as quick,
    ):
        if chosen.quick:
            run = make_shop(Path(quick) / "shop")
            trained, others = load(run, split="all", device="cpu"), {}
            catalog = Catalog(Path(quick) / "shop/catalog", "dresses")
        else:
            catalog, trained, others = systems(chosen.demo)
        behavior = Behavior(bias=chosen.bias, leaves=chosen.leaves)
        street = Street(catalog, trained, chosen.shoppers, behavior, chosen.seed)
        pairs, noise = pairs_of(trained, street, others)
        found: dict[str, Any] = {
            "protocol": "comparison of models by simulated shoppers",
            "category": "dresses",
            "behavior": vars(behavior),
            "seed": chosen.seed,
            "shoppers": chosen.shoppers,
            "experiments": chosen.experiments,
            "products": len(trained.gallery),
            "noise of the degraded models": noise,
            "pairs": [],
        }
        alone_of: dict[int, Log] = {}
        for pair in pairs:
            if not chosen.pairs or any(text in pair.name for text in chosen.pairs):
                for model in pair.models:
                    if id(model) not in alone_of:
                        alone_of[id(model)] = converse(street, [model], alone(0))
                logs = [alone_of[id(model)] for model in pair.models]
                found["pairs"].append(compared(pair, street, logs, chosen.experiments, chosen.seed))
                about = provenance({"dresses": catalog.fingerprint()})
                found["rows"] = live_tables.flat(found)
                write_json(chosen.out, found | {"provenance": msgspec.to_builtins(about)})
                print(f"{pair.name}: {found['pairs'][-1]['CPU seconds']:.0f} CPU seconds", flush=True)
    for text in (
        live_tables.comparisons(found, SIZES[2]),
        live_tables.estimates(found),
        live_tables.gates(found),
    ):
        print(f"\n{text}")
    return found


if __name__ == "__main__":
    main()
