"""Labels of the products of a gallery, in arrays, and which products have them."""

from array import array
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

LIKELY = 0.5  # from here on, a product counts as having what a wish names
_BOUND = 3.0  # minus the logarithm of a probability that is no evidence, 0.05
_SPARSE = 16  # sets of at most one in so many products are stored as positions


class Seen(Protocol):
    """Labels of the products of a gallery by their vectors."""

    def probability(self, label: str) -> np.ndarray | None:
        """Probability of a label for each product, N; None for a label that was not learned."""
        ...

    def likely(self, item: int) -> list[str]:
        """Labels that a product probably has."""
        ...


class Having(NamedTuple):
    """How far each product has something: those at `item_K` have it, or N values from 0 to 1, or a mask N."""

    item_K: np.ndarray | None
    value_N: np.ndarray | None

    @classmethod
    def of(cls, item_K: np.ndarray, size: int) -> "Having":
        """Having of the products at these positions, which are in ascending order."""
        if _SPARSE * len(item_K) <= size:
            return cls(item_K, None)
        mask_N = np.zeros(size, bool)
        mask_N[item_K] = True
        return cls(None, mask_N)

    def add(self, score_N: np.ndarray, weight: float) -> None:
        """Add the weighted values to the score of each product."""
        if self.item_K is not None:
            score_N[self.item_K] += np.float32(weight)
        elif self.value_N is not None:
            score_N += np.float32(weight) * self.value_N

    def at(self, item: int) -> float:
        """Value of one product."""
        if self.value_N is not None:
            return float(self.value_N[item])
        assert self.item_K is not None, "one of them is there"
        place = int(np.searchsorted(self.item_K, item))
        return float(place < len(self.item_K) and self.item_K[place] == item)

    def keep(self, mask_N: np.ndarray, least: float, denied: bool) -> None:
        """Clear the mask of the products that have it less than `least`, or, if it is denied, at least as much."""
        if self.value_N is not None:
            has_N = self.value_N if self.value_N.dtype == bool else self.value_N >= least
            mask_N &= ~has_N if denied else has_N
        elif denied:
            mask_N[self.item_K] = False
        else:
            kept = mask_N[self.item_K]
            mask_N[:] = False
            mask_N[self.item_K] = kept


class ProductLabels:
    """Labels of N products; a product may have none that are known."""

    def __init__(self, labels: Iterable[Collection[str] | None]) -> None:
        number: dict[str, int] = {}
        flat, ends, unknown = array("i"), array("q", [0]), array("b")
        for some in labels:
            flat.extend(number.setdefault(label, len(number)) for label in some or ())
            ends.append(len(flat))
            unknown.append(some is None)
        self._names = list(number)
        self._flat_P, self._end_N = np.frombuffer(flat, np.int32), np.frombuffer(ends, np.int64)
        self.unknown_N = np.frombuffer(unknown, np.int8).astype(bool)
        product_P = np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self._end_N))
        product_P = product_P[np.argsort(self._flat_P, kind="stable")]
        counts = np.bincount(self._flat_P, minlength=len(number))
        parts = np.split(product_P, np.cumsum(counts)[:-1])
        self._positions: Mapping[str, np.ndarray] = dict(zip(self._names, parts, strict=False))

    def __len__(self) -> int:
        return len(self._end_N) - 1

    @property
    def names(self) -> Collection[str]:
        """All labels."""
        return self._positions.keys()

    def of(self, item: int) -> frozenset[str] | None:
        """Labels of a product, None if they are unknown."""
        if self.unknown_N[item]:
            return None
        return frozenset(self._names[one] for one in self._flat_P[self._end_N[item] : self._end_N[item + 1]])

    def having(self, labels: Iterable[str]) -> np.ndarray:
        """Positions of the products with any of these labels, ascending."""
        found = [self._positions[label] for label in labels if label in self._positions]
        if len(found) == 1:
            return found[0]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, np.int32)


def kinds_of(labels: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Labels that are kinds of another one, because they end with it: smart casual is casual."""
    found: dict[str, set[str]] = {}
    for label in labels:
        words = label.split()
        for start in range(1, len(words)):
            found.setdefault(" ".join(words[start:]), set()).add(label)
    return {general: frozenset(special) for general, special in found.items() if general in labels}


def evidence(chance_N: np.ndarray | np.float32, denied: bool) -> np.ndarray:
    """How far a probability makes a product meet a wish, or break a denial, from 0 to 1.

    Linear in the logarithm of the probability that the wish is met, or the denial is: so the sum over wishes orders
    products by the probability that all of them are met.
    """
    met_N = 1 + np.log((1 - chance_N if denied else chance_N).clip(1e-4)) / _BOUND
    return (1 - met_N if denied else met_N).clip(0, 1)


LEAST_EVIDENCE = {  # evidence of what is LIKELY
    denied: float(evidence(np.float32(LIKELY), denied)) for denied in (False, True)
}
