"""A request of a shopper: its form with the filters that it describes, its session, and what is done and answered in
it.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Response
from fastapi.responses import RedirectResponse
from msgspec.structs import replace
from pydantic import BaseModel, Field, ValidationError

from fashioniq.data.offers import decimals
from fashioniq.prepare.offers import parse_price
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.schemas import (
    MAX_TEXT,
    MAX_TURNS,
    MAX_VALUES,
    Consent,
    Currency,
    FiltersBody,
    Identifier,
    PriceFilter,
    SessionBody,
    SizesFilter,
    StartBody,
    TurnBody,
)
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import SessionRow
from fashioniq.service.view import PREFIX, ProblemView, render, state

LIFE = 24 * 3600  # seconds of a cookie
SESSION = re.compile("ses_[0-9a-f]{32}")  # PostgreSQL fails with other texts, such as one with a NUL
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


@dataclass
class Visit:
    """A request of a shopper. `cookie` is the new value of the cookie, empty to remove it, None to leave it.

    `stale` tells that the session of the cookie has ended.
    """

    request: Request
    service: Service
    served: Served
    session: SessionRow | None = None
    stale: bool = False
    cookie: str | None = None

    @property
    def private(self) -> bool:
        """Whether the browser asks not to use what is said (Global Privacy Control)."""
        return self.request.headers.get("sec-gpc") == "1"

    def started(self, sent: Sent, start: StartBody | None = None, consent: Consent = "none") -> SessionRow:
        """The session, which begins with the first form that is sent, then with this consent."""
        if self.stale or (self.session is None and sent.after_turn):  # such as one deleted in another tab
            raise Problem("session-expired")
        if self.session is None:
            self.request.app.state.access.limit(self.request, "sessions")
            wanted = SessionBody(category=self.served.category, start=start or StartBody(), consent=consent)
            answer = self.service.start(wanted, "page", key="page", secret=sent.key)
            self.session = self.service.open(answer.session_id, answer.session_token)
            self.cookie = f"{answer.session_id}.{answer.session_token}"
        return self.session

    def turn(self, sent: Sent, **fields: Any) -> None:
        """Add a turn."""
        session = self.started(sent)
        try:
            turn = TurnBody(after_turn=sent.after_turn, **fields)
        except ValidationError:
            raise wrong("/says", "invalid") from None
        self.service.add_turn(session, turn, sent.stored_key, linked=True)
        self.request.app.state.measures.turns.labels(session.category).inc()

    def page(
        self, message: ProblemView | None = None, status: int = 200, sent: Sent | None = None
    ) -> Response:
        """The page with the present state of the conversation, and what was typed into a form that was refused."""
        values = state(self.request, self.service, self.served, self.session) | {
            "private": self.private,
            "message": message,
            "draft": sent.says if sent else "",
            "typed": sent if sent and (sent.price_from or sent.price_to) else None,
        }
        return self._with_cookie(render(self.request, "shop.html", values, status))

    def redirect(self, query: str) -> Response:
        """Answer to a form."""
        return self._with_cookie(RedirectResponse(f"{PREFIX}/{self.served.category}{query}", 303))

    def _with_cookie(self, response: Response) -> Response:
        if self.cookie is not None:
            response.set_cookie(
                cookie_name(self.served.category),
                self.cookie,
                max_age=LIFE if self.cookie else 0,
                path=PREFIX,
                secure=self.request.url.scheme == "https",
                httponly=True,
                samesite="lax",  # a link of the shop goes on with the conversation; forms of others are refused
            )
        return response


def _here(request: Request, category: str) -> Visit:
    service: Service = request.app.state.service
    visit = Visit(request, service, service.models.active(category))
    id, _, token = request.cookies.get(cookie_name(visit.served.category), "").partition(".")
    if SESSION.fullmatch(id):
        try:
            visit.session = service.open(id, token)
        except Problem as problem:
            if problem.code != "unknown-session":
                raise
        if visit.session is None or visit.session.category != visit.served.category:
            visit.session, visit.stale = None, True
    if visit.session and visit.private and visit.session.consent != "none":
        service.store.set_consent(id, "none")
        visit.session = replace(visit.session, consent="none")
    return visit


Here = Annotated[Visit, Depends(_here)]
