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
import json
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from fashioniq.data.catalog import Catalog
from fashioniq.files import write_json
from fashioniq.loop.rollout import System
from fashioniq.metrics.interleaving import probabilistic, team_draft
from fashioniq.metrics.sequential import half_width
from fashioniq.provenance import provenance, running
from fashioniq.sample import draw_sample
from fashioniq.sample.shop import make_shop
from fashioniq.systems import load
from live_shoppers import Answer, Arm, Behavior, Floats, Log, Street, alone, converse, degraded

PRODUCTS = 6000  # of the drawn catalog; a fifth of them is searched
SIZES = (500, 1000, 2000, 4000, 8000, 16000)  # shoppers of an experiment
MOST = 20_000  # shoppers until a sequential test is given up
PEEKED = 100  # values between two looks at a sequential test
WORSE = 0.03  # share of successful shoppers that the degraded model loses
STEPS = 7  # of the bisection of its noise
Z = NormalDist().inv_cdf(0.975)
POWER = 0.8


class Pair(NamedTuple):
    """The running model and its challenger."""

    name: str
    models: tuple[System, System]


class Method(NamedTuple):
    """A comparison whose estimate is the mean of values drawn by `values(shape, draw)`, of some shoppers each.

    `null` draws values of the same kind of two models that do not differ.
    """

    name: str
    shoppers: int
    mean: float
    variance: float
    pooled: int  # shoppers behind mean and variance
    values: Callable[[tuple[int, int], np.random.Generator], Floats]
    null: Callable[[tuple[int, int], np.random.Generator], Floats]

    @property
    def needed(self) -> float | None:
        """Shoppers for a power of 0.8 at an error of 5 %; None if the pool itself shows no difference."""
        if abs(self.mean) < Z * (self.variance / self.pooled) ** 0.5 or not self.mean:
            return None
        z = Z + NormalDist().inv_cdf(POWER)
        return self.shoppers * z**2 * self.variance / self.mean**2


def split_test(running: Log, challenger: Log) -> Method:
    """An A/B test: the difference of a shopper of each model."""
    first_B, second_B = (log.success_B.astype(float) for log in (running, challenger))
    size = len(first_B)

    def values(after_B: Floats, shape: tuple[int, int], draw: np.random.Generator) -> Floats:
        return after_B[draw.integers(size, size=shape)] - first_B[draw.integers(size, size=shape)]

    mean, variance = second_B.mean() - first_B.mean(), first_B.var() + second_B.var()
    return Method(
        "A/B", 2, mean, variance, size, partial(values, second_B), partial(values, first_B)
    )


def interleaving(name: str, log: Log) -> Method:
    """An interleaved comparison; its null flips the sign of each shopper's score by a coin."""
    score_B = log.score_B

    def values(shape: tuple[int, int], draw: np.random.Generator) -> Floats:
        return score_B[draw.integers(len(score_B), size=shape)]

    def null(shape: tuple[int, int], draw: np.random.Generator) -> Floats:
        return values(shape, draw) * (2 * draw.integers(2, size=shape) - 1)

    return Method(name, 1, score_B.mean(), score_B.var(), len(score_B), values, null)


def fixed(method: Method, shoppers: int, experiments: int, draw: np.random.Generator) -> dict[str, float]:
    """Percentages of experiments whose 95 % interval has the truth, and excludes 0 rightly and wrongly."""
    shape = experiments, max(2, round(shoppers / method.shoppers))
    (mean_E, half_E), (null_E, null_half_E) = (
        (value_EM.mean(1), Z * value_EM.std(1, ddof=1) / shape[1] ** 0.5)
        for value_EM in (method.values(shape, draw), method.null(shape, draw))
    )
    sign = np.sign(method.mean) or 1
    return {
        "covered": 100 * float((abs(mean_E - method.mean) <= half_E).mean()),
        "power": 100 * float((sign * mean_E > half_E).mean()),
        "wrong sign": 100 * float((-sign * mean_E > half_E).mean()),
        "error": 100 * float((abs(null_E) > null_half_E).mean()),
    }


def sequential(method: Method, experiments: int, draw: np.random.Generator) -> dict[str, Any]:
    """Percentages of experiments in which the confidence sequence excludes 0 before MOST shoppers."""
    counts_P = np.arange(PEEKED, MOST // method.shoppers + 1, PEEKED)
    factor_P = np.array([half_width(int(count), 1.0) for count in counts_P])

    def stops(kind: Callable[..., Floats]) -> tuple[Floats, Floats]:
        """Shoppers at which each experiment stops, infinite if never, and the sign of its verdict."""
        found = []
        for _ in range(experiments):
            value_M = kind((1, int(counts_P[-1])), draw)[0]
            mean_P, square_P = (np.cumsum(one)[counts_P - 1] / counts_P for one in (value_M, value_M**2))
            out_P = abs(mean_P) > factor_P * np.sqrt(square_P - mean_P**2)
            first = out_P.argmax()
            stop = method.shoppers * counts_P[first] if out_P.any() else np.inf
            found.append((stop, np.sign(mean_P[first]) * out_P.any()))
        return tuple(np.array(found, float).T)  # type: ignore[return-value]

    (stop_E, sign_E), (null_E, null_sign_E) = stops(method.values), stops(method.null)
    median = float(np.median(stop_E))
    by = {str(size): 100 * float(((stop_E <= size) & (sign_E > 0)).mean()) for size in (*SIZES, MOST)}
    null_by = {str(size): 100 * float(((null_E <= size) & (null_sign_E > 0)).mean()) for size in (*SIZES, MOST)}
    return {
        "ended": 100 * float(np.isfinite(stop_E).mean()),
        "median shoppers": median if np.isfinite(median) else None,
        "challenger activated by": by,
        "equal challenger activated by": null_by,
        "error": 100 * float(np.isfinite(null_E).mean()),
    }


def arms(ids: Sequence[str]) -> dict[str, Arm]:
    """The arms with both models."""
    positions = {name: place for place, name in enumerate(ids)}

    def mixed(interleave: Callable, rankings: Sequence[Sequence[int]], k: int, draw: random.Random) -> Answer:
        shown = interleave(*([ids[item] for item in ranking] for ranking in rankings), k, draw)
        return Answer([positions[name] for name in shown.items], shown.credits, shown.propensities)

    return {"team draft": partial(mixed, team_draft), "probabilistic": partial(mixed, probabilistic)}


def compared(pair: Pair, street: Street, experiments: int, seed: int) -> dict[str, Any]:
    """All comparisons of a pair."""
    begun, draw = time.process_time(), np.random.default_rng(seed)
    logs = [converse(street, [model], alone(0)) for model in pair.models]
    ids = pair.models[0].gallery.items.ids
    methods = [split_test(*logs)]
    for name, arm in arms(ids).items():
        methods.append(interleaving(name, converse(street, pair.models, arm)))
    truth = methods[0].mean
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
                "sequential": sequential(method, experiments, draw),
            }
        )
    return {
        "pair": pair.name,
        "success": [100 * float(log.success_B.mean()) for log in logs],
        "truth": 100 * truth,
        "answers per shopper": len(logs[0].turn_R) / len(logs[0].success_B),
        "methods": rows,
        "CPU seconds": time.process_time() - begun,
    }


