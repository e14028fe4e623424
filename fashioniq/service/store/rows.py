"""Rows of the database as immutable structs, and the errors of the store. All times are in UTC."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from fashioniq.files import UserError

Consent = Literal["none", "service", "training"]


class Unavailable(UserError):
    """The database cannot be reached, read or written at the moment; nothing was changed."""


class Replaced(Unavailable):
    """The file of the database was deleted or replaced; what was written since it was opened may be lost."""


class Gone(Exception):
    """The session does not exist, was erased, or has ended."""


class TurnConflict(Exception):
    """The last turn of the session is another than expected; `present` is its number."""

    def __init__(self, present: int) -> None:
        super().__init__(f"the last turn is {present}")
        self.present = present


class KeyReused(Exception):
    """The idempotency key was used for another request."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A dialog with one person.

    `model` is the version that serves all of its turns, `client` a value of `Store.client_hmac`, `token_sha256` the
    hash of the token that opens the session, and `experiment` the comparison of two models that it takes part in.
    `arm` is "explore", or in a comparison what it sees: "running" or "challenger", or "both" if lists are interleaved.
    """

    id: str
    category: str
    model: str
    client: str | None = None
    consent: Consent = "none"
    policy_version: str | None = None
    arm: str | None = None
    experiment: str | None = None
    origin: Literal["page", "api", "test", "bot"] = "api"
    token_sha256: str | None = None
    created_at: datetime
    last_at: datetime


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the person and the products shown for it.

    `about` is the product that the request refers to, `question` the question that it answers, `word_ids` the
    words that the model received, and `shown` a list of {"id", "score", "propensity"} in order, also with the 0-based
    "rank" by the model in conversations that explore, "credit" in interleaved lists (metrics/interleaving.py), and
    "failed" where a model answers for another one.
    `says` and `question` are None after 90 days.
    """

    query_id: str
    session_id: str
    n: int
    kind: Literal["start", "says", "like", "less_like", "wish", "drop", "picture"]
    about: str | None = None
    question: str | None = None
    says: str | None = None
    word_ids: list[int] = []
    filters: dict[str, Any] = {}
    shown: list[dict[str, Any]] = []
    heard: dict[str, Any] = {}
    eligible: int = 0
    took_ms: int = 0
    created_at: datetime
    undone_at: datetime | None = None

    def __post_init__(self) -> None:
        for one in self.shown:
            numbers = [value for key, value in one.items() if key != "id"]
            # JSON has NaN, and integers of any size
            are_numbers = all(isinstance(number, int | float) and abs(number) < 1e300 for number in numbers)
            if not isinstance(one.get("id"), str) or not are_numbers:
                raise ValueError("a product that was shown has no id, or no number where one belongs")


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the person did with a product of a turn, such as a click or a purchase."""

    event_id: str
    query_id: str
    session_id: str
    action: str
    product_id: str | None = None
    position: int | None = None
    value_minor: int | None = None
    client_at: datetime | None = None
    server_at: datetime


class PictureRow(msgspec.Struct, frozen=True, kw_only=True):
    """Vector of an uploaded picture; the picture itself is not stored."""

    id: str
    feature: bytes
    attrs: dict[str, Any]
    expires_at: datetime


class ProductRow(msgspec.Struct, frozen=True, kw_only=True):
    """A product of the shop. `in_stock` is None if it is unknown. `revision` grows with every change in the table; the
    store sets it.
    """

    category: str
    id: str
    title: str = ""
    price_minor: int | None = None
    currency: str | None = None
    sizes: list[str] = []
    in_stock: bool | None = True
    url: str | None = None
    group_id: str | None = None
    updated_at: datetime
    revision: int = 0
    deleted_at: datetime | None = None


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run that serves a category, or can; `id` is its version, such as "dresses@2026-11-20-3f9a"."""

    id: str
    category: str
    folder: str
    run_sha256: str
    features: dict[str, Any]
    gallery_size: int
    registered_at: datetime
    active_from: datetime | None = None
    retired_at: datetime | None = None


class ExperimentRow(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison of two versions in the conversations of a category.

    `method` is what each of them sees: one of the models ("split"), or lists of both ("team-draft", "probabilistic").
    `error` and `most` are the rule that ends it, which is fixed when it begins: the probability of a wrong decision,
    and the number of conversations, one of each client, after which it ends undecided. `verdict` is how it ended.
    """

    id: str
    category: str
    running: str
    challenger: str
    method: Literal["split", "team-draft", "probabilistic"]
    error: float
    most: int
    started_at: datetime
    ended_at: datetime | None = None
    verdict: str | None = None

    def __post_init__(self) -> None:
        if not (0 < self.error < 1 and self.most > 0):
            raise ValueError("an experiment has no rule that can end it")


class KeyRow(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    scopes: list[str]
    limits: dict[str, Any]


class ExportRow(msgspec.Struct, frozen=True, kw_only=True):
    """Training data in a folder: the time of the latest session in them, the rule of choice, and their number.

    Their `id` is also in the folder, which may be moved or replaced; from `deleted_at`, it is deleted.
    """

    id: str
    folder: str
    cut_at: datetime
    rule: dict[str, Any]
    sessions: int
    deleted_at: datetime | None = None
