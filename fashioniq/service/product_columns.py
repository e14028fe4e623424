"""Offers of the products of a gallery, as columns, and the products that meet a filter.

A product with a row in the database, which REST calls write, has the facts of its row, even if that is deleted. Any
other product has its offer in the catalog folder, which an import replaces.
"""

import threading
from collections.abc import Iterable, Mapping
from functools import cached_property, reduce
from sys import intern

import msgspec
import numpy as np
import torch
from torch import Tensor

from fashioniq.data.ids import Spellings
from fashioniq.data.offers import Offer, decimals, in_order
from fashioniq.data.prices import PriceRange, price_ranges
from fashioniq.service.schemas import FiltersBody
from fashioniq.service.store.rows import ProductRow

UNKNOWN = -1
REMEMBERED = 64  # masks of recent filters


class Facts(msgspec.Struct, gc=False):
    """What is shown of a product."""

    title: str
    price_minor: int | None
    currency: str | None
    sizes: tuple[str, ...]  # in their order
    in_stock: bool | None
    url: str | None


# of a product of which nothing is known
NOTHING = Facts(title="", price_minor=None, currency=None, sizes=(), in_stock=None, url=None)


class OfferCounts(msgspec.Struct, frozen=True):
    """Products with each size, in the order of sizes, those in stock, and those in each range of prices."""

    sizes: list[tuple[str, int]]
    in_stock: int
    prices: list[tuple[PriceRange, int]]


