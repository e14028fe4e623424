"""Filters that are said: limits of price, size and stock in the words of a request."""

import re
from collections.abc import Sequence
from decimal import Decimal

from fashioniq.data.offers import MAX_PRICE, decimals
from fashioniq.language.wishes import EVERYTHING, PRICE, SIZE, STOCK, OfferLimits, ParsedRequest
from fashioniq.service.schemas import MAX_VALUES, FiltersBody, PriceFilter, SizesFilter
from fashioniq.service.served_model import Served

_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,]5)?(?![\w.,])")  # of a size
HUNDREDTHS = 2  # decimals of the prices of OfferLimits, in any currency


def filters_after(
    served: Served, filters: FiltersBody, request: ParsedRequest, about: str | None
) -> tuple[FiltersBody, tuple[str, ...]]:
    """Filters after a request about a product, or none, and codes of notices.

    A limit is no filter where nothing is known of any product, such as a price in a shop without prices, or with none
    in this currency. Without a product to compare with, the lowest range of prices is cheap, and the highest is
    expensive.
    """
    limits, back = request.limits, request.taken_back | request.unlike
    if limits == OfferLimits() and not back:
        return filters, ()
    limits, notes = _known(served, limits)
    row = served.shelf.row(about) if about is not None else None
    price = None
    if limits.cheaper and about is None and (ranges := served.shelf.price_ranges):
        one = ranges[0 if limits.cheaper < 0 else -1]
        low, high = (_hundredths(bound, one.currency) for bound in (one.gte, one.lte))
        limits = limits.within(low, high, one.currency)
    elif limits.cheaper:
        if row is None or row.price_minor is None or row.currency is None:
            notes.append("no-price")
        else:
            price = _hundredths(row.price_minor, row.currency)
            limits = limits._replace(currency=limits.currency or row.currency)
    before = OfferLimits() if EVERYTHING in back else _limits_of(filters).without(back)
    after = before.after(limits, price)
    sizes = _sizes(served, after.sizes) if limits.sizes else after.sizes
    found = FiltersBody(
        price=_price(after.least_minor, after.most_minor, after.currency or served.shelf.currency),
        sizes=SizesFilter(any=list(dict.fromkeys(sizes))[:MAX_VALUES]) if sizes else None,
        in_stock=True if after.in_stock else None,
    )
    return found, tuple(notes)


def _known(served: Served, limits: OfferLimits) -> tuple[OfferLimits, list[str]]:
    """Limits of what is known of any product, and codes of notices of the others."""
    known = served.shelf.known
    priced = limits.least_minor is not None or limits.most_minor is not None or bool(limits.cheaper)
    said = [
        (PRICE, priced and limits.currency not in (None, *served.shelf.currencies), "other-currency"),
        (PRICE, priced and "price" not in known, "no-prices"),
        (SIZE, limits.sizes and "sizes" not in known, "no-sizes"),
        (STOCK, limits.in_stock and "in_stock" not in known, "no-stock"),
    ]
    notes = {family: note for family, lacks, note in said if lacks}
    return limits.without(notes), list(notes.values())


def _sizes(served: Served, said: Sequence[str]) -> list[str]:
    """Sizes of the products that are meant by those that were said: "Medium" by M, else "7-8 Years" by 7 and 8, or by
    one of them if no size has both; those that were said if there are none.
    """
    wording, sizes = served.system.wording, served.shelf.sizes
    assert wording is not None, "it has read the size"
    if meant := [one for size in said for one in sizes if wording.size_name(one) == size]:
        return meant
    numbers = [len(set(said).intersection(_NUMBER.findall(one))) for one in sizes]
    most = max(numbers, default=0)
    return [one for one, count in zip(sizes, numbers, strict=True) if count == most] if most else list(said)


def _price(least: int | None, most: int | None, currency: str) -> PriceFilter | None:
    """A filter in minor units of the currency of bounds in hundredths."""
    if least is None and most is None:
        return None
    bounds = [
        None if one is None else min(_scaled(one, HUNDREDTHS, decimals(currency)), MAX_PRICE)
        for one in (least, most)
    ]
    return PriceFilter(gte=bounds[0], lte=bounds[1], currency=currency)


def _limits_of(filters: FiltersBody) -> OfferLimits:
    price = filters.price
    return OfferLimits(
        least_minor=_hundredths(price.gte, price.currency) if price else None,
        most_minor=_hundredths(price.lte, price.currency) if price else None,
        currency=price.currency if price else None,
        sizes=tuple(filters.sizes.any) if filters.sizes else (),
        in_stock=bool(filters.in_stock),
    )


def _hundredths(minor: int | None, currency: str) -> int | None:
    return None if minor is None else _scaled(minor, decimals(currency), HUNDREDTHS)


def _scaled(minor: int, given: int, wanted: int) -> int:
    """An amount in minor units of `given` decimals in those of `wanted` decimals."""
    return int(Decimal(minor).scaleb(wanted - given))


def over(filters: FiltersBody, others: FiltersBody) -> FiltersBody:
    """Filters of which the others replace those of the same kind."""
    return filters.model_copy(update=others.given)


def text_of(filters: FiltersBody, kind: str) -> str:
    """A filter in words, such as "up to 50.00 EUR"."""
    if kind == "price" and (price := filters.price):
        low, high = (
            None if one is None else Decimal(one).scaleb(-decimals(price.currency))
            for one in (price.gte, price.lte)
        )
        if high is None:
            return f"from {low} {price.currency}"
        return f"up to {high} {price.currency}" if low is None else f"{low} to {high} {price.currency}"
    if kind == "sizes" and filters.sizes:
        return ", ".join(filters.sizes.any)
    return "in stock"
