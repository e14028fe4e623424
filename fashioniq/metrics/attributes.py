"""Measures of attribute prediction.

Labels are 1 (positive), 0 (negative) and -1 (unknown, ignored). Scores are any numbers; higher means more
likely.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

TOP = 8  # words per picture in the paper


def average_precision(scores_NA: np.ndarray, labels_NA: np.ndarray) -> np.ndarray:
    """Average precision of each attribute on its known labels, in percent; NaN without positive labels."""
    precision_A = np.full(labels_NA.shape[1], np.nan)
    for column in np.flatnonzero((labels_NA > 0).any(0)):
        known_N = labels_NA[:, column] >= 0
        precision_A[column] = 100 * average_precision_score(
            labels_NA[known_N, column], scores_NA[known_N, column]
        )
    return precision_A


def prevalence(labels_NA: np.ndarray) -> np.ndarray:
    """Share of positives among the known labels of each attribute, in percent; NaN without known labels.

    It is the average precision of a random ranking.
    """
    known_A = (labels_NA >= 0).sum(0)
    return np.divide(
        100.0 * (labels_NA > 0).sum(0), known_A, out=np.full(len(known_A), np.nan), where=known_A > 0
    )


def recall_at(scores_NA: np.ndarray, labels_NA: np.ndarray, k: int = TOP) -> float:
    """Share of all positive labels that are among the k highest scores of their picture, in percent."""
    k = min(k, scores_NA.shape[1])
    best_NK = np.argpartition(-scores_NA, k - 1, axis=1)[:, :k]
    found = (np.take_along_axis(labels_NA, best_NK, axis=1) > 0).sum()
    return float(100 * found / max(1, (labels_NA > 0).sum()))


def mean_by_type(values_A: np.ndarray, types: Sequence[str]) -> dict[str, float]:
    """Mean over the attributes of each type. NaN values are ignored, and types without others are omitted."""
    pairs = [(kind, value) for kind, value in zip(types, values_A, strict=True) if not np.isnan(value)]
    kinds = dict.fromkeys(kind for kind, _ in pairs)
    return {kind: float(np.mean([value for other, value in pairs if other == kind])) for kind in kinds}


def summary(
    words: Sequence[str],
    types: Sequence[str],
    train_A: Sequence[int],
    scores_NA: np.ndarray,
    labels_NA: np.ndarray,
) -> dict[str, Any]:
    """Compute all validation measures: overall, by type and by word (None without positive val photos).

    `train_A` is the number of positive training photos of each word.
    """
    precision_A, chance_A = average_precision(scores_NA, labels_NA), prevalence(labels_NA)
    chance_A[np.isnan(precision_A)] = np.nan  # average chance over the same words as precision
    precisions, chances = mean_by_type(precision_A, types), mean_by_type(chance_A, types)
    counted = [kind for kind, value in zip(types, precision_A, strict=True) if not np.isnan(value)]
    return {
        "mAP": float(np.nanmean(precision_A)),
        "chance": float(np.nanmean(chance_A)),
        f"recall@{TOP}": recall_at(scores_NA, labels_NA),
        "types": [
            {"type": kind, "words": counted.count(kind), "mAP": precisions[kind], "chance": chances[kind]}
            for kind in sorted(precisions)
        ],
        "words": [
            {
                "word": word,
                "type": kind,
                "train": int(train),
                "val": int(val),
                "AP": precision,
                "chance": chance,
            }
            for word, kind, train, val, precision, chance in zip(
                words,
                types,
                train_A,
                (labels_NA > 0).sum(0),
                _or_none(precision_A),
                _or_none(chance_A),
                strict=True,
            )
        ],
    }


def _or_none(values_A: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values_A.tolist()]
