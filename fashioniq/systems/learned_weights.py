"""Fusion weights of text and pictures, one per round, that rank the targets of other dialogs best."""

from collections.abc import Sequence

import torch

from fashioniq.loop.rollout import rollout
from fashioniq.systems.illustrated import Fusion, Parts, Weights, fuse
from fashioniq.systems.task import Task

GRID = tuple(
    step / 20 for step in range(20, -1, -1)
)  # weights of the text that are tried; the first of equals wins


@torch.no_grad()
def learn_weights(tasks: Sequence[Task], recorded: list[Parts], fusion: Fusion, batch_size: int) -> Weights:
    """For each round, the weight of the text with the lowest mean log rank of the targets.

    The retrievers of the tasks append the parts of their queries to `recorded`. What is offered in these dialogs
    must not depend on the query.
    """
    sums: dict[tuple[int, float], float] = {}
    for task in tasks:
        for start in range(0, task.count, batch_size):
            system, user, target_B, first = task.batch(range(start, min(start + batch_size, task.count)))
            recorded.clear()
            rollout(system, user, target_B, first, task.turns, rank=False)
            for number, parts in enumerate(recorded):
                for weight in GRID:
                    rank_B = system.gallery.rank(fuse(*parts, weight, fusion), target_B)
                    log = float((rank_B.double() + 1).log().sum())
                    sums[number, weight] = sums.get((number, weight), 0.0) + log
    rounds = sorted({number for number, _ in sums})
    return Weights(tuple(min(GRID, key=lambda weight: sums[number, weight]) for number in rounds))
