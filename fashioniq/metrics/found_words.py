"""Which of the words that a picture was generated for are found in it, by an attribute predictor.

Words that answer the same question are a family, such as colors or necklines. Of a picture with n words of a family,
a word is found if it is among the n most probable words of the family. A word that is alone in its family, such
as "belt", is found if its logit reaches a threshold, which is fitted on pictures with known words.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fashioniq.data.attributes import TYPES
from fashioniq.data.topics import COLOUR, question_about


def families(words: Sequence[str], types: Sequence[str]) -> list[str]:
    """Family of each word, named by the question that its words answer."""
    return [question_about(word, TYPES[kind]) for word, kind in zip(words, types, strict=True)]


def fit_thresholds(scores_NA: np.ndarray, labels_NA: np.ndarray) -> np.ndarray:
    """Threshold of each word with the best mean of the shares of pictures with it above and without it below.

    A word that no picture, or every picture, has gets an infinite threshold.
    """
    thresholds_A = np.full(scores_NA.shape[1], np.inf)
    for column in range(scores_NA.shape[1]):
        order_N = np.argsort(-scores_NA[:, column], kind="stable")
        has_N = labels_NA[order_N, column] > 0
        if 0 < has_N.sum() < len(has_N):
            gain_N = np.cumsum(has_N) / has_N.sum() - np.cumsum(~has_N) / (~has_N).sum()
            thresholds_A[column] = scores_NA[order_N[int(gain_N.argmax())], column]
    return thresholds_A


def found_words(
    scores_NA: np.ndarray, wanted_NA: np.ndarray, family_A: Sequence[str], thresholds_A: np.ndarray
) -> np.ndarray:
    """Whether each wanted word is found in its picture: bool, N×A, False for words that are not wanted."""
    found_NA = np.zeros(wanted_NA.shape, dtype=bool)
    for family in dict.fromkeys(family_A):
        columns = np.array([place for place, other in enumerate(family_A) if other == family])
        scores_NF, wanted_NF = scores_NA[:, columns], wanted_NA[:, columns] > 0
        if len(columns) == 1:
            found_NA[:, columns] = wanted_NF & (scores_NF >= thresholds_A[columns])
        else:
            place_NF = np.argsort(np.argsort(-scores_NF, axis=1, kind="stable"), axis=1)
            found_NA[:, columns] = wanted_NF & (place_NF < wanted_NF.sum(1, keepdims=True))
    return found_NA


def found_shares(
    scores_NA: np.ndarray, wanted_NA: np.ndarray, family_A: Sequence[str], thresholds_A: np.ndarray
) -> dict[str, Any]:
    """Shares of the wanted words that are found, in percent: colors, all others, and by family.

    A share is None where no word is wanted.
    """
    found_A = found_words(scores_NA, wanted_NA, family_A, thresholds_A).sum(0)
    wanted_A, is_color_A = (wanted_NA > 0).sum(0), np.array([family == COLOUR for family in family_A])

    def share(which_A: np.ndarray) -> float | None:
        wanted = int(wanted_A[which_A].sum())
        return 100 * float(found_A[which_A].sum()) / wanted if wanted else None

    kinds = dict.fromkeys(family_A)
    of_family = {family: np.array([other == family for other in family_A]) for family in kinds}
    return {
        "colors": share(is_color_A),
        "others": share(~is_color_A),
        "families": {
            family: {"words": int(wanted_A[which_A].sum()), "found": share(which_A)}
            for family, which_A in of_family.items()
            if wanted_A[which_A].sum()
        },
    }