class ProductColumns:
    """Columns in the order of the gallery. What is unknown of a product is UNKNOWN.

    `position` is the place of each product in the gallery, by id as the catalog writes it; `offers` are those of
    the catalog folder.
    """

    def __init__(self, position: Mapping[str, int], offers: Mapping[str, Offer] | None = None) -> None:
        self._position, self._spellings, count = position, Spellings(position), len(position)
        self._price_N = np.full(count, UNKNOWN, np.int64)
        self._currency_N = np.zeros(count, np.int32)
        self._stock_N = np.full(count, UNKNOWN, np.int8)
        self._there_N = np.ones(count, bool)
        self._revision_N = np.zeros(count, np.int64)
        self._rows: list[Facts | None] = [None] * count
        self._sizes: dict[str, np.ndarray] = {}
        self._currencies: dict[str, int] = {"": 0}
        self._masks: dict[str, tuple[Tensor, int]] = {}
        self._alike: dict[tuple[str, ...], tuple[str, ...]] = {}  # sizes that many products have
        self._lock = threading.Lock()
        self.revision = 0
        for name, offer in (offers or {}).items():
            if (place := position.get(name)) is not None:
                self._set(place, "", offer)

    def put(self, products: Iterable[ProductRow]) -> None:
        """Take over new, changed and deleted products."""
        with self._lock:
            revision = self.revision
            for product in products:
                revision = max(revision, product.revision)
                if (position := self._position.get(self._spellings.own(product.id))) is None:
                    continue
                if product.revision < self._revision_N[position]:
                    continue  # read before another thread put the later one
                self._revision_N[position] = product.revision
                for column_N in self._sizes.values():
                    column_N[position] = False
                self._there_N[position] = product.deleted_at is None
                self._set(position, product.title, product)
                self._masks.clear()
                self.__dict__.pop("_divisions", None)
            self.revision = revision  # not before all were read

    def _set(self, position: int, title: str, of: Offer | ProductRow) -> None:
        if (ordered := self._alike.get(sizes := tuple(of.sizes))) is None:
            ordered = self._alike[sizes] = tuple(map(intern, in_order(sizes)))
        currency = intern(of.currency or "")
        self._rows[position] = Facts(
            title, of.price_minor, currency or None, sizes=ordered, in_stock=of.in_stock, url=of.url
        )
        self._price_N[position] = UNKNOWN if of.price_minor is None else of.price_minor
        self._currency_N[position] = self._currencies.setdefault(currency, len(self._currencies))
        self._stock_N[position] = UNKNOWN if of.in_stock is None else of.in_stock
        for size in ordered:
            if size not in self._sizes:
                self._sizes[size] = np.zeros(len(self._there_N), bool)
            self._sizes[size][position] = True

    def row(self, name: str) -> Facts | None:
        """What is shown of a product, None if nothing is known."""
        position = self._position.get(name)
        return None if position is None else self._rows[position]

    @property
    def known(self) -> set[str]:
        """What is known of any product: "price", "sizes", "in_stock"."""
        some = {
            "price": np.any(self._price_N != UNKNOWN),
            "in_stock": np.any(self._stock_N != UNKNOWN),
            "sizes": bool(self._sizes),
        }
        return {name for name, known in some.items() if known}

    @property
    def currency(self) -> str:
        """The most frequent currency of prices, EUR if there is none."""
        with self._lock:
            return self._divisions[0] or "EUR"

    @property
    def price_ranges(self) -> list[PriceRange]:
        """Ranges of the prices in the most frequent currency, the lowest first; none without prices."""
        with self._lock:
            return self._divisions[1]

    @property
    def sizes(self) -> list[str]:
        """All sizes of products, in their order."""
        return in_order(self._sizes)

    @property
    def currencies(self) -> list[str]:
        """All currencies of prices."""
        return sorted(set(self._currencies) - {""})

    def allowed(self, filters: FiltersBody) -> tuple[Tensor, int]:
        """Mask of the products that meet the filters, N, and their number."""
        name = filters.model_dump_json()
        with self._lock:
            if (found := self._masks.get(name)) is None:
                mask_N = self._meet(filters)
                found = torch.from_numpy(mask_N), int(mask_N.sum())
                if len(self._masks) >= REMEMBERED:
                    self._masks.clear()
                self._masks[name] = found
        return found

    def counts(self, mask_N: np.ndarray) -> OfferCounts:
        """Sizes, stock and prices of the products of a mask; sizes and ranges without any are left out.

        The ranges are those of the most frequent currency, and the same for every mask.
        """
        with self._lock:
            _, ranges, range_N = self._divisions
            sizes = self.sizes
            of_ranges = (range_N == number for number in range(1, len(ranges) + 1))
            columns = [*(self._sizes[size] for size in sizes), self._stock_N == 1, *of_ranges]
            both_N = np.empty(len(mask_N), bool)
            found = [int(np.count_nonzero(np.logical_and(one, mask_N, out=both_N))) for one in columns]
        return OfferCounts(
            [(size, count) for size, count in zip(sizes, found, strict=False) if count],
            found[len(sizes)],
            [(one, count) for one, count in zip(ranges, found[len(sizes) + 1 :], strict=True) if count],
        )

    @cached_property
    def _divisions(self) -> tuple[str, list[PriceRange], np.ndarray]:
        """The most frequent currency, ranges of its prices, and the number of each product's range from 1, or 0."""
        priced_N = self._there_N & (self._price_N != UNKNOWN)
        if not priced_N.any():
            return "", [], np.zeros(len(priced_N), np.uint8)
        code = int(np.bincount(self._currency_N[priced_N]).argmax())
        currency = next(name for name, number in self._currencies.items() if number == code)
        priced_N &= self._currency_N == code
        ranges = price_ranges(self._price_N[priced_N], currency, 10 ** decimals(currency))
        range_N = priced_N.astype(np.uint8) if ranges else np.zeros(len(priced_N), np.uint8)
        for one in ranges[1:]:
            range_N += priced_N & (self._price_N >= (one.gte or 0))
        return currency, ranges, range_N

    def _meet(self, filters: FiltersBody) -> np.ndarray:
        mask_N = self._there_N.copy()
        if price := filters.price:
            mask_N &= self._currency_N == self._currencies.get(price.currency, UNKNOWN)
            mask_N &= self._price_N >= (0 if price.gte is None else price.gte)
            if price.lte is not None:
                mask_N &= self._price_N <= price.lte
        if filters.sizes:
            fitting = [self._sizes[size] for size in filters.sizes.any if size in self._sizes]
            mask_N &= reduce(np.logical_or, fitting, np.zeros(len(mask_N), bool))
        if filters.in_stock:
            mask_N &= self._stock_N == 1
        return mask_N

    def without_each(self, filters: FiltersBody) -> dict[str, int]:
        """Number of products that would meet the filters without each of them."""
        return {name: self.allowed(filters.model_copy(update={name: None}))[1] for name in filters.given}
