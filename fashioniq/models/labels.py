"""Labels of a picture by its features: logistic regression, one for each label."""

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.items import Items
from fashioniq.loop.labels import LIKELY


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


class SeenLabels:
    """Probabilities of labels by the features of products, computed when the first one is needed.

    `hues` are those of products whose picture was looked at, by its pixels; they count instead of those by features.
    """

    def __init__(
        self,
        model: LabelModel,
        labels: Sequence[str],
        items: Items,
        hues: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> None:
        self._model, self._labels, self._items, self._hues = model, labels, items, hues
        self._column = {label: column for column, label in enumerate(labels)}

    @cached_property
    def _chance_NL(self) -> np.ndarray:
        chance_NL = self._items.embedded(lambda x_BD: self._model.probabilities(x_BD.cpu()).half()).numpy()
        known = {hue for own in self._hues.values() for hue in own} & self._column.keys()
        for name, own in self._hues.items():
            if (item := self._items.positions.get(name)) is not None:
                for hue in known:
                    chance_NL[item, self._column[hue]] = own.get(hue, 0.0)
        return chance_NL

    def probability(self, label: str) -> np.ndarray | None:
        """Probability of a label for each product, N; None for one that was not learned."""
        column = self._column.get(label)
        return None if column is None else self._chance_NL[:, column].astype(np.float32)

    def likely(self, item: int) -> list[str]:
        """Labels whose probability for a product is at least LIKELY."""
        return [self._labels[int(column)] for column in np.flatnonzero(self._chance_NL[item] >= LIKELY)]
