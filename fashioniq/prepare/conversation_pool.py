"""Products that conversations are made about, with their vectors: partners, and the product nearest to a text."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from fashioniq.data.words import tokenize
from fashioniq.data.writers import DescribedProduct

NEIGHBORS = 10  # nearest pictures from which a reference image's partner is drawn
LEAST_SIMILAR = 0.95  # quantile of the cosine of random pairs that a partner must reach
MOST_SIMILAR = 0.999  # quantile of the cosine of nearest neighbors above which a partner counts as a copy
_RANDOM = 2000  # products for the quantiles of random pairs and of random nearest neighbors
Embed = Callable[[str], np.ndarray]  # text → vector in the space of the pictures, D, of unit length


class Pool:
    """Products of a category and split that are searched, with their image vectors N×D of unit length.

    `embed` maps a text to the space of the vectors; without it, texts are compared with the captions of the products
    by the TF-IDF weights of their words.
    """

    def __init__(
        self, products: Sequence[DescribedProduct], vectors_ND: np.ndarray, embed: Embed | None = None
    ) -> None:
        self.products = list(products)
        self._place_of = {product.id: place for place, product in enumerate(self.products)}
        self._vectors_ND = vectors_ND
        self._cosines = (
            (lambda text: vectors_ND @ embed(text))
            if embed
            else _by_words([product.caption for product in self.products])
        )
        self._least, self._most = self._thresholds()

    def neighbors(self, name: str, dropped: Counter[str]) -> list[tuple[DescribedProduct, float, int]]:
        """Nearest pictures that are neither copies nor too different, with cosine and rank from 1."""
        place = self._place_of[name]
        cos_N = self._vectors_ND @ self._vectors_ND[place]
        cos_N[place] = -np.inf
        found = []
        nearest = np.argsort(-cos_N, kind="stable")[: min(NEIGHBORS, len(cos_N) - 1)]
        for rank, other in enumerate(nearest.tolist(), 1):
            if cos_N[other] < self._least:
                dropped["neighbors: too different"] += 1
            elif cos_N[other] > self._most:
                dropped["neighbors: copies"] += 1
            else:
                found.append((self.products[other], round(float(cos_N[other]), 4), rank))
        return found

    def nearest(self, text: str, name: str) -> tuple[DescribedProduct, float, float]:
        """The product nearest to a text besides `name`, its cosine, and the share of products above `name`."""
        cos_N = self._cosines(text)
        place = self._place_of[name]
        above = float((cos_N > cos_N[place]).mean())
        cos_N[place] = -np.inf
        best = int(cos_N.argmax())
        return self.products[best], round(float(cos_N[best]), 4), above

    def _thresholds(self) -> tuple[float, float]:
        """Cosines at the quantiles: of random pairs, and of random products and their nearest neighbors."""
        chance = np.random.default_rng(0)
        rows, others = chance.integers(0, len(self.products), (2, _RANDOM))
        pairs = (self._vectors_ND[rows] * self._vectors_ND[others]).sum(1)[rows != others]
        nearest = []
        for place in np.unique(rows):  # one by one, to bound the memory for catalogs of any size
            cos_N = self._vectors_ND @ self._vectors_ND[place]
            cos_N[place] = -np.inf
            nearest.append(cos_N.max())
        return (
            float(np.quantile(pairs, LEAST_SIMILAR)),
            float(np.quantile(nearest, MOST_SIMILAR)),
        )


def _by_words(captions: Sequence[str]) -> Callable[[str], np.ndarray]:
    """Similarity of a text to each caption."""
    from sklearn.feature_extraction.text import TfidfVectorizer  # slow to import

    vectorizer = TfidfVectorizer(tokenizer=tokenize, token_pattern=None, lowercase=False)
    weights_NV = vectorizer.fit_transform(captions)
    return lambda text: (weights_NV @ vectorizer.transform([text]).T).toarray().reshape(-1)
