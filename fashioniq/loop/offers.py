"""Limits of price, size and stock that were said, applied to the offers of the products of a gallery."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.offers import Offer, decimals
from fashioniq.data.prices import PriceRange, price_ranges
from fashioniq.language.wishes import OfferLimits


class Price(NamedTuple):
    """An amount in hundredths of a currency of ISO 4217, as limits have it."""

    hundredths: int
    currency: str


class Offers:
    """Offers of the products `ids` of a gallery, in its order; they are read when the first limit is said.

    `size_name` is the name of a size as requests have it, such as M for "Medium".
    """

    def __init__(
        self, ids: Sequence[str], read: Callable[[], Mapping[str, Offer]], size_name: Callable[[str], str]
    ) -> None:
        self._ids, self._read, self._size_name = ids, read, size_name
        self._allowed = lru_cache(maxsize=64)(self._meeting)

    @cached_property
    def _rows(self) -> list[Offer]:
        offers, unknown = self._read(), Offer()
        return [offers.get(name, unknown) for name in self._ids]

    @cached_property
    def _prices(self) -> list[Price | None]:
        return [
            None
            if row.price_minor is None or row.currency is None
            else Price(row.price_minor * 100 // 10 ** decimals(row.currency), row.currency)
            for row in self._rows
        ]

    @cached_property
    def _currencies(self) -> set[str]:
        return {price.currency for price in self._prices if price is not None}

    @cached_property
    def _currency(self) -> str | None:
        """The most frequent currency, meant where none is said; None without prices."""
        count = Counter(price.currency for price in self._prices if price is not None)
        return max(count, key=lambda name: count[name]) if count else None

    @cached_property
    def _ranges(self) -> list[PriceRange]:
        """Ranges of the prices in the most frequent currency, in hundredths."""
        own = [one.hundredths for one in self._prices if one is not None and one.currency == self._currency]
        return price_ranges(np.array(own, np.int64), self._currency or "", 100)

    def text(self, name: str) -> str:
        """What is known of the price and the stock of a product, such as "34.90 EUR, out of stock"."""
        offer, known = self._read().get(name, Offer()), []
        if offer.price_minor is not None and offer.currency is not None:
            amount = Decimal(offer.price_minor).scaleb(-decimals(offer.currency))
            known.append(f"{amount} {offer.currency}")
        return ", ".join([*known, *(["out of stock"] if offer.in_stock is False else [])])

    def compared(self, limits: OfferLimits, item: int | None) -> tuple[OfferLimits, int | None]:
        """Limits, and the price that "cheaper" compares with: that of a product, None if it is unknown.

        Without a product, the lowest range of prices is cheap, and the highest is expensive.
        """
        price = None if item is None else self._prices[item]
        if price is not None:
            return limits._replace(currency=limits.currency or price.currency), price.hundredths
        if item is None and self._ranges:
            one = self._ranges[0 if limits.cheaper < 0 else -1]
            return limits.within(one.gte, one.lte, one.currency), None
        return limits, None

    def known(self, limits: OfferLimits) -> tuple[OfferLimits, tuple[str, ...]]:
        """The limits of what is known of any product, and the others: "price", "currency", "size", "stock"."""
        missing = []
        priced = limits.least_minor is not None or limits.most_minor is not None
        if limits.cheaper or (priced and self._currency is None):
            missing.append("price")
            limits = limits._replace(cheaper=0)
            if self._currency is None:
                limits = limits._replace(least_minor=None, most_minor=None, currency=None)
        elif priced and limits.currency is not None and limits.currency not in self._currencies:
            missing.append("currency")
            limits = limits._replace(least_minor=None, most_minor=None, currency=None)
        if limits.sizes and not any(row.sizes for row in self._rows):
            missing.append("size")
            limits = limits._replace(sizes=())
        if limits.in_stock and all(row.in_stock is None for row in self._rows):
            missing.append("stock")
            limits = limits._replace(in_stock=False)
        return limits, tuple(missing)

    def allowed(self, limits: OfferLimits) -> Tensor | None:
        """Mask of the products within the limits, N; None if nothing limits them.

        A product of unknown price, sizes or stock is not within a limit of them, unless none of any product is known.
        """
        return None if limits == OfferLimits() else self._allowed(limits)

    def _meeting(self, limits: OfferLimits) -> Tensor | None:
        limits, _ = self.known(limits)
        if limits == OfferLimits():
            return None
        rows = zip(self._rows, self._prices, strict=True)
        return torch.tensor([self._meets(row, price, limits) for row, price in rows])

    def _meets(self, row: Offer, price: Price | None, limits: OfferLimits) -> bool:
        if limits.least_minor is not None or limits.most_minor is not None:
            if price is None or price.currency != (limits.currency or self._currency):
                return False
            if limits.least_minor is not None and price.hundredths < limits.least_minor:
                return False
            if limits.most_minor is not None and price.hundredths > limits.most_minor:
                return False
        if limits.sizes and not any(self._size_name(size) in limits.sizes for size in row.sizes):
            return False
        return row.in_stock is True or not limits.in_stock
