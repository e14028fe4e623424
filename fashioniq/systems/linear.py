"""Linear retriever: fitted by ridge regression on captioned pairs, without pictures, GPUs or epochs.

An example is a pair with each of its captions, and with all of them joined. The penalty is chosen on a tenth
of the training pairs.
"""

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from scipy import linalg, sparse

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.metrics.ranking import percentile
from fashioniq.models.configs import LinearConfig
from fashioniq.models.linear import LinearRetriever

MAX_WORDS = 32  # of a caption; joined captions may have twice as many
PENALTIES = (10.0, 30.0, 100.0, 300.0)
HELD_OUT = 10  # one pair in ten
MOST_BIGRAMS = 6000  # the most frequent ones; the time grows with the cube of their number
_AT_A_TIME = 1024  # examples

Example = tuple[str, str, str]  # candidate, text, target


def examples_of(pairs: Sequence[Pair]) -> list[Example]:
    """Examples of pairs with targets: each caption, and all captions of a pair joined by "and"."""
    return [
        (pair.candidate, text, pair.target)
        for pair in pairs
        if pair.target
        for text in dict.fromkeys((*pair.captions, " and ".join(pair.captions)))
    ]


def fit_linear(
    pairs: Sequence[Pair],
    items: Items,
    vocabulary: Vocabulary,
    config: LinearConfig,
    least: int = 2,
    seed: int = 0,
) -> tuple[LinearRetriever, dict[str, float]]:
    """Fit the linear retriever on captioned pairs whose products are all in `items`.

    Bigrams that occur in fewer than `least` captions are left out. Also returns the penalty, and P on the
    held-out pairs with it; the final weights are fitted to all pairs.
    """
    shuffled = random.Random(seed).sample(list(pairs), len(pairs))
    cut = max(1, len(pairs) // HELD_OUT)
    held_out, rest = shuffled[:cut], shuffled[cut:] or shuffled
    model = new_linear(pairs, vocabulary, items.features_ND.shape[1], config, least)
    found: dict[float, float] = {}
    fitting = Fitting(model, vocabulary, items, examples_of(rest))
    gallery = Gallery(items, model.embed_images(items.features_ND))
    for penalty in PENALTIES:
        fitting.solve(penalty)
        found[penalty] = _held_out_percentile(model, vocabulary, gallery, held_out)
    best = max(found, key=lambda penalty: found[penalty])
    Fitting(model, vocabulary, items, examples_of(pairs)).solve(best)
    return model, {"penalty": best, "held_out_P": found[best]}


def new_linear(
    pairs: Sequence[Pair], vocabulary: Vocabulary, features: int, config: LinearConfig, least: int = 2
) -> LinearRetriever:
    """An unfitted retriever with the bigrams of the captions, zero weights."""
    size = len(vocabulary)
    texts = [text for pair in pairs for text in pair.captions]
    known = [[word for word in ids if word] for ids in vocabulary.encode(texts, MAX_WORDS).tolist()]
    counts = Counter(
        code
        for ids in known
        for code in {size * one + two for one, two in pairwise(ids) if min(one, two) >= len(SPECIAL)}
    )
    often = sorted((code for code in counts if counts[code] >= least), key=lambda code: (-counts[code], code))
    codes = sorted(often[:MOST_BIGRAMS])
    model = LinearRetriever(
        config, vocabulary=size, features=features, bigrams=len(codes), max_words=MAX_WORDS
    )
    model.bigram_G.copy_(torch.tensor(codes, dtype=torch.long))  # type: ignore[operator]
    return model


class Fitting:
    """Ridge regression of one set of examples: the normal equations, which are solved for each penalty.

    Inputs are the features of the candidate and the bag of its caption; both are centered, and so the bias is
    not penalized.
    """

    def __init__(
        self, model: LinearRetriever, vocabulary: Vocabulary, items: Items, examples: Sequence[Example]
    ) -> None:
        self.model = model
        vectors_ND = model.embed_images(items.features_ND).double().cpu().numpy()
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

    def solve(self, penalty: float) -> None:
        """Set the weights of the model."""
        gram_WW = self._gram_WW.copy()
        gram_WW[np.diag_indices_from(gram_WW)] += penalty
        factor = linalg.cho_factor(gram_WW, lower=True, overwrite_a=True, check_finite=False)
        weight_WD = linalg.cho_solve(factor, self._right_WD, check_finite=False)
        features, model = len(self._target_D), self.model
        model.image_DD.copy_(torch.from_numpy(weight_WD[:features]))
        model.bag_GD.copy_(torch.from_numpy(weight_WD[features:]))
        model.bias_D.copy_(torch.from_numpy(self._target_D - self._mean_W @ weight_WD))


def _bags(model: LinearRetriever, vocabulary: Vocabulary, texts: Sequence[str]) -> sparse.csr_matrix:
    parts = [
        sparse.csr_matrix(model.bag(words_BL).double().numpy())
        for words_BL in vocabulary.encode(texts, 2 * MAX_WORDS).split(_AT_A_TIME)
    ]
    return sparse.vstack(parts, format="csr")


def _held_out_percentile(
    model: LinearRetriever, vocabulary: Vocabulary, gallery: Gallery, pairs: Sequence[Pair]
) -> float:
    """P of the queries of single captions among all products."""
    rows = [(pair.candidate, text, pair.target) for pair in pairs if pair.target for text in pair.captions]
    position_of = gallery.items.positions
    shown_B, target_B = (
        torch.tensor([position_of[name] for name in names])
        for names in zip(*((candidate, target) for candidate, _, target in rows), strict=True)
    )
    words_BL = vocabulary.encode([text for _, text, _ in rows], MAX_WORDS)
    image_BD = gallery.vectors_ND[shown_B]
    queries = [
        image_BD[part] @ model.image_DD
        + model.bag(words_BL[part]) @ model.bag_GD
        + model.bias_D
        + model.shown * image_BD[part]
        for part in torch.arange(len(rows)).split(_AT_A_TIME)
    ]
    return percentile(gallery.rank(torch.cat(queries), target_B), len(gallery))
