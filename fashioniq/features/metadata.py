"""Vectors for products without pictures: TF-IDF of title and attribute words, reduced by SVD.

They allow experiments with real captions when the pictures are not available. The results are not comparable
to results with pictures.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize

from fashioniq.data.catalog import Catalog
from fashioniq.data.words import tokenize
from fashioniq.files import UserError


def metadata_words(catalog: Catalog, name: str) -> list[str]:
    """Words in the title and attribute labels of a product."""
    labels = [word for words in catalog.labels.get(name, []) for word in words]
    return tokenize(" ".join([catalog.titles.get(name, ""), *labels]))


def words_fingerprint(catalog: Catalog, ids: Sequence[str]) -> str:
    """Hash of the words of products and of the ids in train: 16 hexadecimal digits."""
    digest = hashlib.sha256("\n".join(catalog.ids("train")).encode())
    for name in ids:
        digest.update(" ".join([name, *metadata_words(catalog, name), "\n"]).encode())
    return digest.hexdigest()[:16]


def metadata_vectors(
    catalog: Catalog, ids: Sequence[str], dimensions: int = 256, seed: int = 0
) -> tuple[list[str], np.ndarray]:
    """Ids with words that occur in train, and their vectors: N×D, float32, unit length.

    Only words of at least 3 products in train are used. D is `dimensions`, or less if train has fewer words.
    Raises UserError if train has too few words.
    """
    vectorizer = TfidfVectorizer(analyzer=list, min_df=3, sublinear_tf=True, dtype=np.float32)
    train = [words for name in catalog.ids("train") if (words := metadata_words(catalog, name))]
    try:
        train_NW = vectorizer.fit_transform(train)
    except ValueError:  # no words
        train_NW = None
    if train_NW is None or min(train_NW.shape) < 2:
        raise UserError(
            f"the train split of {catalog.category} has {len(train)} products with words "
            "in titles/ or attributes/, too few for metadata features: "
            "at least two words must occur in three products"
        )
    svd = TruncatedSVD(min(dimensions, min(train_NW.shape) - 1), random_state=seed).fit(train_NW)
    weights_NW = vectorizer.transform([metadata_words(catalog, name) for name in ids])
    vectors_ND = svd.transform(weights_NW).astype(np.float32)
    known_N = weights_NW.getnnz(axis=1) > 0
    return [name for name, known in zip(ids, known_N, strict=True) if known], normalize(vectors_ND[known_N])
