"""The wording of a trained run: the words of its catalog, the weights of its score, and its model of labels."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from fashioniq.data.catalog import Catalog
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.offers import Offers
from fashioniq.loop.rollout import System
from fashioniq.loop.wording import LIKELY, Wording
from fashioniq.models.labels import LabelModel
from fashioniq.weights import load_wording


def with_words_of(
    system: System, run: Path, catalog: Catalog, vocabulary: Vocabulary, words: bool = True
) -> System:
    """The system of a run with the wording that was fitted with it; the same system if none was.

    Raises UserError if a file is damaged.
    """
    items = system.gallery.items
    found = load_wording(run, items.features_ND.shape[1])
    if found is None:
        return system
    about, model = found
    seen = _SeenLabels(model, about.labels, items)
    wording = Wording.of(catalog, items.ids, vocabulary, about.weights, seen, words=words)
    offers = Offers(items.ids, lambda: catalog.offers, wording.size_name)
    return replace(system, wording=wording, gallery=system.gallery.with_scorer(wording), offers=offers)


class _SeenLabels:
    """Probabilities of labels by the features of products, computed when the first one is needed."""

    def __init__(self, model: LabelModel, labels: Sequence[str], items: Items) -> None:
        self._model, self._labels, self._items = model, labels, items
        self._column = {label: column for column, label in enumerate(labels)}

    @cached_property
    def _chance_NL(self) -> np.ndarray:
        return self._items.embedded(lambda x_BD: self._model.probabilities(x_BD.cpu()).half()).numpy()

    def probability(self, label: str) -> np.ndarray | None:
        """Probability of a label for each product, N; None for one that was not learned."""
        column = self._column.get(label)
        return None if column is None else self._chance_NL[:, column].astype(np.float32)

    def likely(self, item: int) -> list[str]:
        """Labels whose probability for a product is at least LIKELY."""
        return [self._labels[int(column)] for column in np.flatnonzero(self._chance_NL[item] >= LIKELY)]
