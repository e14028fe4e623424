"""Requests and answers of the API. Unknown fields, control characters and numbers that are not finite are refused."""

import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WrapValidator, model_validator

from fashioniq.data.offers import LONGEST_URL, MAX_PRICE, MAX_SIZES, URL
from fashioniq.service.store import Consent

MAX_K = 50  # products per answer
SHOWN = 8  # the same, unless another number is asked for
MAX_TEXT = 200  # characters of a request
MAX_TURNS = 20  # turns of a dialog
MAX_VALUES = 50  # sizes in a filter
MAX_PRODUCTS = 500  # products per call
MAX_EVENTS = 1000  # events per call


def _plain(text: str) -> str:
    """NFC form of a text. Raises ValueError for control characters and lone surrogates."""
    if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text):
        raise ValueError("control characters are not allowed")
    return unicodedata.normalize("NFC", text)


def _utc(value: datetime) -> datetime:
    """The time in UTC, which the first and last hours of the calendar do not have."""
    if not 1970 <= value.year <= 9998:
        raise ValueError("out of range")
    return value.astimezone(UTC)


Identifier = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_plain)]
Words = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_plain)]
Title = Annotated[str, Field(max_length=1000), AfterValidator(_plain)]
Moment = Annotated[datetime, AfterValidator(_utc)]
Minor = Annotated[int, Field(ge=0, le=MAX_PRICE, strict=True)]
Sizes = Annotated[list[Identifier], Field(max_length=MAX_SIZES)]
Currency = Annotated[str, Field(pattern="^[A-Z]{3}$")]
Many = Annotated[int, Field(ge=1, le=MAX_K, strict=True)]
Number = Annotated[int, Path(ge=0, le=MAX_TURNS)]  # of a turn, in an address
# the OpenAPI document has the type of such an item, which is checked on its own after the request
LATER = WrapValidator(lambda given, _: given)


class Body(BaseModel):
    """Base class of requests."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class PriceFilter(Body):
    """Price in minor units of a currency; at least one bound."""

    gte: Minor | None = None
    lte: Minor | None = None
    currency: Currency

    @model_validator(mode="after")
    def _bounded(self) -> "PriceFilter":
        if self.gte is None and self.lte is None:
            raise ValueError("give gte, lte or both")
        return self


class SizesFilter(Body):
    """Products in at least one of these sizes."""

    any: list[Identifier] = Field(min_length=1, max_length=MAX_VALUES)


class FiltersBody(Body):
    """Conditions that every product shown must meet. A product whose price, sizes or stock are unknown meets none."""

    price: PriceFilter | None = None
    sizes: SizesFilter | None = None
    in_stock: Literal[True] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The conditions that there are, by their name."""
        return {name: value for name, value in self if value is not None}


class LabelWishBody(Body):
    """A label of the catalog, such as one of the facets, that products shall have, or shall not have."""

    label: Identifier
    denied: bool = False


class SaidBody(Body):
    """What a client gives for a turn; one of these, or none."""

    says: Words | None = None
    like: Identifier | None = None
    less_like: Identifier | None = None
    wish: LabelWishBody | None = None


class SearchTurnBody(SaidBody):
    """One turn of a dialog for the stateless search: words, about a product or none, or what was chosen instead."""

    about: Identifier | None = None
    question: Title = ""

    @model_validator(mode="after")
    def _one(self) -> "SearchTurnBody":
        if sum(one is not None for one in (self.says, self.like, self.less_like, self.wish)) != 1:
            raise ValueError("give one of says, like, less_like and wish")
        return self


class SearchBody(Body):
    """A whole dialog, oldest turn first. Without turns, products that differ from each other are found.

    Limits that are said, such as a price, hold unless `filters` has others. With `explain`, the results have the
    parts of their scores, and the effects of the words of the last turn; with `facets`, the answer has facets.
    """

    said: list[SearchTurnBody] = Field(default=[], max_length=MAX_TURNS, alias="turns")
    filters: FiltersBody = FiltersBody()
    k: Many = SHOWN
    explain: bool = False
    facets: bool = False


