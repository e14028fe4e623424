"""Reference pairs: for each target, the products whose titles share the heaviest words with its own.

The words of a target are looked up from the rarest on. Once the best products found outweigh all that the frequent words could add, a
product that shares frequent words alone cannot be among them: these, which nearly all titles have, are only added to the few that are
near. What comes out is exactly what comparing each two titles would give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fashioniq.data.words import tokenize

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BLOCK = 10_000_000  # shared words counted at a time: bounds the memory whatever the size of the catalog
_FREQUENT = (0.001, 0.004, 0.016, 0.064, 1.0)  # words of more titles than this share are frequent; the next where that does not decide
_GRAIN = 2.0**20  # weights are multiples of 1 / _GRAIN, so that sums are exact: equal ones are ties in whatever order they are added


def reference_pairs(titles: Sequence[str], per_target: int = 1) -> np.ndarray:
    """For each title, the `per_target` others with the largest sum of its TF-IDF weights over the shared words, as positions (N×K).

    Never itself; ties go to the earlier position; -1 where fewer share a word. Source: Fashion IQ, section 3.
    """
    references = np.full((len(titles), per_target), -1, dtype=np.int64)
    if not any(tokenize(title) for title in titles):
        return references
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import, and an import begins with other work

    vectorizer = TfidfVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False, norm=None)
    weights = vectorizer.fit_transform(titles)
    weights.data = np.round(weights.data * _GRAIN) / _GRAIN
    rows = np.arange(len(titles))
    for share in _FREQUENT:
        search = _Search(weights, max(share * len(titles), 1), per_target)
        rows = np.array([row for block in search.blocks(rows) for row in search.fill(references, block)], dtype=np.int64)
    return references


class _Search:
    """References among the products that share a word of at most `limit` titles, where it is certain that no other is nearer."""

    def __init__(self, weights: csr_matrix, limit: float, per_target: int) -> None:
        from scipy.sparse import csr_matrix

        titles_with = weights.getnnz(axis=0)
        rare = titles_with <= limit
        has_word = csr_matrix((np.ones(weights.nnz, dtype=bool), weights.indices, weights.indptr), weights.shape)
        self.per_target = per_target
        self.rare, self.frequent = weights[:, rare], weights[:, ~rare]
        self.has_rare = has_word[:, rare].T.tocsr().astype(weights.dtype)  # word × title
        self.has_frequent = has_word[:, ~rare].T.toarray()
        self.most_of_frequent = np.asarray(self.frequent.sum(axis=1)).ravel()
        self.cost = has_word[:, rare] @ titles_with[rare]

    def blocks(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """The rows in parts of about BLOCK shared words."""
        part = np.cumsum(self.cost[rows]) // BLOCK
        yield from np.split(rows, np.flatnonzero(np.diff(part)) + 1)

    def fill(self, references: np.ndarray, rows: np.ndarray) -> Iterator[int]:
        """Write the references of the rows where they are certain; the rows where they are not."""
        shared = (self.rare[rows] @ self.has_rare).tocsr()
        for place, row in enumerate(rows.tolist()):
            span = slice(shared.indptr[place], shared.indptr[place + 1])
            best = self._best(row, shared.indices[span], shared.data[span])
            if best is None:
                yield row
            else:
                references[row, : len(best)] = best

    def _best(self, row: int, items: np.ndarray, sums: np.ndarray) -> np.ndarray | None:
        """The nearest of the items by their sums over rare words; None where an item that shares none may be as near."""
        other = items != row
        items, sums, to_come = items[other], sums[other], self.most_of_frequent[row]
        if len(items) > self.per_target:
            near = sums + to_come >= _least_of_best(sums, self.per_target)
            items, sums = items[near], sums[near]
        span = slice(self.frequent.indptr[row], self.frequent.indptr[row + 1])
        for word, weight in zip(self.frequent.indices[span], self.frequent.data[span], strict=True):
            sums += weight * self.has_frequent[word, items]
        if to_come and (len(items) < self.per_target or _least_of_best(sums, self.per_target) <= to_come):
            return None
        return items[np.lexsort((items, -sums))[: self.per_target]]


def _least_of_best(sums: np.ndarray, count: int) -> float:
    return float(np.partition(sums, -count)[-count])