def noisy(system: System, street: Street, success: float, seed: int) -> tuple[System, float]:
    """The system with noise at which this share of the shoppers finds their product, and the noise, by bisection."""
    low, high = 0.0, 4.0
    for _ in range(STEPS):
        noise = (low + high) / 2
        worse = degraded(system, noise, seed)
        if converse(street, [worse], alone(0)).success_B.mean() > success:
            low = noise
        else:
            high = noise
    return degraded(system, low, seed), low


def pairs_of(trained: System, street: Street, others: dict[str, System]) -> tuple[list[Pair], dict[str, float]]:
    """The pairs of models, and the noise of those that are degraded."""
    success = converse(street, [trained], alone(0)).success_B.mean()
    worse, noise = noisy(trained, street, success - WORSE, 1)
    level = converse(street, [worse], alone(0)).success_B.mean()
    equal, second = noisy(trained, street, level, 2)
    pairs = [
        Pair("identical", (trained, trained)),
        Pair("equal: both degraded", (worse, equal)),
        Pair("worse: degraded", (trained, worse)),
        Pair("better: degraded is running", (worse, trained)),
        *[Pair(name, (trained, other)) for name, other in others.items()],
    ]
    return pairs, {"first": noise, "second": second}


def table(found: dict[str, Any]) -> str:
    """The results in Markdown."""
    lines = [
        "| pair | truth | method | mean | covered | error | shoppers needed | of A/B's | power there | "
        "sequential: error | ended | median shoppers |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for pair in found["pairs"]:
        for row in pair["methods"]:
            size = row["by shoppers"][str(SIZES[2])]
            there, needed, share = row["at the shoppers needed"], row["shoppers needed"], row["share of A/B's"]
            ends = row["sequential"]
            cells = [
                pair["pair"], f"{pair['truth']:+.2f}", row["method"], f"{100 * row['mean']:+.2f}",
                f"{size['covered']:.1f}", f"{size['error']:.1f}", f"{needed:,.0f}" if needed else "–",
                f"{share:.3f}" if share else "–", f"{there['power']:.0f}" if there else "–",
                f"{ends['error']:.1f}", f"{ends['ended']:.0f}",
                f"{ends['median shoppers']:,.0f}" if ends["median shoppers"] else "–",
            ]  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


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
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--bias", type=float, default=0.5, help="place p is examined with probability p^-bias")
    parser.add_argument("--pairs", nargs="*", help="names of pairs that contain one of these texts")
    parser.add_argument("--quick", action="store_true", help="a small pool and the model of the package")
    chosen = parser.parse_args(given)
    torch.set_num_threads(1)
    with running(["python", "benchmarks/live_comparison.py", *(given or [])]), tempfile.TemporaryDirectory() as quick:
        if chosen.quick:
            run = make_shop(Path(quick) / "shop")
            trained, others = load(run, device="cpu"), {}
            catalog = Catalog(Path(quick) / "shop/catalog", "dresses")
        else:
            catalog, trained, others = systems(chosen.demo)
        behavior = Behavior(bias=chosen.bias)
        street = Street(catalog, trained, chosen.shoppers, behavior, chosen.seed)
        pairs, noise = pairs_of(trained, street, others)
        found: dict[str, Any] = {
            "protocol": "comparison of models by simulated shoppers",
            "behavior": vars(behavior),
            "seed": chosen.seed,
            "shoppers": chosen.shoppers,
            "experiments": chosen.experiments,
            "products": len(trained.gallery),
            "noise of the degraded models": noise,
            "pairs": [],
        }
        for pair in pairs:
            if not chosen.pairs or any(text in pair.name for text in chosen.pairs):
                found["pairs"].append(compared(pair, street, chosen.experiments, chosen.seed))
                print(f"{pair.name}: {found['pairs'][-1]['CPU seconds']:.0f} CPU seconds", flush=True)
        about = provenance({"dresses": catalog.fingerprint()})
        write_json(chosen.out, found | {"provenance": msgspec.to_builtins(about)})
    print(table(found))
    return found


if __name__ == "__main__":
    main()
