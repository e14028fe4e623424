"""Measures of attribute prediction. Labels are 1 (yes), 0 (no) and -1 (unknown, never counted); scores are any numbers, more is likelier."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

TOP = 8  # words that the paper takes of a picture


def average_precision(scores_NA: np.ndarray, labels_NA: np.ndarray) -> np.ndarray:
    """Per attribute scikit-learn's average precision over its known labels, in percent: A, NaN where no label is yes."""
    precision_A = np.full(labels_NA.shape[1], np.nan)
    for column in np.flatnonzero((labels_NA > 0).any(0)):
        known_N = labels_NA[:, column] >= 0
        precision_A[column] = 100 * average_precision_score(labels_NA[known_N, column], scores_NA[known_N, column])
    return precision_A


def prevalence(labels_NA: np.ndarray) -> np.ndarray:
    """Per attribute the share of yes among the known labels, in percent: the average precision of chance. NaN where none is known."""
    known_A = (labels_NA >= 0).sum(0)
    return np.divide(100.0 * (labels_NA > 0).sum(0), known_A, out=np.full(len(known_A), np.nan), where=known_A > 0)


def recall_at(scores_NA: np.ndarray, labels_NA: np.ndarray, k: int = TOP) -> float:
    """The share of all yes labels that are among the k highest scores of their picture, in percent."""
    k = min(k, scores_NA.shape[1])
    best_NK = np.argpartition(-scores_NA, k - 1, axis=1)[:, :k]
    found = (np.take_along_axis(labels_NA, best_NK, axis=1) > 0).sum()
    return float(100 * found / max(1, (labels_NA > 0).sum()))


def mean_by_type(values_A: np.ndarray, types: Sequence[str]) -> dict[str, float]:
    """The mean of each type's attributes; those that are NaN are left out, and types that have no other."""
    there = [(kind, value) for kind, value in zip(types, values_A, strict=True) if not np.isnan(value)]
    return {kind: float(np.mean([value for of, value in there if of == kind])) for kind in dict.fromkeys(kind for kind, _ in there)}


def summary(words: Sequence[str], types: Sequence[str], train_A: Sequence[int], scores_NA: np.ndarray, labels_NA: np.ndarray) -> dict[str, Any]:
    """All figures of a validation: of all words, of each type, of each word (None: no val photo carries it).

    `train_A` counts the training photos that carry a word."""
    precision_A, chance_A = average_precision(scores_NA, labels_NA), prevalence(labels_NA)
    chance_A[np.isnan(precision_A)] = np.nan  # of the same words as the precision
    precisions, chances = mean_by_type(precision_A, types), mean_by_type(chance_A, types)
    counted = [kind for kind, value in zip(types, precision_A, strict=True) if not np.isnan(value)]
    return {
        "mAP": float(np.nanmean(precision_A)),
        "chance": float(np.nanmean(chance_A)),
        f"recall@{TOP}": recall_at(scores_NA, labels_NA),
        "types": [
            {"type": kind, "words": counted.count(kind), "mAP": precisions[kind], "chance": chances[kind]} for kind in sorted(precisions)
        ],
        "words": [
            {"word": word, "type": kind, "train": int(train), "val": int(val), "AP": precision, "chance": chance}
            for word, kind, train, val, precision, chance in zip(
                words, types, train_A, (labels_NA > 0).sum(0), _or_none(precision_A), _or_none(chance_A), strict=True
            )
        ],
    }


def _or_none(values_A: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values_A.tolist()]
