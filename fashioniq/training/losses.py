"""Losses over the turns of a batch of dialogs: how near each query is to its target, against the other targets of the batch.

Batches are shuffled, so the others are images drawn at random, as the papers have it; all of them at once say what one
would say on average, and since each image is as often wanted as unwanted, no image gains by being popular in a batch.
"""

from collections.abc import Callable

import torch
from torch import Tensor

TurnLoss = Callable[[Tensor, Tensor, Tensor], Tensor]


def triplet(query_BTD: Tensor, target_BD: Tensor, same_BB: Tensor, margin: float = 0.1) -> Tensor:
    """max(0, ‖q − t‖² − ‖q − n‖² + m), mean over negatives, summed over turns, mean over dialogs (Guo et al. 2018, equation 1).

    `same_BB` is true where two dialogs have one target: no target is its own negative.
    """
    with torch.autocast(query_BTD.device.type, enabled=False):  # bfloat16 would blur more than the margin
        query_BTD, target_BD = query_BTD.float(), target_BD.float()
        distance_BTB = query_BTD.square().sum(-1, keepdim=True) - 2 * query_BTD @ target_BD.T + target_BD.square().sum(-1)
    return _hinge(distance_BTB, same_BB, margin)


def triplet_unsquared(query_BTD: Tensor, target_BD: Tensor, same_BB: Tensor, margin: float = 10.0) -> Tensor:
    """The same on plain distances, with the margin of Fashion IQ's released code."""
    distance_BTB = torch.cdist(query_BTD.flatten(0, 1), target_BD).unflatten(0, query_BTD.shape[:2])
    return _hinge(distance_BTB, same_BB, margin)


def _hinge(distance_BTB: Tensor, same_BB: Tensor, margin: float) -> Tensor:
    own_BT1 = distance_BTB.diagonal(dim1=0, dim2=2).T.unsqueeze(-1)
    hinge_BTB = (own_BT1 - distance_BTB + margin).clamp(min=0).masked_fill(same_BB.unsqueeze(1), 0)
    others_B1 = (~same_BB).sum(1, keepdim=True).clamp(min=1)  # a batch of one dialog teaches nothing
    return (hinge_BTB.sum(-1) / others_B1).sum(1).mean()


TURN_LOSSES: dict[str, TurnLoss] = {"triplet": triplet, "triplet-unsquared": triplet_unsquared}
