"""What words add to the score of a product: fitted to the labels of the training products and to held-out captions.

The model of labels is logistic regression on the features, for products of which only pictures are known. A wish that
is understood should be obeyed, unless held-out captions of people show that the labels are wrong or incomplete: then
words have smaller weights.
"""

import random
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.attributes import label_matrix, label_vocabulary
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.items import Items
from fashioniq.data.wording import OUTWEIGHS, Weights, WordingRun, obeying
from fashioniq.data.words import Vocabulary
from fashioniq.loop.wording import Wording
from fashioniq.models.labels import LabelModel, SeenLabels
from fashioniq.models.linear import LinearRetriever
from fashioniq.runs.weights import save_wording
from fashioniq.training.linear import (
    PENALTY,
    Fitting,
    embed_by_principal_components,
    examples_of,
    new_linear,
)
from fashioniq.training.said import MOST, Says, colors_by_pixels, said_of, solve, with_said

LEAST = 5  # products with a label
DECAYS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)  # weight decay of the model of labels
HELD_OUT = 5  # one product, or pair, in five
QUERIES = 600  # held-out captions
LEXICAL = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16)
WISHES = (0.0, 0.05, 0.1, 0.2, 0.5, OUTWEIGHS)
KEPT = 0.75  # share of the best gain in log rank from which on wishes outweigh any similarity
MEMORY = 0.5  # share of a small weight that each later turn leaves, as in the vectors of a linear retriever
# share of small weights of wishes for vectors trained on dialogs, which already follow the labels
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
        said = said_of(catalog, items, pairs, pixels)
        model = with_said(fit_labels(catalog, items, labels, seed), said, items)
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
        solve(model, features_ND[rest], has_NL[rest], decay)
        with torch.no_grad():
            loss = F.binary_cross_entropy_with_logits(model(features_ND[held_out]), has_NL[held_out])
        losses[decay] = float(loss)
    solve(model, features_ND, has_NL, min(losses, key=lambda decay: losses[decay]))
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

    Where wishes that outweigh any similarity keep most of what the best weights gain in the mean log rank of the
    targets, they are taken: the labels are right, and a search should obey; wishes that had to be interpreted weigh
    less, since steps and other names are often meant in another way. Otherwise the best weights are taken, but only a
    `share` for wishes: all for ridge regression, less for vectors that are trained further, which follow the labels,
    but hardly denials and other words of titles.
    """
    here = items.positions
    usable = [pair for pair in pairs if pair.candidate in here and pair.target in here]
    shuffled = random.Random(seed).sample(usable, len(usable))
    cut = max(1, len(usable) // HELD_OUT)
    held_out, rest = shuffled[:cut], shuffled[cut:][:MOST]
    asked = [(pair.candidate, caption, str(pair.target)) for pair in held_out for caption in pair.captions][
        :QUERIES
    ]
    if not rest or not asked:
        return obeying(LEXICAL[1]), {}
    examples = examples_of(rest)
    model = new_linear(examples, vocabulary, items.features_ND.shape[1])
    embed_by_principal_components(model, items.features_ND)
    Fitting(model, vocabulary, items, examples).solve(PENALTY)
    said = said_of(catalog, items, rest, pixels)
    of_labels = with_said(LabelModel(items.features_ND.shape[1], 0), said, items)
    by_sight = SeenLabels(of_labels, list(said.kinds), items, said.hues)
    wording = Wording.of(catalog, items.ids, vocabulary, Weights(1.0, 1.0, 1.0), by_sight, said=said.kinds)
    log_rank = _log_ranks(model, wording, vocabulary, items, asked)
    mean = {choice: float(log_E.mean()) for choice, log_E in log_rank.items()}
    best = min(mean, key=lambda choice: mean[choice])

    strong = min(((a, OUTWEIGHS) for a in LEXICAL), key=lambda choice: mean[choice])
    without = mean[0.0, 0.0]
    obeys = without - mean[strong] >= KEPT * (without - mean[best])
    figures = {"captions": float(len(asked)), "log_rank": mean[best], "without": without}
    if obeys:
        return obeying(strong[0]), figures
    lexical, wish = best
    return Weights(lexical, round(share * wish, 4), wish, MEMORY), figures


@torch.no_grad()
def _log_ranks(
    model: LinearRetriever,
    wording: Wording,
    vocabulary: Vocabulary,
    items: Items,
    asked: Sequence[tuple[str, str, str]],
) -> dict[tuple[float, float], Tensor]:
    """Logarithm of the rank of each target, for each pair of weights of BM25 and of wishes."""
    position_of, vectors_ND = items.positions, items.embedded(model.embed_images).cpu()
    words_EL = vocabulary.encode([caption for _, caption, _ in asked], 2 * model.max_words)
    found: dict[tuple[float, float], list[Tensor]] = {(a, b): [] for a in LEXICAL for b in WISHES}
    for (candidate, caption, target), words_L in zip(asked, words_EL, strict=True):
        item, own = position_of[candidate], position_of[target]
        query_1D = model.query_of(vectors_ND[item].unsqueeze(0), model.bag(words_L.unsqueeze(0)))
        similar_N = (vectors_ND @ query_1D[0]).double()
        lexical_N, wishes_N = (torch.from_numpy(part_N).double() for part_N in wording.parts(caption, item))
        for (a, b), ranks in found.items():
            score_N = similar_N + a * lexical_N + b * wishes_N
            score_N[item] = -float("inf")  # what is talked about is not shown again
            ranks.append((score_N > score_N[own]).sum() + 1)
    return {choice: torch.stack(ranks).double().log() for choice, ranks in found.items()}
