"""Prices, sizes and stock of the products of a gallery, as columns, and the products that meet a filter."""

import threading
from collections.abc import Iterable, Mapping
from sys import intern

import msgspec
import numpy as np
import torch
from torch import Tensor

from fashioniq.serving.schemas import Filters
from fashioniq.store.rows import Product

UNKNOWN = -1
REMEMBERED = 64  # masks of recent filters


class Facts(msgspec.Struct, gc=False):
    """What is shown of a product."""

    title: str
    price_minor: int | None
    currency: str | None
    sizes: tuple[str, ...]
    in_stock: bool
    url: str | None


class Shelf:
    """Columns in the order of the gallery. Products without a row have neither price, sizes nor stock.

    `position` is the place of each product in the gallery, by id.
    """

    def __init__(self, position: Mapping[str, int]) -> None:
        self._position, count = position, len(position)
        self._price_N = np.full(count, UNKNOWN, np.int64)
        self._currency_N = np.zeros(count, np.int32)
        self._stock_N = np.full(count, UNKNOWN, np.int8)
        self._there_N = np.ones(count, bool)
        self._rows: list[Facts | None] = [None] * count
        self._sizes: dict[str, np.ndarray] = {}
        self._currencies: dict[str, int] = {"": 0}
        self._masks: dict[str, tuple[Tensor, int]] = {}
        self._alike: dict[tuple[str, ...], tuple[str, ...]] = {}  # sizes that many products have
        self._lock = threading.Lock()
        self.revision = 0

    def put(self, products: Iterable[Product]) -> None:
        """Take over new, changed and deleted products."""
        with self._lock:
            revision = self.revision
            for product in products:
                revision = max(revision, product.revision)
                if (position := self._position.get(product.id)) is None:
                    continue
                currency, sizes = intern(product.currency or ""), tuple(map(intern, product.sizes))
                self._rows[position] = Facts(
                    title=product.title,
                    price_minor=product.price_minor,
                    currency=currency or None,
                    sizes=self._alike.setdefault(sizes, sizes),
                    in_stock=product.in_stock,
                    url=product.url,
                )
                there = product.deleted_at is None
                self._there_N[position] = there
                self._price_N[position] = UNKNOWN if product.price_minor is None else product.price_minor
                self._currency_N[position] = self._currencies.setdefault(currency, len(self._currencies))
                self._stock_N[position] = product.in_stock
                for column_N in self._sizes.values():
                    column_N[position] = False
                for size in sizes:
                    if size not in self._sizes:
                        self._sizes[size] = np.zeros(len(self._there_N), bool)
                    self._sizes[size][position] = True
                self._masks.clear()
            self.revision = revision  # not before all were read

    def row(self, name: str) -> Facts | None:
        """What is shown of a product, None without a row."""
        position = self._position.get(name)
        return None if position is None else self._rows[position]

    @property
    def has_facts(self) -> bool:
        """Whether any product has a price, sizes or stock."""
        return bool((self._stock_N != UNKNOWN).any())

    @property
    def sizes(self) -> list[str]:
        """All sizes of products."""
        return sorted(self._sizes)

    @property
    def currencies(self) -> list[str]:
        """All currencies of prices."""
        return sorted(set(self._currencies) - {""})

    def allowed(self, filters: Filters) -> tuple[Tensor, int]:
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

    def _meet(self, filters: Filters) -> np.ndarray:
        mask_N = self._there_N.copy()
        if price := filters.price:
            mask_N &= self._currency_N == self._currencies.get(price.currency, UNKNOWN)
            mask_N &= self._price_N >= (0 if price.gte is None else price.gte)
            if price.lte is not None:
                mask_N &= self._price_N <= price.lte
        if filters.sizes:
            fits_N = np.zeros(len(mask_N), bool)
            for size in filters.sizes.any:
                if size in self._sizes:
                    fits_N |= self._sizes[size]
            mask_N &= fits_N
        if filters.in_stock:
            mask_N &= self._stock_N == 1
        return mask_N

    def without_each(self, filters: Filters) -> dict[str, int]:
        """Number of products that would meet the filters without each of them."""
        given = [name for name in ("price", "sizes", "in_stock") if getattr(filters, name) is not None]
        return {name: self.allowed(filters.model_copy(update={name: None}))[1] for name in given}
