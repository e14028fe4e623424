"""Labels of a picture by its features: logistic regression, one for each label."""

import warnings

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LabelModel(nn.Module):
    """Probability of each of L labels, given the features of a product.

    Features are taken at unit length, and standardized by the mean and spread of the training products.
    """

    mean_D: Tensor
    spread_D: Tensor

    def __init__(self, features: int, labels: int) -> None:
        super().__init__()
        self.register_buffer("mean_D", torch.zeros(features))
        self.register_buffer("spread_D", torch.ones(features))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a model of no labels
            self.linear = nn.Linear(features, labels)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def standardize(self, features_ND: Tensor) -> None:
        """Set the mean and the spread to those of these features."""
        unit_ND = F.normalize(features_ND, dim=-1)
        self.mean_D.copy_(unit_ND.mean(0))
        self.spread_D.copy_(unit_ND.std(0, unbiased=False).clamp_min(1e-6))

    def forward(self, features_BD: Tensor) -> Tensor:
        """Log odds of the labels, B×L."""
        return self.linear((F.normalize(features_BD, dim=-1) - self.mean_D) / self.spread_D)

    def probabilities(self, features_BD: Tensor) -> Tensor:
        """Probabilities of the labels, B×L."""
        return self(features_BD).sigmoid()
