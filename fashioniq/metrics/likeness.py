"""How much captions resemble those of people: their lengths, their words, and whether a discriminator tells them apart.

Both have one caption of each of N pairs. Values are corrected for their bias by bootstrap, and intervals are basic
bootstrap intervals of 95 % over pairs (Davison and Hinkley 1997): even captions of the same source differ in a sample,
and still more in its resamples.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from fashioniq.data.words import tokenize

RESAMPLES = 300
FOLDS = 5
TELLING = 8  # words or facts named on each side


def likeness(
    captions: Sequence[str],
    people: Sequence[str],
    facts_NF: NDArray[np.float64],
    facts_of_people_NF: NDArray[np.float64],
    *,
    names: Sequence[str],
    seed: int,
) -> dict[str, Any]:
    """Measures of N captions against those of people for the same pairs, N ≥ 10.

    `facts_NF` are F numbers of each caption and its pair, with their `names`. `length distance` is Wasserstein's in
    words, `divergence` Jensen and Shannon's of the frequencies of words in bits, 0 to 1; `AUC of words` that of a
    logistic regression on words and bigrams, `AUC` on the facts, too, both cross-validated so that no fold has other
    captions of its pairs: 0.5 if nothing tells them apart, 1 if each is recognized. Each has the key `… interval`.
    `tell it` and `tell people` are what the discriminator goes by, the strongest first.
    """
    count = len(people)
    length_2N = np.array([[len(tokenize(text)) for text in texts] for texts in (captions, people)])
    words = CountVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False)
    bags = words.fit_transform([*captions, *people]).astype(np.float64)
    bag_NW, bag_of_people_NW = bags[:count], bags[count:]
    facts_MF = np.concatenate([facts_NF, facts_of_people_NF])
    (by_words_2N, by_all_2N), telling = _told_apart([*captions, *people], facts_MF, names, seed)
    # what is measured with weights of the pairs, and the most that it can be
    measures: dict[str, tuple[Callable[[NDArray[np.float64]], float], float]] = {
        "length distance": (lambda of_N: stats.wasserstein_distance(*length_2N, of_N, of_N), np.inf),
        "divergence": (lambda of_N: _divergence(of_N @ bag_NW, of_N @ bag_of_people_NW), 1.0),
        "AUC of words": (lambda of_N: _auc(by_words_2N, of_N), 1.0),
        "AUC": (lambda of_N: _auc(by_all_2N, of_N), 1.0),
    }
    draw = np.random.default_rng(seed)
    weights_RN = draw.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(np.float64)
    found: dict[str, Any] = {"words": float(length_2N[0].mean())}
    for name, (measure, most) in measures.items():
        seen = measure(np.ones(count))
        resampled_R = np.array([measure(weight_N) for weight_N in weights_RN])
        ends = (resampled_R.mean(), *np.quantile(resampled_R, [0.975, 0.025]))
        value, low, high = (float(np.clip(2 * seen - end, 0, most)) for end in ends)
        found |= {name: value, f"{name} interval": [low, high]}
    return found | telling


def _divergence(count_W: NDArray[np.float64], other_W: NDArray[np.float64]) -> float:
    """Jensen–Shannon divergence of two frequencies of W words, in bits; the largest if one of them has no words."""
    if not (count_W.any() and other_W.any()):
        return 1.0
    first_W, second_W = count_W / count_W.sum(), other_W / other_W.sum()
    both_W = first_W + second_W
    return float((stats.entropy(first_W, both_W, 2) + stats.entropy(second_W, both_W, 2)) / 2)


def _auc(score_2N: NDArray[np.float64], weight_N: NDArray[np.float64]) -> float:
    """Share of couples of a caption of the first row and one of the second whose scores have the right order."""
    is_first = np.repeat([1, 0], score_2N.shape[1])
    return float(roc_auc_score(is_first, score_2N.ravel(), sample_weight=np.tile(weight_N, 2)))


def _told_apart(
    texts: Sequence[str], facts_MF: NDArray[np.float64], names: Sequence[str], seed: int
) -> tuple[list[NDArray[np.float64]], dict[str, list[str]]]:
    """Held-out scores 2×N of two kinds of captions, the first half of M = 2N and the others, higher for the first: by
    words, and by words and facts; and what tells each.
    """
    count = len(texts) // 2
    fold_M = np.tile(np.random.default_rng(seed).permutation(count) % FOLDS, 2)
    is_first_M = np.repeat([1, 0], count)
    score_2M = np.empty((2, 2 * count))
    for fold in range(FOLDS):
        known_M = fold_M != fold
        bag_MW, scaled_MF, _ = _inputs(texts, facts_MF, known_M)
        for score_M, inputs_MW in zip(score_2M, (bag_MW, _joined(bag_MW, scaled_MF)), strict=True):
            model = LogisticRegression(max_iter=1000).fit(inputs_MW[known_M], is_first_M[known_M])
            score_M[~known_M] = model.decision_function(inputs_MW[~known_M])
    bag_MW, scaled_MF, terms = _inputs(texts, facts_MF, np.ones(2 * count, bool))
    inputs_MW = _joined(bag_MW, scaled_MF)
    model = LogisticRegression(max_iter=1000).fit(inputs_MW, is_first_M)
    size_W = np.sqrt(inputs_MW.multiply(inputs_MW).mean(0)).A1  # how far an input moves a score
    order_W = np.argsort(model.coef_[0] * size_W, kind="stable")
    terms = [*terms, *names]
    telling = {
        "tell it": [terms[number] for number in order_W[::-1][:TELLING]],
        "tell people": [terms[number] for number in order_W[:TELLING]],
    }
    return [score_M.reshape(2, count) for score_M in score_2M], telling


def _inputs(
    texts: Sequence[str], facts_MF: NDArray[np.float64], known_M: NDArray[np.bool_]
) -> tuple[sparse.csr_matrix, NDArray[np.float64], list[str]]:
    """Words and bigrams, and facts, of M captions, scaled as those known, which also say which words there are."""
    terms = TfidfVectorizer(
        tokenizer=tokenize, token_pattern=None, lowercase=False, ngram_range=(1, 2), sublinear_tf=True
    ).fit([text for text, known in zip(texts, known_M, strict=True) if known])
    scaled_MF = StandardScaler().fit(facts_MF[known_M]).transform(facts_MF)
    return terms.transform(texts), scaled_MF, list(terms.get_feature_names_out())


def _joined(bag_MW: sparse.csr_matrix, facts_MF: NDArray[np.float64]) -> sparse.csr_matrix:
    return sparse.csr_matrix(sparse.hstack([bag_MW, facts_MF]))