class StartBody(Body):
    """What a session starts from: a product, an uploaded picture, a text, or nothing."""

    product_id: Identifier | None = None
    picture_id: Identifier | None = None
    text: Words | None = None

    @model_validator(mode="after")
    def _at_most_one(self) -> "StartBody":
        if sum(value is not None for value in (self.product_id, self.picture_id, self.text)) > 1:
            raise ValueError("give one of product_id, picture_id and text")
        return self


class SessionBody(Body):
    """A new session."""

    category: Identifier
    start: StartBody = StartBody()
    filters: FiltersBody = FiltersBody()
    consent: Consent = "none"
    client_id: Identifier | None = None
    k: Many = SHOWN
    facets: bool = False
    origin: Literal["api", "test", "bot"] = "api"


class TurnBody(SaidBody):
    """A turn: words, or what was chosen instead of words.

    Words are about a product that was shown: that of `about`; one of the last answer that they name by its place, as in
    "shorter than the second one"; or by default the first one of it, or none as long as nothing was said or with "" as
    `about`. Products can be more or less like one that was shown; `wish` adds
    a label, and `drop` takes something back by its `id` in `holding`.

    Filters replace those of before, and stay until they are replaced, or until something else is said about them.
    With `explain`, the results have the parts of their scores and the effects of the words; a repeated request gets
    its answer without them. With `facets`, the answer has facets.
    """

    drop: Identifier | None = None
    about: Identifier | Literal[""] | None = None
    after_turn: Annotated[int, Field(ge=0, le=MAX_TURNS, strict=True)] | None = None
    filters: FiltersBody | None = None
    k: Many = SHOWN
    explain: bool = False
    facets: bool = False

    @model_validator(mode="after")
    def _one(self) -> "TurnBody":
        given = [self.says, self.like, self.less_like, self.wish, self.drop]
        if sum(one is not None for one in given) > 1:
            raise ValueError("give one of says, like, less_like, wish and drop")
        if all(one is None for one in (*given, self.filters)):
            raise ValueError("give says, like, less_like, wish, drop or filters")
        return self


class ConsentBody(Body):
    """A changed consent."""

    consent: Consent


class ProductBody(Body):
    """A product of the catalog; absent fields are unknown, and absent stock is in stock."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "D000000064",
                    "title": "Navy wrap dress",
                    "price": {"minor": 5990, "currency": "EUR"},
                    "sizes": ["S", "M", "L"],
                    "in_stock": True,
                    "url": "https://shop.example/products/D000000064",
                    "group_id": "wrap-dress",
                }
            ]
        }
    )

    id: Identifier
    title: Title = ""
    price: "PriceBody | None" = None
    sizes: Sizes | None = None
    in_stock: bool | None = None
    url: Annotated[str, Field(max_length=LONGEST_URL, pattern=URL + "$")] | None = None
    group_id: Identifier | None = None


class PriceBody(Body):
    """Price in minor units, such as cents, of a currency of ISO 4217."""

    minor: Minor
    currency: Currency


class ProductPatchBody(Body):
    """Changed fields of a product."""

    price: PriceBody | None = None
    sizes: Sizes | None = None
    in_stock: bool | None = None


class ProductsBody(Body):
    """Products to add or replace. Each is checked on its own, so that one wrong product does not stop the others."""

    products: list[Annotated[ProductBody, LATER]] = Field(min_length=1, max_length=MAX_PRODUCTS)


class EventBody(Body):
    """What a shopper did with a product, with the names of UBI 1.3."""

    class Attributes(Body):
        class Object(Body):
            object_id: Identifier

        class Position(Body):
            ordinal: Annotated[int, Field(ge=1, le=10_000, strict=True)]

        object: Object
        position: Position | None = None
        value_minor: Minor | None = None

    event_id: Identifier
    action_name: Literal["view", "click", "add_to_cart", "purchase", "return", "this_is_it"]
    query_id: Identifier
    session_id: Identifier
    client_id: Identifier | None = None
    timestamp: Moment
    event_attributes: Attributes


class EventsBody(Body):
    """Events; each is checked on its own."""

    events: list[Annotated[EventBody, LATER]] = Field(min_length=1, max_length=MAX_EVENTS)


class ModelBody(Body):
    """A run folder in the folder of models, by name."""

    run: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    activate: bool = False
