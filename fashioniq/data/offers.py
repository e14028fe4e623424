"""Offers of a category, DATA/offers/<category>.json: what a product costs, its sizes, whether it is in stock, its page.

They change daily, so no fingerprint covers them.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated

import msgspec

from fashioniq.categories import file_name
from fashioniq.files import UserError, reading, why, write_json

MAX_PRICE = 10**12  # minor units
MAX_SIZES = 100  # of a product
LONGEST_SIZE = 200  # characters
LONGEST_URL = 2000  # characters
URL = r"^https?://[^\s<>\"']+"
_REPAIR = "correct it, or remove it and import the offers again with `fashioniq import-catalog`"

_Size = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_SIZE)]


class Offer(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True, gc=False
):
    """Offer of a product; what is absent is unknown. The price is in minor units, such as cents, of `currency`."""

    price_minor: Annotated[int, msgspec.Meta(ge=0, le=MAX_PRICE)] | None = None
    currency: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")] | None = None
    sizes: Annotated[tuple[_Size, ...], msgspec.Meta(max_length=MAX_SIZES)] = ()
    in_stock: bool | None = None
    url: Annotated[str, msgspec.Meta(max_length=LONGEST_URL, pattern=URL + r"\Z")] | None = None

    def __post_init__(self) -> None:
        if (self.price_minor is None) != (self.currency is None):
            raise ValueError("price_minor and currency need each other")
        if self.url is not None and not self.url.isprintable():
            raise ValueError("control characters in url")
        msgspec.structs.force_setattr(self, "sizes", _plain(self.sizes))


def offers_file(root: Path, category: str) -> Path:
    """File with the offers of a category in a data folder."""
    return root / "offers" / f"{file_name(category)}.json"


def unread_file(root: Path, category: str) -> Path:
    """File with the values that an import could not read: [{"line": 7, "id": …, "reason": …}]."""
    return root / "offers" / f"{file_name(category)}.unread.json"


def read_offers(path: Path) -> dict[str, Offer]:
    """Offer of each product by id; none if there is no file.

    Raises UserError with the path and the id for an offer that is damaged.
    """
    with reading(path, "file of offers", _REPAIR):
        if not path.exists():
            return {}
        content = path.read_bytes()
    try:
        return msgspec.json.decode(content, type=dict[str, Offer])
    except (
        ValueError,
        RecursionError,
    ) as error:  # msgspec's errors are values, and so is half a surrogate pair
        reason = why(error)
    try:
        for name, row in msgspec.json.decode(content, type=dict[str, msgspec.Raw]).items():
            if fault := fault_of_offer(row):
                raise UserError(f"{path}, offer of {name!r}: {fault}; {_REPAIR}")
    except (ValueError, RecursionError) as error:
        reason = why(error)
    raise UserError(f"expected offers by product id, found {reason} in {path}; {_REPAIR}")


def write_offers(path: Path, offers: Mapping[str, Offer]) -> None:
    """Write the offers of products by id."""
    write_json(path, msgspec.to_builtins(offers), indent=None)


def fault_of_offer(row: object) -> str:
    """Why a row, parsed or as JSON, is not an offer; "" if it is."""
    try:
        if isinstance(row, msgspec.Raw):
            msgspec.json.decode(row, type=Offer)
        else:
            msgspec.convert(row, Offer)
    except (ValueError, RecursionError) as error:
        return why(error)
    return ""


@lru_cache(maxsize=10_000)
def _plain(sizes: tuple[str, ...]) -> tuple[str, ...]:
    """The sizes, as one object for all products with the same. Raises ValueError for control characters."""
    if any(unicodedata.category(letter) in ("Cc", "Cs") for size in sizes for letter in size):
        raise ValueError("control characters in sizes")
    return sizes


@cache
def decimals(currency: str) -> int:
    """Digits after the decimal point of amounts in a currency of ISO 4217: 2 for EUR, 0 for JPY, 3 for KWD."""
    from babel.numbers import get_currency_precision  # takes a while, and few commands need it

    return get_currency_precision(currency)


_LETTERS = re.compile(r"(?:(\d+)(?=x))?(x*)([sml])(?![^\W\d_])")  # without case: 3xl, xxs, m
_NUMBER = re.compile(r"(?:eu|de|uk|us|w|gr\.?)?\s?(\d+(?:[.,]\d+)?)")
_WORDS = {"small": "s", "medium": "m", "large": "l", "extra": "x"}


def size_order(size: str) -> tuple[int, float, str, str]:
    """Sort key of a size: letters from XXS to 3XL, then numbers such as 34, 36 and 38, then others by name."""
    name = size.strip().casefold()
    short = re.sub("|".join(_WORDS), lambda word: _WORDS[word[0]], name)
    if found := _LETTERS.match(re.sub(r"x[\s-]+", "x", short)):
        steps = {"s": -1, "m": 0, "l": 1}[found[3]] * (1 + int(found[1] or len(found[2])))
        return 0, steps, name, size
    if found := _NUMBER.match(name):
        return 1, float(found[1].replace(",", ".")), name, size
    return 2, 0, name, size


def in_order(sizes: Iterable[str]) -> list[str]:
    """Sizes in their natural order."""
    return sorted(sizes, key=size_order)
