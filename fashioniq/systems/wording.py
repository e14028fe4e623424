"""The wording of a trained run: the words of its catalog, the weights of its score, and its model of labels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from fashioniq.data.catalog import Catalog
from fashioniq.data.words import Vocabulary
from fashioniq.language.lexicon import Lexicon
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.rollout import System
from fashioniq.loop.wording import Weights, Wording


def wording_of(
    catalog: Catalog,
    ids: Sequence[str],
    vocabulary: Vocabulary,
    weights: Weights,
    probabilities: Callable[[str], np.ndarray | None] | None = None,
    words: bool = True,
) -> Wording:
    """Wording of the products `ids` of a catalog.

    Without `words`, their labels and titles are not used, as for products of which only pictures are known.
    """
    labels = catalog.labels
    lexicon = Lexicon.of(
        {name: labels[name] for name in catalog.ids("train") if name in labels} if not words else labels,
        catalog.titles.values() if words else (),
        vocabulary.words,
        catalog.language,
    )
    if not words:
        return Wording(lexicon, weights, [None] * len(ids), [""] * len(ids), probabilities)
    own = [_labels(labels.get(name)) for name in ids]
    texts = [
        " ".join([catalog.titles.get(name, ""), *(word for some in labels.get(name, ()) for word in some)])
        for name in ids
    ]
    return Wording(lexicon, weights, own, texts, probabilities)


def _labels(lists: Sequence[Sequence[str]] | None) -> frozenset[str] | None:
    found = frozenset(word for some in lists or () for word in some)
    return found or None


def with_wording(system: System, wording: Wording) -> System:
    """The same system, in which words count beside the retriever's vectors."""
    return replace(system, wording=wording, gallery=system.gallery.with_scorer(wording))
