"""Forms of the shoppers' page, and the filters that they describe."""

import hashlib
from typing import Annotated, Literal

from fastapi import Request
from pydantic import BaseModel, Field, ValidationError

from fashioniq.data.offers import decimals
from fashioniq.prepare.offers import parse_price
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.schemas import (
    MAX_TEXT,
    MAX_TURNS,
    MAX_VALUES,
    Currency,
    FiltersBody,
    Identifier,
    PriceFilter,
    SizesFilter,
)

Key = Annotated[Identifier, Field(min_length=16)]


class Sent(BaseModel):
    """Fields of the forms. `key` is random; a repeated request has that of the first.

    `range` is a price range of a button, such as EUR:2000:3999, in place of the prices typed.
    """

    key: Key
    after_turn: Annotated[int, Field(ge=0, le=MAX_TURNS)] = 0
    says: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    chip: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    wish: Identifier | None = None
    drop: Identifier | None = None
    about: Identifier | None = None
    product: Identifier | None = None
    to: Annotated[int, Field(ge=0, le=MAX_TURNS)] = 0
    price_from: Annotated[str, Field(max_length=20)] = ""
    price_to: Annotated[str, Field(max_length=20)] = ""
    currency: Currency | None = None
    range: Annotated[str, Field(pattern=r"^([A-Z]{3}:\d{0,12}:\d{0,12})?$")] = ""
    sizes: Annotated[list[Identifier], Field(max_length=MAX_VALUES)] = []
    in_stock: bool = False
    without: Literal["", "price", "sizes", "in_stock", "all"] = ""
    consent: Literal["none", "training"] = "none"

    @property
    def stored_key(self) -> str:
        """Idempotency key as it is stored. The token of a session is made of the key, and so cannot be read there."""
        return hashlib.sha256(self.key.encode()).hexdigest()

    @property
    def filters(self) -> FiltersBody:
        """Filters of a form. Raises Problem for a price that is not a number."""
        return FiltersBody(
            price=self._price(),
            sizes=SizesFilter(any=self.sizes) if self.sizes else None,
            in_stock=True if self.in_stock else None,
        )

    def _price(self) -> PriceFilter | None:
        if self.range:
            currency, *given = self.range.split(":")
            least, most = (int(text) if text else None for text in given)
        elif self.currency and (self.price_from.strip() or self.price_to.strip()):
            currency = self.currency
            least, most = (_minor(text, currency) for text in (self.price_from, self.price_to))
            if least is not None and most is not None:
                least, most = sorted((least, most))
        else:
            return None
        try:
            return PriceFilter(currency=currency, gte=least, lte=most)
        except ValidationError:
            raise wrong("/price", "invalid") from None


def _minor(text: str, currency: str) -> int | None:
    """Minor units of a price such as 59,90, €50 or 1,299.00; None for no text. Raises Problem for other texts."""
    if not text.strip():
        return None
    if decimals(currency) == 3 and "." not in text:
        text = text.replace(",", ".")  # 1,299 are thousands in other currencies
    try:
        return parse_price(text, currency)[0]
    except ValueError:
        raise wrong("/price", "not_a_number") from None


def same_origin(request: Request) -> None:
    """Raise Problem for a form of another website."""
    host = request.headers.get("host")
    if not host or request.headers.get("origin") not in (f"http://{host}", f"https://{host}"):
        raise Problem("forbidden")


def cookie_name(category: str) -> str:
    """Name of the cookie with the session of a category."""
    return f"fashioniq-{category}"
