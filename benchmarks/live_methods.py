"""Methods of comparing two models online, by values that are drawn from a pool of simulated shoppers."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from live_shoppers import Answer, Arm, Floats, Log

from fashioniq.metrics.interleaving import probabilistic, team_draft
from fashioniq.metrics.sequential import half_width

SIZES = (500, 1000, 2000, 4000, 8000, 16_000)  # shoppers of an experiment
MOST = 20_000  # shoppers until a sequential test is given up
PEEKED = 100  # values between two looks at a sequential test
POWER = 0.8
Z = NormalDist().inv_cdf(0.975)


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
    return Method("A/B", 2, mean, variance, size, partial(values, second_B), partial(values, first_B))


def interleaving(name: str, score_B: Floats) -> Method:
    """An interleaved comparison; its null flips the sign of each shopper's score by a coin."""

    def values(shape: tuple[int, int], draw: np.random.Generator) -> Floats:
        return score_B[draw.integers(len(score_B), size=shape)]

    def null(shape: tuple[int, int], draw: np.random.Generator) -> Floats:
        return values(shape, draw) * (2 * draw.integers(2, size=shape) - 1)

    return Method(name, 1, float(score_B.mean()), float(score_B.var()), len(score_B), values, null)


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


def sequential(
    method: Method, budgets: dict[str, float], experiments: int, draw: np.random.Generator
) -> dict[str, Any]:
    """Percentages of experiments in which the confidence sequence excludes 0 before MOST shoppers.

    `budgets` are the numbers of shoppers by which it is asked whether the challenger was activated.
    """
    counts_P = np.arange(PEEKED, MOST // method.shoppers + 1, PEEKED)
    factor_P = np.array([half_width(method.shoppers * int(count), method.shoppers) for count in counts_P])

    def stops(kind: Callable[..., Floats]) -> tuple[Floats, Floats]:
        """Shoppers at which each experiment stops, infinite if never, and the sign of its verdict."""
        found = []
        for _ in range(experiments):
            value_M = kind((1, int(counts_P[-1])), draw)[0]
            mean_P, square_P = (np.cumsum(one)[counts_P - 1] / counts_P for one in (value_M, value_M**2))
            out_P = abs(mean_P) > factor_P * np.sqrt(np.maximum(0, square_P - mean_P**2)) + 1e-12
            first = out_P.argmax()
            stop = method.shoppers * counts_P[first] if out_P.any() else np.inf
            found.append((stop, np.sign(mean_P[first]) * out_P.any()))
        return tuple(np.array(found, float).T)  # type: ignore[return-value]

    (stop_E, sign_E), (null_E, _) = stops(method.values), stops(method.null)
    median = float(np.median(stop_E))
    return {
        "ended": 100 * float(np.isfinite(stop_E).mean()),
        "median shoppers": median if np.isfinite(median) else None,
        "error": 100 * float(np.isfinite(null_E).mean()),
        "activated by answers": {
            name: 100 * float(((stop_E <= size) & (sign_E > 0)).mean()) for name, size in budgets.items()
        },
    }


def arms(ids: Sequence[str]) -> dict[str, Arm]:
    """The arms with both models."""
    positions = {name: place for place, name in enumerate(ids)}

    def mixed(interleave: Callable, rankings: Sequence[Sequence[int]], k: int, draw: random.Random) -> Answer:
        shown = interleave(*([ids[item] for item in ranking] for ranking in rankings), k, draw)
        return Answer([positions[name] for name in shown.items], shown.credits, shown.propensities)

    return {"team draft": partial(mixed, team_draft), "probabilistic": partial(mixed, probabilistic)}
