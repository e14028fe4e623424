"""What words add to the score of a product: fitted to the labels of the training products and to held-out captions.

The model of labels is logistic regression on the features, for products of which only pictures are known.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F

from fashioniq.data.attributes import label_matrix, label_vocabulary
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.data.wording import Weights, WordingRun, obeying
from fashioniq.data.words import Vocabulary
from fashioniq.loop.weighing import CAPTIONS, LEXICAL, Asked, best_weights
from fashioniq.loop.wording import Wording
from fashioniq.models.labels import LabelModel, SeenLabels
from fashioniq.runs.weights import save_wording
from fashioniq.training.linear import examples_of, fit_ridge, new_linear
from fashioniq.training.stated_labels import (
    MOST,
    Says,
    colors_by_pixels,
    fit_label_model,
    read_stated_labels,
    with_stated_labels,
)

LEAST = 5  # products with a label
DECAYS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)  # weight decay of the model of labels
HELD_OUT = 5  # one product, or pair, in five
# share of small weights for vectors trained on dialogs, which already follow the words
TRAINED = 1 / 3
HALFWAY = 2 / 3  # the same for vectors halfway between ridge regression and the end of the training


def fit_wording(
    run: Path,
    catalog: Catalog,
    items: Items,
    pairs: Sequence[Pair],
    vocabulary: Vocabulary,
    *,
    seed: int,
    share: float = TRAINED,
) -> str:
    """Fit the model of labels and the weights to the products `items` of train and their captioned pairs.

    `share` is that of `fit_weights`. Writes wording.json and labels.safetensors into the run. Returns a line about the
    weights. The random numbers of the training that follows stay the same.
    """
    labels = label_vocabulary(catalog.labels, items.ids, LEAST)
    pixels = colors_by_pixels(catalog, items.ids)
    with torch.random.fork_rng(devices=[]):  # new modules draw weights
        said = read_stated_labels(catalog, items, pairs, pixels)
        model = with_stated_labels(fit_labels(catalog, items, labels, seed), said, items)
        weights, figures = fit_weights(catalog, items, pairs, vocabulary, seed, pixels=pixels, share=share)
    known = [*labels, *said.kinds]
    about = WordingRun(weights=weights, labels=known, figures=figures, said=said.kinds, hues=said.hues)
    save_wording(run, model, about)
    return (
        f"words: weight {weights.lexical:g} of BM25 over titles and labels, {weights.wanted:g} of a wish; "
        f"{len(known)} labels are learned from vectors"
    )


def fit_labels(catalog: Catalog, items: Items, labels: Sequence[str], seed: int) -> LabelModel:
    """Fit the model of labels to products; the weight decay is chosen on a fifth of them."""
    model = LabelModel(items.features_ND.shape[1], len(labels))
    step = -(-len(items) // MOST)
    ids, features_ND = items.ids[::step], items.features_ND[::step].cpu()
    labelled = [row for row, name in enumerate(ids) if name in catalog.labels]
    if not labels or len(labelled) < 2:
        return model
    features_ND, ids = features_ND[labelled], [ids[row] for row in labelled]
    model.standardize(features_ND)
    has_NL = torch.from_numpy(label_matrix(catalog.labels, ids, labels)).float()
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    cut = max(1, len(ids) // HELD_OUT)
    held_out, rest = order[:cut], order[cut:]
    losses = {}
    for decay in DECAYS:
        fit_label_model(model, features_ND[rest], has_NL[rest], decay)
        with torch.no_grad():
            loss = F.binary_cross_entropy_with_logits(model(features_ND[held_out]), has_NL[held_out])
        losses[decay] = float(loss)
    fit_label_model(model, features_ND, has_NL, min(losses, key=lambda decay: losses[decay]))
    return model


def fit_weights(
    catalog: Catalog,
    items: Items,
    pairs: Sequence[Pair],
    vocabulary: Vocabulary,
    seed: int,
    *,
    pixels: Says,
    share: float = TRAINED,
) -> tuple[Weights, dict[str, float]]:
    """Choose the weights on captions of a fifth of the pairs, by a ridge regression that has not seen them.

    `share` is that of small weights: all for ridge regression, less for vectors that are trained further, which follow
    the words, but hardly denials.
    """
    here = items.positions
    usable = [pair for pair in pairs if pair.candidate in here and pair.target in here]
    shuffled = random.Random(seed).sample(usable, len(usable))
    cut = max(1, len(usable) // HELD_OUT)
    held_out, rest = shuffled[:cut], shuffled[cut:][:MOST]
    asked = [(pair.candidate, caption, str(pair.target)) for pair in held_out for caption in pair.captions][
        :CAPTIONS
    ]
    if not rest or not asked:
        return obeying(LEXICAL[1]), {}
    examples = examples_of(rest)
    model = new_linear(examples, vocabulary, items.features_ND.shape[1])
    fit_ridge(model, examples, items, vocabulary)
    said = read_stated_labels(catalog, items, rest, pixels)
    of_labels = with_stated_labels(LabelModel(items.features_ND.shape[1], 0), said, items)
    by_sight = SeenLabels(of_labels, list(said.kinds), items, said.hues)
    wording = Wording.of(catalog, items.ids, vocabulary, Weights(), by_sight, said=said.kinds)
    position_of, vectors_ND = items.positions, items.embedded(model.embed_images).cpu()
    words_EL = vocabulary.encode([caption for _, caption, _ in asked], 2 * model.max_words)

    def ranked() -> Iterator[Asked]:
        for (candidate, caption, target), words_L in zip(asked, words_EL, strict=True):
            item = position_of[candidate]
            query_1D = model.query_of(vectors_ND[item].unsqueeze(0), words_L.unsqueeze(0))
            similar_N = (vectors_ND @ query_1D[0]).double()
            yield Asked(similar_N, wording.parts(caption, item), item, position_of[target])

    with torch.no_grad():
        return best_weights(ranked(), share)
