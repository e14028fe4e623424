"""Fit of the linear retriever by ridge regression on captions of pairs, without epochs.

An example is a pair with each of its captions, and with all of them joined.
"""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from scipy import linalg, sparse
from torch import Tensor

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items, Rows
from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.metrics.measures import percentile
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.linear import Example, LinearRetriever, caption_ranks
from fashioniq.users.pragmatic import Listener

MAX_WORDS = 32  # of a caption; joined captions may have twice as many
PENALTY = 30.0  # of the weights before training
SAMPLED = 20_000  # most products from which principal components are computed
PENALTIES = (10.0, 30.0, 100.0, 300.0)
HELD_OUT = 10  # one pair in ten
MOST_BIGRAMS = 6000  # the most frequent ones; the time grows with the cube of their number
LISTENER_WIDTH = 256  # principal components of the features
_AT_A_TIME = 1024  # examples


def examples_of(pairs: Sequence[Pair]) -> list[Example]:
    """Examples of pairs with targets: each caption, and all captions of a pair joined by "and"."""
    return [
        (pair.candidate, text, pair.target)
        for pair in pairs
        if pair.target
        for text in dict.fromkeys((*pair.captions, " and ".join(pair.captions)))
    ]


def bigrams_of(examples: Sequence[Example], vocabulary: Vocabulary, least: int = 2) -> list[int]:
    """Codes of the bigrams of at least `least` different examples, ascending; the `MOST_BIGRAMS` most frequent.

    The code is the id of the first word times the size of the vocabulary, plus that of the second.
    """
    size = len(vocabulary)
    counts = Counter(
        code
        for ids in vocabulary.encode([text for _, text, _ in examples], MAX_WORDS).tolist()
        for code in {size * one + two for one, two in pairwise(ids) if min(one, two) >= len(SPECIAL)}
    )
    often = sorted((code for code in counts if counts[code] >= least), key=lambda code: (-counts[code], code))
    return sorted(often[:MOST_BIGRAMS])


