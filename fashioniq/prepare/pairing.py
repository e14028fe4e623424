"""Reference pairs: for each target, the products with the largest TF-IDF weight of shared title words.

The search begins with the rare words of a target. A product that shares only frequent words cannot be among
the best once their sums exceed the total weight of the target's frequent words. Frequent words, which nearly
all titles have, are therefore added only for the few remaining candidates. The result is identical to
comparing all pairs of titles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import split_file, title_of
from fashioniq.data.titles import product_rows
from fashioniq.data.words import tokenize
from fashioniq.files import UserError, together, write_json

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BLOCK = 10_000_000  # shared words counted at a time; bounds the memory for catalogs of any size
# Words in more than this share of titles are frequent; the next value is tried for undecided targets.
_FREQUENT = (0.001, 0.004, 0.016, 0.064, 1.0)
# Weights are multiples of 1 / _GRAIN, so that sums are exact and ties do not depend on the order of addition.
_GRAIN = 2.0**20


def reference_pairs(titles: Sequence[str], per_target: int = 1) -> np.ndarray:
    """For each title, the `per_target` others with the largest sum of its TF-IDF weights over shared words.

    Returns positions, N×K. A title is never its own reference; ties go to the earlier position; -1 fills up
    if fewer titles share a word. Source: Fashion IQ, section 3.
    """
    references = np.full((len(titles), per_target), -1, dtype=np.int64)
    if not any(tokenize(title) for title in titles):
        return references
    weights = _tfidf(titles)
    rows = np.arange(len(titles))
    for share in _FREQUENT:
        search = _TitleSearch(weights, max(share * len(titles), 1), per_target)
        rows = np.array(
            [row for block in search.blocks(rows) for row in search.fill(references, block)], dtype=np.int64
        )
    return references


def _tfidf(titles: Sequence[str]) -> csr_matrix:
    """Weights of the words of the titles, N×L: occurrences times 1 + log((1 + N) / (1 + titles with the word))."""
    from scipy.sparse import csr_matrix

    column_of: dict[str, int] = {}
    cells = Counter(
        (row, column_of.setdefault(word, len(column_of)))
        for row, title in enumerate(titles)
        for word in tokenize(title)
    )
    shape = len(titles), len(column_of)
    counts = csr_matrix((np.array([*cells.values()], dtype=float), np.array([*cells]).T), shape)
    counts.sort_indices()
    idf = 1 + np.log((1 + len(titles)) / (1 + counts.getnnz(axis=0)))
    counts.data = np.round(counts.data * idf[counts.indices] * _GRAIN) / _GRAIN
    return counts


class _TitleSearch:
    """Search among products that share a rare word, one of at most `limit` titles."""

    def __init__(self, weights: csr_matrix, limit: float, per_target: int) -> None:
        from scipy.sparse import csr_matrix

        titles_with = weights.getnnz(axis=0)
        rare = titles_with <= limit
        has_word = csr_matrix(
            (np.ones(weights.nnz, dtype=bool), weights.indices, weights.indptr), weights.shape
        )
        self.per_target = per_target
        self.rare, self.frequent = weights[:, rare], weights[:, ~rare]
        self.has_rare = has_word[:, rare].T.tocsr().astype(weights.dtype)  # word × title
        self.has_frequent = has_word[:, ~rare].T.toarray()
        self.most_of_frequent = np.asarray(self.frequent.sum(axis=1)).ravel()
        self.cost = has_word[:, rare] @ titles_with[rare]

    def blocks(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Split the rows into parts with about BLOCK shared words."""
        part = np.cumsum(self.cost[rows]) // BLOCK
        yield from np.split(rows, np.flatnonzero(np.diff(part)) + 1)

    def fill(self, references: np.ndarray, rows: np.ndarray) -> Iterator[int]:
        """Write the references of the rows that can be decided; yield the other rows."""
        shared = (self.rare[rows] @ self.has_rare).tocsr()
        for position, row in enumerate(rows.tolist()):
            span = slice(shared.indptr[position], shared.indptr[position + 1])
            best = self._best(row, shared.indices[span], shared.data[span])
            if best is None:
                yield row
            else:
                references[row, : len(best)] = best

    def _best(self, row: int, items: np.ndarray, sums: np.ndarray) -> np.ndarray | None:
        """The nearest items by their sums over rare words; None if items without one may be as near."""
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


def write_pairs(catalog: Catalog) -> None:
    """Find the references of all splits, then write them to pairs/; files appear only when all are written.

    Raises UserError if a split has fewer than two titles.
    """
    pairs = {}
    for split in SPLITS:
        titles = _titles(catalog, split)
        names, found = list(titles), reference_pairs([*titles.values()])[:, 0].tolist()
        near = {
            target: names[position] for target, position in zip(names, found, strict=True) if position >= 0
        }
        ids = catalog.ids(split)
        pairs[split] = [{"target": target, "candidate": near[target]} for target in ids if target in near]
        alone = len(names) - len(near)
        left_out = f"{len(ids) - len(names):,} products have no title, {alone:,} share no word with another"
        targets = len(names) - alone
        print(f"{catalog.category} {split}: {len(pairs[split]):,} pairs of {targets:,} targets; {left_out}")
    folder = catalog.root / "pairs"
    with together(folder):
        for split, rows in pairs.items():
            write_json(split_file(catalog.root, "pairs", catalog.category, split), rows)
    print(f"pairs are in {folder}")


def _titles(catalog: Catalog, split: str) -> dict[str, str]:
    """Titles of a split, sorted by id so that ties are deterministic."""
    titles = {
        name: title for name, row in sorted(product_rows(catalog, split).items()) if (title := title_of(row))
    }
    if len(titles) < 2:
        raise UserError(
            f"expected at least two titles in the {split} split of {catalog.category}, found {len(titles)}: "
            "add them to titles/"
        )
    return titles
