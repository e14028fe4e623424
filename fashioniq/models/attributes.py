"""Attribute predictor: a linear layer on the image feature, one score per word (Fashion IQ, section 3.2)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.models.layers import batch_normalized


class AttributePredictor(nn.Module):
    """Image encoder with a linear head, which returns one independent binary logit per attribute."""

    def __init__(self, encoder: nn.Module, features: int, attributes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(features, attributes)

    def forward(self, images_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features, B×D, and the attribute logits, B×A."""
        features_BD = self.encoder(images_BCHW)
        return features_BD, self.head(features_BD)

    @torch.no_grad()
    def answer_always(self, logits_A: Tensor) -> None:
        """Initialize the head to return the same logits for every picture."""
        self.head.weight.zero_()
        self.head.bias.copy_(logits_A)

    @torch.no_grad()
    def take_words(self, other: nn.Linear, own: Sequence[int], theirs: Sequence[int]) -> None:
        """Copy the weights of some words from another head: positions `theirs` there, `own` here."""
        self.head.weight[own] = other.weight[theirs]
        self.head.bias[own] = other.bias[theirs]


class AttributeScores(nn.Module):
    """One token of the scores of all attributes of a product, or of their difference between two, as in Fashion IQ's
    released captioner: a linear layer on the normalized scores of a frozen predictor, whose head gives them.

    `take` copies the head. Its bias makes no difference, since scores are normalized over the batch, and over the
    training data afterwards.
    """

    def __init__(self, *, features: int, attributes: int, width: int) -> None:
        super().__init__()
        self.register_buffer("head_AD", torch.zeros(attributes, features))
        self.head_AD: Tensor
        self.norm = nn.BatchNorm1d(attributes)
        self.linear = nn.Linear(attributes, width)

    @torch.no_grad()
    def take(self, head: nn.Linear) -> None:
        """Copy the weights of a predictor's head."""
        self.head_AD.copy_(head.weight)

    def forward(self, features_BD: Tensor) -> Tensor:
        """Token of image features, or of the difference of two, B×width."""
        return self.linear(batch_normalized(self.norm, features_BD @ self.head_AD.T))


def top_attributes(logits_BA: Tensor, count: int = 8) -> Tensor:
    """Ids (position + 1) of the `count` attributes with the highest logits, B×count, padded with 0."""
    top_BA = logits_BA.topk(min(count, logits_BA.shape[1])).indices + 1
    return F.pad(top_BA, (0, count - top_BA.shape[1])).to(torch.int64)