def fit_linear(
    pairs: Sequence[Pair], items: Items, vocabulary: Vocabulary, seed: int
) -> tuple[LinearRetriever, dict[str, float]]:
    """Linear retriever of captioned pairs whose products are all in `items`; its width is that of the features.

    The penalty is chosen on a tenth of the pairs, which no other example is about. Also returns it, and P on the
    held-out pairs with it; the final weights are fitted to all pairs.
    """
    shuffled = random.Random(seed).sample(list(pairs), len(pairs))
    cut = max(1, len(pairs) // HELD_OUT)
    held_out = shuffled[:cut]
    apart = {(pair.candidate, pair.target) for pair in held_out}  # sessions say more about some of them
    rest = [pair for pair in shuffled[cut:] if (pair.candidate, pair.target) not in apart] or shuffled
    model = new_linear(examples_of(pairs), vocabulary, items.features_ND.shape[1])
    embed_by_principal_components(model, items.features_ND)
    found: dict[float, float] = {}
    fitting = Fitting(model, vocabulary, items, examples_of(rest))
    gallery = Gallery(items, items.embedded(model.embed_images))
    for penalty in PENALTIES:
        fitting.solve(penalty)
        found[penalty] = _held_out_percentile(model, vocabulary, gallery, held_out)
    best = max(found, key=lambda penalty: found[penalty])
    Fitting(model, vocabulary, items, examples_of(pairs)).solve(best)
    return model, {"penalty": best, "held_out_P": found[best]}


def new_linear(
    examples: Sequence[Example],
    vocabulary: Vocabulary,
    features: int,
    least: int = 2,
    width: int | None = None,
) -> LinearRetriever:
    """An unfitted retriever with the bigrams of the examples; its width is by default that of the features."""
    codes = bigrams_of(examples, vocabulary, least)
    model = LinearRetriever(
        RetrieverConfig(kind="linear", width=width or features),
        vocabulary=len(vocabulary),
        features=features,
        bigrams=len(codes),
        max_words=MAX_WORDS,
    )
    model.bigram_G.copy_(torch.tensor(codes, dtype=torch.long))
    return model


@torch.no_grad()
def embed_by_principal_components(model: LinearRetriever, features_ND: Tensor | Rows) -> None:
    """Set the image embedding to the first principal components of the features at unit length.

    With as many components as features, this only subtracts their mean. Of more than SAMPLED rows, every n-th counts.
    """
    sampled_ND = features_ND[:: -(-len(features_ND) // SAMPLED)]
    unit_ND = torch.nn.functional.normalize(sampled_ND, dim=-1).double().cpu()
    mean_D = unit_ND.mean(0)
    _, components_DD = torch.linalg.eigh((unit_ND - mean_D).T @ (unit_ND - mean_D))
    weight_WD = components_DD.flip(1)[:, : model.width].T
    model.image.weight.copy_(weight_WD)
    model.image.bias.copy_(-weight_WD @ mean_D)


@torch.no_grad()
def start_linear(
    model: LinearRetriever,
    bigrams: Sequence[int],
    examples: Sequence[Example],
    items: Items,
    vocabulary: Vocabulary,
) -> None:
    """Fit a new linear retriever with these bigrams to examples whose products are all in `items`."""
    model.bigram_G.copy_(torch.tensor(bigrams, dtype=torch.long))
    fit_ridge(model, examples, items, vocabulary)


def fit_ridge(
    model: LinearRetriever, examples: Sequence[Example], items: Items, vocabulary: Vocabulary
) -> None:
    """Fit the image embedding and the weights of a model that has its bigrams, with the usual penalty."""
    embed_by_principal_components(model, items.features_ND)
    Fitting(model, vocabulary, items, examples).solve(PENALTY)


def fit_listener(pairs: Sequence[Pair], items: Items, vocabulary: Vocabulary) -> Listener:
    """Fit a listener to the captions of pairs; its width is that of the features, at most `LISTENER_WIDTH`."""
    examples, features = examples_of(pairs), items.features_ND.shape[1]
    model = new_linear(examples, vocabulary, features, width=min(features, LISTENER_WIDTH))
    fit_ridge(model, examples, items, vocabulary)
    return Listener(model, vocabulary)


def two_halves(pairs: Sequence[Pair], seed: int) -> tuple[list[Pair], list[Pair]]:
    """Split pairs at random: the first half for the listener that a captioner speaks to, the other for its judge.

    A captioner that is judged by the listener it speaks to would be praised for a private language.
    """
    shuffled = random.Random(seed).sample(list(pairs), len(pairs))
    half = (len(pairs) + 1) // 2
    return shuffled[:half], shuffled[half:] or shuffled


class Fitting:
    """Ridge regression of one set of examples: the normal equations, which are solved for each penalty.

    Inputs are the embedding of the candidate and the bag of its caption; both are centered, and so the bias
    is not penalized.
    """

    def __init__(
        self, model: LinearRetriever, vocabulary: Vocabulary, items: Items, examples: Sequence[Example]
    ) -> None:
        self.model = model
        vectors_ND = items.embedded(model.embed_images).double().cpu().numpy()
        position_of = items.positions
        image_ED = vectors_ND[[position_of[candidate] for candidate, _, _ in examples]]
        target_ED = vectors_ND[[position_of[target] for _, _, target in examples]]
        bag_EG = _bags(model, vocabulary, [text for _, text, _ in examples])
        self._mean_W = np.concatenate([image_ED.mean(0), np.asarray(bag_EG.mean(0)).ravel()])
        self._target_D = target_ED.mean(0)
        mixed_GD = bag_EG.T @ image_ED
        # XᵀX and XᵀY; the means are subtracted afterwards, so that the bags stay sparse
        gram_WW = np.block([[image_ED.T @ image_ED, mixed_GD.T], [mixed_GD, (bag_EG.T @ bag_EG).toarray()]])
        gram_WW -= len(examples) * np.outer(self._mean_W, self._mean_W)
        self._gram_WW = gram_WW
        centered_ED = target_ED - self._target_D
        self._right_WD = np.concatenate([image_ED.T @ centered_ED, bag_EG.T @ centered_ED])

    @torch.no_grad()
    def solve(self, penalty: float) -> None:
        """Set the weights of the model."""
        gram_WW = self._gram_WW.copy()
        gram_WW[np.diag_indices_from(gram_WW)] += penalty
        factor = linalg.cho_factor(gram_WW, lower=True, overwrite_a=True, check_finite=False)
        weight_WD = linalg.cho_solve(factor, self._right_WD, check_finite=False)
        size, model = len(self._target_D), self.model
        model.image_DD.copy_(torch.from_numpy(weight_WD[:size]))
        model.bag_GD.copy_(torch.from_numpy(weight_WD[size:]))
        model.bias_D.copy_(torch.from_numpy(self._target_D - self._mean_W @ weight_WD))


@torch.no_grad()
def _bags(model: LinearRetriever, vocabulary: Vocabulary, texts: Sequence[str]) -> sparse.csr_matrix:
    parts = [
        sparse.csr_matrix(model.bag(words_BL).double().numpy())
        for words_BL in vocabulary.encode(texts, 2 * MAX_WORDS).split(_AT_A_TIME)
    ]
    return sparse.vstack(parts, format="csr")


@torch.no_grad()
def _held_out_percentile(
    model: LinearRetriever, vocabulary: Vocabulary, gallery: Gallery, pairs: Sequence[Pair]
) -> float:
    """P of the queries of single captions among all products."""
    rows = [(pair.candidate, text, pair.target) for pair in pairs if pair.target for text in pair.captions]
    return percentile(caption_ranks(model, vocabulary, gallery, rows), len(gallery))
