"""Losses on the queries of a batch of dialogs: the target image against negative images.

Negatives are the other targets of the batch, or the whole gallery. Batches are shuffled, so in-batch
negatives are random images, as in the papers. Using all of them has the same expectation as drawing one, and
since each image is equally often target and negative, frequent images get no advantage.

All losses take the queries B×T×D, the image vectors N×D, and `same_BN`, which is true where an image is
the dialog's target and therefore not a negative. Losses are summed over turns and averaged over dialogs.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

TurnLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
RECALLS = (1, 2, 4, 8, 16)


def triplet(query_BTD: Tensor, vectors_ND: Tensor, same_BN: Tensor, margin: float = 0.1) -> Tensor:
    """Triplet loss max(0, ‖q − t‖² − ‖q − n‖² + m), mean over negatives (Guo et al. 2018, equation 1)."""
    return _triplet(_square_distances(query_BTD, vectors_ND), same_BN, margin)


def triplet_unsquared(query_BTD: Tensor, vectors_ND: Tensor, same_BN: Tensor, margin: float = 10.0) -> Tensor:
    """Triplet loss on unsquared distances, with the margin of Fashion IQ's released code.

    Its embeddings have a length of about 16 (`--model.embedding standardized`): at unit length, distances differ by at
    most 2.
    """
    distance_BTN = torch.cdist(query_BTD.flatten(0, 1), vectors_ND).unflatten(0, query_BTD.shape[:2])
    return _triplet(distance_BTN, same_BN, margin)


def cross_entropy(
    query_BTD: Tensor, vectors_ND: Tensor, same_BN: Tensor, temperature: float = 0.05
) -> Tensor:
    """Cross-entropy of the target, with logits −‖q − v‖² / temperature over the images."""
    logits_BTN = -_square_distances(query_BTD, vectors_ND) / temperature
    own_B = same_BN.int().argmax(1)
    again_BN = same_BN.scatter(1, own_B.unsqueeze(1), False)
    log_share_BTN = logits_BTN.masked_fill(again_BN.unsqueeze(1), float("-inf")).log_softmax(-1)
    return F.nll_loss(
        log_share_BTN.transpose(1, 2), own_B.unsqueeze(1).expand(-1, query_BTD.shape[1]), reduction="sum"
    ) / len(query_BTD)


def pairwise_ranking(query_BTD: Tensor, vectors_ND: Tensor, same_BN: Tensor, margin: float = 0.2) -> Tensor:
    """Pairwise ranking loss on cosines s (Kiros et al. 2014): max(0, m − s(q, t) + s(q, n)) over other images n, and
    max(0, m − s(q, t) + s(o, t)) over the queries o of other targets, each a mean.
    """
    cosine_BTN = F.normalize(query_BTD, dim=-1) @ F.normalize(vectors_ND, dim=-1).T
    place_B, own_BT1 = same_BN.int().argmax(1), _own(cosine_BTN, same_BN)
    images_BT = _mean_hinge(margin - own_BT1 + cosine_BTN, same_BN)
    of_targets_BTO = cosine_BTN[:, :, place_B].transpose(0, 2)  # cosine of target b and query o
    queries_BT = _mean_hinge(margin - own_BT1 + of_targets_BTO, same_BN[:, place_B].T)
    return (images_BT + queries_BT).sum(1).mean()


def contrastive(query_BTD: Tensor, vectors_ND: Tensor, same_BN: Tensor, temperature: float = 0.07) -> Tensor:
    """Cross-entropy of the target, with logits cosine / temperature over the images.

    Vectors must have unit length, where −‖q − v‖² = 2 cosine − 2.
    """
    return cross_entropy(query_BTD, vectors_ND, same_BN, 2 * temperature)


def recall_surrogate(
    query_BTD: Tensor, vectors_ND: Tensor, same_BN: Tensor, temperature: float = 0.01
) -> Tensor:
    """Smooth 1 − R@k, mean over k = 1, 2, 4, 8, 16, for unit vectors (Patel, Tolias and Matas 2022).

    The rank is 1 plus the sum over other images of sigmoid(similarity difference / temperature), and "rank
    ≤ k" is sigmoid(k − rank). The minimum is 0.16, at rank 1. Targets ranked far below 16 have almost no
    gradient.
    """
    with torch.autocast(query_BTD.device.type, enabled=False):
        cosine_BTN = query_BTD.float() @ vectors_ND.float().T
    before_BTN = torch.sigmoid((cosine_BTN - _own(cosine_BTN, same_BN)) / temperature)
    before_BTN = before_BTN.masked_fill(same_BN.unsqueeze(1), 0)
    rank_BT1 = 1 + before_BTN.sum(-1, keepdim=True)
    recall_BTK = torch.sigmoid(torch.tensor(RECALLS, device=rank_BT1.device) - rank_BT1)
    return (1 - recall_BTK).mean(-1).sum(1).mean()


def _square_distances(query_BTD: Tensor, vectors_ND: Tensor) -> Tensor:
    with torch.autocast(query_BTD.device.type, enabled=False):  # bfloat16 rounding exceeds the margin
        query_BTD, vectors_ND = query_BTD.float(), vectors_ND.float()
        return (
            query_BTD.square().sum(-1, keepdim=True)
            - 2 * query_BTD @ vectors_ND.T
            + vectors_ND.square().sum(-1)
        )


def _own(value_BTN: Tensor, same_BN: Tensor) -> Tensor:
    """Values of the dialogs' own targets, B×T×1."""
    place_B11 = same_BN.int().argmax(1)[:, None, None]
    return value_BTN.gather(2, place_B11.expand(-1, value_BTN.shape[1], 1))


def _triplet(distance_BTN: Tensor, same_BN: Tensor, margin: float) -> Tensor:
    return _mean_hinge(_own(distance_BTN, same_BN) - distance_BTN + margin, same_BN).sum(1).mean()


def _mean_hinge(loss_BTN: Tensor, same_BN: Tensor) -> Tensor:
    """Mean of max(0, loss) over all but the same, B×T."""
    others_B1 = (~same_BN).sum(1, keepdim=True).clamp(min=1)  # 0 in a batch of one dialog
    return loss_BTN.clamp(min=0).masked_fill(same_BN.unsqueeze(1), 0).sum(-1) / others_B1


TURN_LOSSES: dict[str, Callable[..., Tensor]] = {
    "triplet": triplet,
    "triplet-unsquared": triplet_unsquared,
    "ranking": pairwise_ranking,
    "cross-entropy": cross_entropy,
}


def turn_loss(
    name: str, margin: float | None = None, temperature: float | None = None, scale: float = 1.0
) -> TurnLoss:
    """Return a loss by name, of vectors that are multiplied by `scale`.

    None keeps the default margin or temperature of the loss.
    """
    given = {
        key: value for key, value in (("margin", margin), ("temperature", temperature)) if value is not None
    }
    loss = partial(TURN_LOSSES[name], **given) if given else TURN_LOSSES[name]
    if scale == 1:
        return loss
    return lambda query_BTD, vectors_ND, same_BN: loss(scale * query_BTD, scale * vectors_ND, same_BN)
