"""Compare scores of title similarity by recall@1, @5 and @50 of the released reference products.

python benchmarks/reference_scores.py data/fashioniq
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

from fashioniq.data.catalog import Catalog
from fashioniq.data.words import tokenize


def tfidf(titles: list[str], tokenizer=tokenize, **options) -> csr_matrix:
    vectorizer = TfidfVectorizer(
        tokenizer=tokenizer, token_pattern=None, lowercase=False, **{"norm": None, **options}
    )
    return vectorizer.fit_transform(titles)


def words_of_sklearn(title: str) -> list[str]:
    return re.findall(r"(?u)\b\w\w+\b", title.lower())


def over_shared_words(weights: csr_matrix) -> np.ndarray:
    return (weights @ (weights > 0).T.astype(float)).toarray()


def scores(titles: list[str]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and matrix of each score, with targets as rows and candidates as columns."""
    plain, unit = tfidf(titles), tfidf(titles, norm="l2")
    yield "sum of the target's weights (the command's)", over_shared_words(plain)
    yield "… each word counted once", over_shared_words(tfidf(titles, binary=True))
    yield "… sublinear counts", over_shared_words(tfidf(titles, sublinear_tf=True))
    yield "… without English stop words", over_shared_words(tfidf(titles, stop_words="english"))
    yield "… without words of a fifth of the titles", over_shared_words(tfidf(titles, max_df=0.2))
    yield "product of both weights", (plain @ plain.T).toarray()
    yield "cosine", (unit @ unit.T).toarray()
    sklearns = tfidf(titles, words_of_sklearn, norm="l2")
    yield "cosine, scikit-learn's own words", (sklearns @ sklearns.T).toarray()


def ranks(score_NN: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Return the 0-based rank of each pair's candidate; ties go by id, candidates without a shared word
    rank last."""
    np.fill_diagonal(score_NN, -1)
    own = [(score_NN[target], candidate) for target, candidate in pairs]
    return np.array(
        [(row > row[c]).sum() + (row[:c] == row[c]).sum() if row[c] > 0 else 10**9 for row, c in own]
    )


def main(root: Path) -> None:
    for category in ("dresses", "shirts", "tops"):
        catalog = Catalog(root, category)
        ids = sorted(set(catalog.ids("train")) & set(catalog.titles))
        place = {name: number for number, name in enumerate(ids)}
        captioned = [(pair.target, pair.candidate) for pair in catalog.pairs("train")]
        pairs = [
            (place[target], place[candidate])
            for target, candidate in captioned
            if target in place and candidate in place
        ]
        print(f"{category} train: {len(pairs)} pairs among {len(ids)} titles")
        for name, score_NN in scores([catalog.titles[name] for name in ids]):
            place_P = ranks(score_NN, pairs)
            print(f"  {name:45}", "".join(f"{100 * np.mean(place_P < count):7.1f}" for count in (1, 5, 50)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
