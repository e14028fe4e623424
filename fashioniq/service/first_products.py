"""First products for someone who has not said anything: typical ones that differ from each other."""

import torch
import torch.nn.functional as F
from torch import Tensor

TYPICAL = 0.7  # weight of the similarity with the mean, against that with the products already chosen


def diverse(vectors_ND: Tensor, mean_D: Tensor, count: int) -> list[int]:
    """Positions of `count` vectors by maximal marginal relevance (Carbonell & Goldstein, SIGIR 1998).

    Each is the one most similar to the mean and least similar to the most similar one of those before; similarities
    are cosines.
    """
    unit_ND = F.normalize(vectors_ND.float(), dim=1)
    typical_N = unit_ND @ F.normalize(mean_D.float(), dim=0)
    chosen: list[int] = []
    alike_N = torch.zeros_like(typical_N)
    for _ in range(min(count, len(unit_ND))):
        gain_N = TYPICAL * typical_N - (1 - TYPICAL) * alike_N
        gain_N[chosen] = -torch.inf
        chosen.append(int(gain_N.argmax()))
        similarity_N = unit_ND @ unit_ND[chosen[-1]]
        alike_N = similarity_N if len(chosen) == 1 else torch.maximum(alike_N, similarity_N)
    return chosen
