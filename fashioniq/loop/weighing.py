"""Weights of words in the score of a product, chosen by the ranks of the targets of people's captions.

A wish that is understood should be obeyed, unless captions show that the labels are wrong or incomplete: then words
have smaller weights. A denial outweighs any similarity wherever labels help: vectors hardly follow it, and captions
deny too little to tell.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.wording import OUTWEIGHS, Weights, obeying

LEXICAL = (0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.12, 0.16)
WISHES = (0.0, 0.025, 0.05, 0.1, 0.2, 0.5, OUTWEIGHS)
NEAR = 10  # products after which a target counts half as much as at the first place: the first pages matter
KEPT = 0.75  # share of the best gain from which on wishes outweigh any similarity
CAPTIONS = 2400  # asked at most: of 600, chance chose weights that lost two points of R@10
MEMORY = 0.5  # share of a small weight that each later turn leaves, as in the vectors of a linear retriever


class Asked(NamedTuple):
    """A caption of a pair: the similarity of each product, the parts of their bonus, and the products of the pair."""

    similar_N: Tensor
    parts: tuple[np.ndarray, np.ndarray]  # see `Wording.parts`
    candidate: int
    target: int


def best_weights(asked: Iterable[Asked], share: float = 1.0) -> tuple[Weights, dict[str, float]]:
    """The weights by which the targets are nearest to the first place, and how near with and without them, 0 to 1.

    Where wishes that outweigh any similarity keep most of what the best weights gain, they are taken: the labels are
    right, and a search should obey; wishes that had to be interpreted weigh less, since steps and other names are often
    meant in another way. Otherwise a `share` of the best weights is taken.
    """
    choices = [(lexical, wish) for lexical in LEXICAL for wish in WISHES]
    lexical_C, wish_C = torch.tensor(choices, dtype=torch.float64).T
    near: list[Tensor] = []
    for similar_N, parts, candidate, target in asked:
        lexical_N, wishes_N = (torch.from_numpy(part_N).double() for part_N in parts)
        score_CN = similar_N.double() + lexical_C[:, None] * lexical_N + wish_C[:, None] * wishes_N
        score_CN[:, candidate] = -float("inf")  # what is talked about is not shown again
        own_C1 = score_CN[:, target : target + 1]
        ahead_C = (score_CN > own_C1).sum(1) + (score_CN >= own_C1).sum(1) - 1  # twice: equal ones count half
        near.append(NEAR / (NEAR + ahead_C.clamp(min=0).double() / 2))
    # of choices that differ by rounding alone, the first one is best
    mean = dict(zip(choices, torch.stack(near).mean(0).round(decimals=12).tolist(), strict=True))
    best = max(mean, key=lambda choice: mean[choice])
    strong = max(((lexical, OUTWEIGHS) for lexical in LEXICAL), key=lambda choice: mean[choice])
    without = mean[0.0, 0.0]
    figures = {"captions": float(len(near)), "near": mean[best], "without": without}
    if mean[strong] - without >= KEPT * (mean[best] - without):
        return obeying(strong[0]), figures
    lexical, wish = best
    denied = OUTWEIGHS if wish else 0.0
    return Weights(round(share * lexical, 4), round(share * wish, 4), denied, MEMORY, full=wish), figures
