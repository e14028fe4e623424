"""Facets: how many of the products found have an attribute, a size or a price, recounted for each answer."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappush, heappushpop

import msgspec
import numpy as np

from fashioniq.data.languages import Language
from fashioniq.data.prices import PriceRange

MOST_WORDS = 12  # of a family
FEW = 32  # products are counted one by one if they are at most 1 / FEW of all
BITS = 64  # of a word of the processor


class OfferCounts(msgspec.Struct, frozen=True):
    """Products with each size, in the order of sizes, those in stock, and those in each range of prices."""

    sizes: list[tuple[str, int]]
    in_stock: int
    prices: list[tuple[PriceRange, int]]


class Facets:
    """Attribute words of products, to be counted within any set of them; a million products take milliseconds.

    A few products are counted one by one. Among many, a word that many products have is a set of bits, one for each
    product, any other word a list of positions, and words that cannot be among the most frequent ones are skipped.
    """

    def __init__(
        self,
        ids: Sequence[str],
        labels: Mapping[str, Sequence[Sequence[str]]],
        speech: Language,
        learned: Iterable[tuple[str, str, np.ndarray]] = (),
    ) -> None:
        """`labels` are those of the catalog; `learned` are further ones, with their family, and which products have
        them, N.
        """
        number: dict[str, int] = {}
        families: list[str] = []
        further: dict[int, set[int]] = {}
        for place, (word, family, has_N) in enumerate(learned):
            families.append(family)
            number[word] = place
            for item in np.flatnonzero(has_N).tolist():
                further.setdefault(item, set()).add(place)
        flat, ends = array("i"), array("q", [0])
        for item, name in enumerate(ids):
            seen = further.get(item, set())  # a word can have two types
            for kind, words in enumerate(labels.get(name, ())):
                for word in words:
                    if (index := number.get(word)) is None:
                        index = number[word] = len(number)
                        group = speech.group_of.get(word) or speech.other[kind]
                        families.append(group.family)
                    seen.add(index)
            flat.extend(seen)
            ends.append(len(flat))
        names, given_P = list(number), np.frombuffer(flat, np.int32)
        total_W = np.bincount(given_P, minlength=len(names))
        order_W = np.array(sorted(range(len(names)), key=lambda one: (-total_W[one], names[one])), np.int64)
        self._count, self._end_N = len(ids), np.frombuffer(ends, np.int64)
        self._words = [names[one] for one in order_W]
        self._families = [families[one] for one in order_W]
        self._total_W = total_W[order_W]
        self._of_product_P = np.argsort(order_W).astype(np.int32)[given_P]  # words, product by product
        self._bits_WM, self._positions = self._by_word()
        self._all = self._grouped(self._total_W, len(ids))

    def counts(self, mask_N: np.ndarray) -> dict[str, list[tuple[str, int]]]:
        """The words of each family with their number of products in a mask, the most frequent ones first.

        Words that none or all of these products have are left out.
        """
        size = int(np.count_nonzero(mask_N))
        if size == self._count:
            return self._all
        few = FEW * size <= self._count
        return self._grouped(
            self._counted_by_product(mask_N) if few else self._counted_by_word(mask_N, size), size
        )

    def _by_word(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Bits of the frequent words, which are the first ones, and positions of the products of each other word."""
        product_P = np.repeat(np.arange(self._count), np.diff(self._end_N))
        product_P = product_P[np.argsort(self._of_product_P, kind="stable")]
        positions = np.split(product_P, np.cumsum(self._total_W)[:-1])
        frequent = int((BITS * self._total_W >= self._count).sum())
        bits_WM = np.zeros((frequent, -(-self._count // BITS)), np.uint64)
        for row in range(frequent):
            has_N = np.zeros(self._count, bool)
            has_N[positions[row]] = True
            bits_WM[row] = _packed(has_N)
        return bits_WM, [found.copy() for found in positions[frequent:]]

    def _grouped(self, count_W: np.ndarray, size: int) -> dict[str, list[tuple[str, int]]]:
        found: dict[str, list[tuple[str, int]]] = {}
        for index in np.argsort(-count_W, kind="stable"):
            count = int(count_W[index])
            if count == 0:
                break
            family = found.setdefault(self._families[index], [])
            if count < size and len(family) < MOST_WORDS:
                family.append((self._words[index], count))
        return {family: words for family, words in found.items() if words}

    def _counted_by_product(self, mask_N: np.ndarray) -> np.ndarray:
        chosen_K = np.flatnonzero(mask_N)
        begin_K, length_K = self._end_N[chosen_K], np.diff(self._end_N)[chosen_K]
        within_P = np.arange(length_K.sum()) - np.repeat(np.cumsum(length_K) - length_K, length_K)
        words_P = self._of_product_P[np.repeat(begin_K, length_K) + within_P]
        return np.bincount(words_P, minlength=len(self._words))

    def _counted_by_word(self, mask_N: np.ndarray, size: int) -> np.ndarray:
        """Counts of the words that can be shown, 0 for the others."""
        count_W = np.zeros(len(self._words), np.int64)
        mask_M = _packed(mask_N)
        both_M, ones_M = np.empty_like(mask_M), np.empty(mask_M.shape, np.uint8)
        best: dict[str, list[int]] = {}  # the highest counts of each family
        for index, (family, total) in enumerate(zip(self._families, self._total_W.tolist(), strict=True)):
            shown = best.setdefault(family, [])
            if len(shown) == MOST_WORDS and total <= shown[0]:
                continue
            if index < len(self._bits_WM):
                np.bitwise_and(self._bits_WM[index], mask_M, out=both_M)
                count = int(np.bitwise_count(both_M, out=ones_M).sum(dtype=np.uint32))
            else:
                count = int(np.count_nonzero(mask_N[self._positions[index - len(self._bits_WM)]]))
            count_W[index] = count
            if count < size:
                (heappush if len(shown) < MOST_WORDS else heappushpop)(shown, count)
        return count_W


def _packed(mask_N: np.ndarray) -> np.ndarray:
    """A mask as bits in words of 64."""
    packed = np.packbits(mask_N)
    return np.pad(packed, (0, -len(packed) % (BITS // 8))).view(np.uint64)
