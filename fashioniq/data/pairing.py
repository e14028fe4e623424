"""Reference pairs: for each target, the product whose title shares the heaviest words with it."""

from collections.abc import Sequence

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from fashioniq.data.words import tokenize

BLOCK = 1024  # targets scored at a time: bounds the memory whatever the size of the catalog


def reference_pairs(titles: Sequence[str], per_target: int = 1) -> np.ndarray:
    """For each title, the `per_target` others with the largest sum of TF-IDF weights of shared words, as positions (N×K).

    Never itself; ties go to the earlier position; -1 where fewer share a word. Source: Fashion IQ, section 3.
    """
    vectorizer = TfidfVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False, norm=None, dtype=np.float32)
    references = np.full((len(titles), per_target), -1, dtype=np.int64)
    if not any(tokenize(title) for title in titles):
        return references
    weights = vectorizer.fit_transform(titles)
    has_word = weights.copy()
    has_word.data[:] = 1
    has_word_by_word = has_word.T.tocsr()
    for start in range(0, len(titles), BLOCK):
        shared = (weights[start : start + BLOCK] @ has_word_by_word).tocsr()
        for row in range(shared.shape[0]):
            items = shared.indices[shared.indptr[row] : shared.indptr[row + 1]]
            sums = shared.data[shared.indptr[row] : shared.indptr[row + 1]]
            other = items != start + row
            items, sums = items[other], sums[other]
            best = np.lexsort((items, -sums))[:per_target]
            references[start + row, : len(best)] = items[best]
    return references
