"""Answers of the API."""

from datetime import datetime
from typing import Literal

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from fashioniq.service.schemas import Body, Consent, FiltersBody, LabelWishBody, PriceBody


class PictureReply(Body):
    """Where to get a picture of a product, or a generated one, and its text for people who cannot see it."""

    url: str
    width: int
    alt: str


class Why(Body):
    """A word of the dialog that is found in the product."""

    word: str
    by: Literal["attribute", "title"]


class WishScore(Body):
    """A wish, how far a product has what it names (0 to 1), and what that adds to its score."""

    text: str
    labels: list[str]
    denied: bool
    has: float
    adds: float


class ScorePartsReply(Body):
    """Parts of a score, whose sum orders the products: `vector` is the cosine with the query for vectors of unit
    length, `lexical` counts the words in titles and labels.
    """

    vector: float
    lexical: float
    wishes: list[WishScore]


class ResultReply(Body):
    """A product found. `effects` are the places among all products that a word moved it up, below 0 for down."""

    product_id: str
    rank: int
    score: float
    title: str
    price: PriceBody | None
    sizes: list[str] | None
    in_stock: bool | None
    url: str | None  # of the product's page
    image: PictureReply | None
    why: list[Why]
    effects: dict[str, int] | None = None
    parts: ScorePartsReply | None = None


class Changed(Body):
    """A word that was corrected or replaced by one of the catalog."""

    said: str
    meant: str


class WishHeard(Body):
    """A wish of a text: any of these labels, or other words, or a step on the scale of a family, such as longer.

    `start` and `end` are its place in the text, in characters.
    """

    text: str
    labels: list[str]
    family: str
    denied: bool
    step: int  # -1 for less, 1 for more, 0 for labels
    start: int
    end: int


class HeardReply(Body):
    """What was understood of a text: words that are known and unknown, and known ones that are spelled like the
    latter. Words after `cut_after` were not read.
    """

    known: list[str] = []
    unknown: list[str] = []
    near: list[str] = []
    changed: list[Changed] = []
    wishes: list[WishHeard] = []
    cut_after: str | None = None


class Held(Body):
    """Something that holds now: a wish, or a filter on price, sizes or stock. `drop` takes it back by its id."""

    id: str
    kind: Literal["wish", "price", "sizes", "in_stock"]
    text: str
    labels: list[str] = []
    family: str = ""
    denied: bool = False


class LabelCount(Body):
    """Products with a label."""

    label: str
    count: int


class FamilyCounts(Body):
    """Labels of a family, such as colors, the most frequent ones first."""

    family: str
    labels: list[LabelCount]


class SizeCount(Body):
    """Products in a size."""

    size: str
    count: int


class PriceCount(Body):
    """Products in a range of prices, both bounds included; a bound is null where it is open."""

    gte: int | None
    lte: int | None
    currency: str
    count: int


class FacetCounts(Body):
    """Counts among the products that meet the filters and all wishes for labels; if none does, among those that meet
    the filters. Labels that none or all of them have are left out.
    """

    products: int
    families: list[FamilyCounts]
    sizes: list[SizeCount]
    in_stock: int
    prices: list[PriceCount]


class Notice(Body):
    """Something that the person should know."""

    code: str
    text: str


class RankingReply(Body):
    """Products found, best first. `eligible` products meet the filters; `exact` tells whether the search is.

    `filters` and `holding` are in effect, said or given. `picture` was generated from the last words, which the next
    ones replace.
    """

    query_id: str | None = None
    turn: int = 0
    model: str
    question: str = ""
    picture: PictureReply | None = None
    took_ms: int
    eligible: int
    exact: bool
    heard: HeardReply
    filters: FiltersBody
    holding: list[Held]
    results: list[ResultReply]
    facets: FacetCounts | None = None
    notices: list[Notice] = []
    # of each result, for the log alone: propensity, rank where a conversation explores, credit where models compete
    result_chances: SkipJsonSchema[list[dict[str, float]]] = Field(default=[], exclude=True)


class TurnReply(Body):
    """A turn of a session as it was shown."""

    turn: int
    query_id: str
    kind: str
    about: str | None
    question: str
    says: str | None
    wish: LabelWishBody | None
    shown: list[str]
    created_at: datetime


class SessionReply(Body):
    """A session with all its turns and the products of the last one. The token is given once, when it is made.

    `about` is the product that the next request is about by default.
    """

    session_id: str
    session_token: str | None = None
    category: str
    model: str
    consent: Consent
    filters: FiltersBody
    about: str | None
    turns: list[TurnReply]
    last: RankingReply


class UploadReply(Body):
    """An uploaded picture, and the attributes seen in it."""

    picture_id: str
    attributes: list[str]
    expires_at: datetime


class ItemStatus(Body):
    """What became of one item of a bulk request."""

    id: str
    status: int
    reason: str | None = None
    searchable: bool | None = None


class BulkReply(Body):
    """What became of each item, in their order."""

    errors: bool
    items: list[ItemStatus]
