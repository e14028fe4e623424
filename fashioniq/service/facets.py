"""Facets: how many of the products found have an attribute, a size or a price, recounted for each answer."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from heapq import heappush, heappushpop

import numpy as np
from scipy import sparse

from fashioniq.data.languages import Language

MOST_WORDS = 12  # of a family
FEW = 32  # products are counted one by one if they are at most 1 / FEW of all
BITS = 64  # of a word of the processor


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
                        families.append((speech.group_of.get(word) or speech.other[kind]).family)
                    seen.add(index)
            flat.extend(seen)
            ends.append(len(flat))
        names, given_P = list(number), np.frombuffer(flat, np.int32)
        total_W = np.bincount(given_P, minlength=len(names))
        order_W = np.array(sorted(range(len(names)), key=lambda one: (-total_W[one], names[one])), np.int64)
        self._words = [names[one] for one in order_W]
        self._families = [families[one] for one in order_W]
        self._total_W = total_W[order_W]
        word_P = np.argsort(order_W).astype(np.int32)[given_P]
        size, has_P = (len(ids), len(names)), np.ones(len(word_P), bool)
        self._has_NW = sparse.csr_array((has_P, word_P, np.frombuffer(ends, np.int64)), size)
        by_word = self._has_NW.tocsc()
        frequent = int((BITS * self._total_W >= len(ids)).sum())  # the first words
        self._bits = [_packed(by_word[:, [word]].toarray().ravel()) for word in range(frequent)]
        self._items = np.split(by_word.indices, by_word.indptr[frequent:-1])[1:]
        self._all = self._grouped(self._total_W, len(ids))

    def counts(self, mask_N: np.ndarray) -> dict[str, list[tuple[str, int]]]:
        """The words of each family with their number of products in a mask, the most frequent ones first.

        Words that none or all of these products have are left out.
        """
        size = int(np.count_nonzero(mask_N))
        if size == len(mask_N):
            return self._all
        if FEW * size > len(mask_N):
            return self._grouped(self._counted_by_word(mask_N, size), size)
        of_few = self._has_NW[np.flatnonzero(mask_N)]
        return self._grouped(np.bincount(of_few.indices, minlength=len(self._words)), size)

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
            if index < len(self._bits):
                np.bitwise_and(self._bits[index], mask_M, out=both_M)
                count = int(np.bitwise_count(both_M, out=ones_M).sum(dtype=np.uint32))
            else:
                count = int(np.count_nonzero(mask_N[self._items[index - len(self._bits)]]))
            count_W[index] = count
            if count < size:
                (heappush if len(shown) < MOST_WORDS else heappushpop)(shown, count)
        return count_W


def _packed(mask_N: np.ndarray) -> np.ndarray:
    """A mask as bits in words of 64."""
    packed = np.packbits(mask_N)
    return np.pad(packed, (0, -len(packed) % (BITS // 8))).view(np.uint64)
