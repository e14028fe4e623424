"""Losses over the turns of a batch of dialogs."""

from collections.abc import Callable

from torch import Tensor

TURN_LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {}


def triplet(query_BTD: Tensor, target_BD: Tensor, negative_BTD: Tensor, margin: float = 0.1) -> Tensor:
    """max(0, ‖q − t‖² − ‖q − n‖² + m), summed over turns, mean over dialogs (Guo et al. 2018, equation 1)."""
    near_BT = (query_BTD - target_BD.unsqueeze(1)).square().sum(-1)
    far_BT = (query_BTD - negative_BTD).square().sum(-1)
    return (near_BT - far_BT + margin).clamp(min=0).sum(1).mean()


def triplet_unsquared(query_BTD: Tensor, target_BD: Tensor, negative_BTD: Tensor, margin: float = 10.0) -> Tensor:
    """The same on distances, with the margin of Fashion IQ's released code."""
    near_BT = (query_BTD - target_BD.unsqueeze(1) + 1e-6).norm(dim=-1)
    far_BT = (query_BTD - negative_BTD + 1e-6).norm(dim=-1)
    return (near_BT - far_BT + margin).clamp(min=0).sum(1).mean()


TURN_LOSSES |= {"triplet": triplet, "triplet-unsquared": triplet_unsquared}
