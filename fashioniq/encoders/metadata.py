"""Vectors of the words of titles and labels: TF-IDF, reduced by SVD.

They allow experiments with real captions when the pictures are not available. The results are not comparable
to results with pictures.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import normalize
from torch import Tensor

from fashioniq.data.catalog import Catalog, text_of
from fashioniq.data.parts import PartInputs
from fashioniq.data.words import tokenize
from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import Encoder
from fashioniq.files import UserError

DIMENSIONS = 512  # or less if train has fewer words
OFTEN = 3  # products of train that a word must occur in


class Metadata(Encoder):
    """Encoder of the words of a catalog, fitted on its train split; the vector of a text without such words is zero.

    Raises UserError if train has too few words.
    """

    def __init__(self, catalog: Catalog, dimensions: int = DIMENSIONS) -> None:
        self._vectorizer = TfidfVectorizer(analyzer=list, min_df=OFTEN, sublinear_tf=True, dtype=np.float32)
        train = [words for name in catalog.ids("train") if (words := tokenize(text_of(catalog, name)))]
        try:
            train_NW = self._vectorizer.fit_transform(train)
        except ValueError:  # no words
            train_NW = None
        if train_NW is None or min(train_NW.shape) < 2:
            raise UserError(
                f"the train split of {catalog.category} has {len(train)} products with words "
                "in titles/ or attributes/, too few for metadata features: "
                "at least two words must occur in three products"
            )
        self.size = min(dimensions, min(train_NW.shape) - 1)
        self._svd = TruncatedSVD(self.size, random_state=0).fit(train_NW)
        self.identity = Identity(
            encoder="metadata",
            weights=words_fingerprint(catalog, catalog.all_ids()),
            image_size=None,
            dimensions=self.size,
        )

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts, N×D."""
        if not texts:
            return torch.empty(0, self.size)
        weights_NW = self._vectorizer.transform([tokenize(text) for text in texts])
        vectors_ND = normalize(self._svd.transform(weights_NW).astype(np.float32))
        vectors_ND[weights_NW.getnnz(axis=1) == 0] = 0
        return torch.from_numpy(vectors_ND)


def words_fingerprint(catalog: Catalog, ids: Sequence[str]) -> str:
    """Hash of the words of products and of the ids in train: 16 hexadecimal digits."""
    digest = hashlib.sha256("\n".join(catalog.ids("train")).encode())
    for name in ids:
        digest.update(" ".join([name, *tokenize(text_of(catalog, name)), "\n"]).encode())
    return digest.hexdigest()[:16]


def of_catalog(inputs: PartInputs) -> Metadata:
    """The encoder of a catalog. Raises UserError without one."""
    if inputs.catalog is None:
        raise UserError("--encoder metadata is fitted on a catalog; give --category (and --data)")
    return Metadata(inputs.catalog)
