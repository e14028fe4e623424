"""Weights of words in the score of a product, chosen by the ranks of the targets of people's captions.

A wish that is understood should be obeyed, unless captions show that the labels are wrong or incomplete: then words
have smaller weights.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.wording import OUTWEIGHS, Weights, obeying

LEXICAL = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16)
WISHES = (0.0, 0.05, 0.1, 0.2, 0.5, OUTWEIGHS)
KEPT = 0.75  # share of the best gain in log rank from which on wishes outweigh any similarity
CAPTIONS = 600  # asked at most
MEMORY = 0.5  # share of a small weight that each later turn leaves, as in the vectors of a linear retriever


class Asked(NamedTuple):
    """A caption of a pair: the similarity of each product, the parts of their bonus, and the products of the pair."""

    similar_N: Tensor
    parts: tuple[np.ndarray, np.ndarray]  # see `Wording.parts`
    candidate: int
    target: int


def best_weights(asked: Iterable[Asked], share: float = 1.0) -> tuple[Weights, dict[str, float]]:
    """The weights by which the targets rank best, and their mean log rank with and without them.

    Where wishes that outweigh any similarity keep most of what the best weights gain, they are taken: the labels are
    right, and a search should obey; wishes that had to be interpreted weigh less, since steps and other names are often
    meant in another way. Otherwise the best weights are taken, but only a `share` for wishes.
    """
    ranks: dict[tuple[float, float], list[Tensor]] = {(a, b): [] for a in LEXICAL for b in WISHES}
    for similar_N, parts, candidate, target in asked:
        lexical_N, wishes_N = (torch.from_numpy(part_N).double() for part_N in parts)
        for (a, b), found in ranks.items():
            score_N = similar_N.double() + a * lexical_N + b * wishes_N
            score_N[candidate] = -float("inf")  # what is talked about is not shown again
            own = score_N[target]
            place = ((score_N > own).sum() + (score_N >= own).sum() + 1) / 2  # the mean one of equal products
            found.append(place.clamp(min=1))
    mean = {choice: float(torch.stack(found).double().log().mean()) for choice, found in ranks.items()}
    best = min(mean, key=lambda choice: mean[choice])
    strong = min(((a, OUTWEIGHS) for a in LEXICAL), key=lambda choice: mean[choice])
    without = mean[0.0, 0.0]
    figures = {"captions": float(len(ranks[best])), "log_rank": mean[best], "without": without}
    if without - mean[strong] >= KEPT * (without - mean[best]):
        return obeying(strong[0]), figures
    lexical, wish = best
    return Weights(lexical, round(share * wish, 4), wish, MEMORY), figures
