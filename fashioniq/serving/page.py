"""The shopper's page: rendered on the server, so that it works without scripts.

A form is answered with a redirect to the page. page.js sends the same forms with the header X-Fragment, and receives
the part of the page that changes, rendered from the same templates.
"""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlsplit

from fastapi import APIRouter, Depends, Form, Request, Response, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec.structs import replace
from pydantic import BaseModel, Field, ValidationError

from fashioniq.categories import singular
from fashioniq.data.offers import decimals
from fashioniq.serving.answers import result
from fashioniq.serving.problems import TITLES, Problem, wrong
from fashioniq.serving.schemas import (
    MAX_TEXT,
    MAX_TURNS,
    MAX_VALUES,
    Currency,
    Filters,
    Identifier,
    Price,
    PriceFilter,
    Result,
    SessionRequest,
    SizesFilter,
    Start,
    TurnRequest,
    TurnShown,
)
from fashioniq.serving.served import Served
from fashioniq.serving.service import Service
from fashioniq.serving.uploads import MAX_BYTES
from fashioniq.store import Session

PREFIX = "/shop"
STATIC = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
LIFE = 24 * 3600  # seconds of a cookie
FORM = 64 * 1024  # bytes of a form besides its picture
LONGEST = 120  # characters of a title
DIRECTIONS = dict.fromkeys(
    map(ord, "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
)
TEXTS = {  # by code of a problem; the others have their title
    "forbidden": "The request came from another website and was not accepted.",
    "invalid": "This value cannot be used. Correct it and try again.",
    "key-reused": "The conversation has gone on since. This is where it is now.",
    "not-shown": "This product was not shown in this conversation. Choose one of those below.",
    "nothing-understood": "None of these words is known here. Try other words, such as a color, a pattern or a length.",
    "model-retired": "This conversation cannot go on, since the search has changed. Start again.",
    "session-expired": "The conversation has ended.",
    "unreadable-picture": "This picture cannot be read. Choose a JPEG, PNG or WebP of at most 10 MB.",
    "too-many-requests": "That was faster than this service allows.",
    "too-many-turns": f"A conversation has at most {MAX_TURNS} turns. Go back to an earlier one, or start again.",
    "turn-conflict": "The conversation has gone on in another window. This is where it is now.",
    "internal": "Something went wrong. Try again.",
    "busy": "The service is busy at the moment.",
    "engine": "Products cannot be searched at the moment.",
    "database": "Conversations cannot be stored at the moment.",
}
WITH_PRODUCTS = {  # problems that are shown above the products
    "invalid",
    "key-reused",
    "not-shown",
    "nothing-understood",
    "questions-only",
    "too-many-turns",
    "turn-conflict",
    "unreadable-picture",
}


Key = Annotated[Identifier, Field(min_length=16)]


class Sent(BaseModel):
    """Fields of the forms. `key` is random; a repeated request has that of the first."""

    key: Key
    after_turn: Annotated[int, Field(ge=0, le=MAX_TURNS)] = 0
    says: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    chip: Annotated[str, Field(max_length=MAX_TEXT)] = ""
    about: Identifier | None = None
    product: Identifier | None = None
    to: Annotated[int, Field(ge=0, le=MAX_TURNS)] = 0
    price_from: Annotated[str, Field(max_length=20)] = ""
    price_to: Annotated[str, Field(max_length=20)] = ""
    currency: Currency | None = None
    sizes: Annotated[list[Identifier], Field(max_length=MAX_VALUES)] = []
    in_stock: bool = False
    without: Literal["", "price", "sizes", "in_stock", "all"] = ""
    consent: Literal["none", "training"] = "none"

    @property
    def stored_key(self) -> str:
        """Idempotency key as it is stored. The token of a session is made of the key, and so cannot be read there."""
        return hashlib.sha256(self.key.encode()).hexdigest()


@dataclass
class Message:
    """A problem as a shopper sees it, with ways out: known words, the same request again, or a new conversation."""

    code: str
    text: str
    near: list[str] = field(default_factory=list)
    retry: list[tuple[str, str]] | None = None
    action: str = ""
    wait: int = 0  # seconds
    product: str | None = None


@dataclass
class Visit:
    """A request of a shopper. `cookie` is the new value of the cookie, empty to remove it, None to leave it.

    `stale` tells that the session of the cookie has ended.
    """

    request: Request
    service: Service
    served: Served
    session: Session | None = None
    stale: bool = False
    cookie: str | None = None

    @property
    def path(self) -> str:
        """Address of the page of the category."""
        return f"{PREFIX}/{self.served.category}"

    @property
    def private(self) -> bool:
        """Whether the browser asks not to use what is said (Global Privacy Control)."""
        return self.request.headers.get("sec-gpc") == "1"

    def started(self, sent: Sent, start: Start | None = None) -> Session:
        """The session, which begins with the first form that is sent."""
        if self.stale:
            raise Problem("session-expired")
        if self.session is None:
            self.request.app.state.access.limit(self.request, "sessions")
            wanted = SessionRequest(category=self.served.category, start=start or Start())
            answer = self.service.start(wanted, "page", key="page", secret=sent.key)
            self.session = self.service.open(answer.session_id, answer.session_token)
            self.cookie = f"{answer.session_id}.{answer.session_token}"
        return self.session

    def turn(self, sent: Sent, **fields: Any) -> None:
        """Add a turn."""
        session = self.started(sent)
        try:
            turn = TurnRequest(after_turn=sent.after_turn, **fields)
        except ValidationError:
            raise wrong("/says", "invalid") from None
        self.service.add_turn(session, turn, sent.stored_key)
        self.request.app.state.measures.turns.labels(session.category).inc()

    def page(self, message: Message | None = None, status: int = 200, draft: str = "") -> Response:
        """The page with the present state of the conversation."""
        values = _state(self) | {"message": message, "draft": draft}
        return self._with_cookie(_render(self.request, "shop.html", values, status))

    def redirect(self, query: str) -> Response:
        """Answer to a form."""
        return self._with_cookie(RedirectResponse(self.path + query, 303))

    def _with_cookie(self, response: Response) -> Response:
        if self.cookie is not None:
            response.set_cookie(
                _cookie_name(self.served.category),
                self.cookie,
                max_age=LIFE if self.cookie else 0,
                path=PREFIX,
                secure=self.request.url.scheme == "https",
                httponly=True,
                samesite="strict",
            )
        return response


def add_routes(router: APIRouter) -> None:
    """Add the routes of the page."""

    @router.get("/", include_in_schema=False)
    def root() -> Response:
        return RedirectResponse(PREFIX, 303)

    @router.get(PREFIX, include_in_schema=False)
    def categories(request: Request) -> Response:
        names = request.app.state.service.models.categories
        if len(names) == 1:
            return RedirectResponse(f"{PREFIX}/{names[0]}", 303)
        return _render(request, "categories.html", {"categories": names})

    @router.get(PREFIX + "/static/{name}", include_in_schema=False)
    def static(name: str) -> Response:
        if name not in STATIC:
            raise Problem("not-found")
        headers = {"Cache-Control": "public, max-age=31536000, immutable"}
        return Response(_static(name), media_type=STATIC[name], headers=headers)

    @router.get(PREFIX + "/{category}", include_in_schema=False)
    def shop(visit: Here) -> Response:
        if not visit.stale:
            return visit.page()
        visit.cookie = ""
        text = "Your earlier conversation has ended. This is a new one."
        return visit.page(Message("new", text))

    @router.post(
        PREFIX + "/{category}/picture",
        include_in_schema=False,
        dependencies=[Depends(_same_origin)],
        max_body_size=MAX_BYTES + FORM,
    )
    def picture(request: Request, visit: Here, picture: UploadFile, key: Annotated[Key, Form()]) -> Response:
        """Begin again with the products like an uploaded picture."""
        try:
            request.app.state.access.limit(request, "uploads")
            seen = visit.service.upload(visit.served.category, picture.file.read())
            visit.session, visit.stale = None, False
            visit.started(Sent(key=key), Start(picture_id=seen.picture_id))
        except Problem as problem:
            if problem.code not in WITH_PRODUCTS:
                raise
            return visit.page(_message(problem, None), problem.status)
        return visit.redirect("")

    @router.get(PREFIX + "/{category}/turns/{n}/picture", include_in_schema=False)
    def generated(request: Request, visit: Here, n: int) -> Response:
        """The picture generated from the words of a turn."""
        request.app.state.access.limit(request, "turns")
        if visit.session is None:
            raise Problem("unknown-session")
        return Response(visit.service.picture(visit.session, n), media_type="image/webp")

    for name, action in ACTIONS.items():
        router.post(
            f"{PREFIX}/{{category}}/{name}", include_in_schema=False, dependencies=[Depends(_same_origin)]
        )(_answering(action))


def problem_page(request: Request, problem: Problem, headers: dict[str, str]) -> Response:
    """An error as a page, or as the message alone for page.js."""
    sent: Sent | None = getattr(request.state, "sent", None)
    message = _message(problem, sent)
    if sent is not None and problem.status in (429, 500, 503):
        message.action = request.url.path
        given = sent.model_dump(exclude_unset=True, exclude_none=True)
        message.retry = [
            (name, str(one))
            for name, value in given.items()
            for one in (value if isinstance(value, list) else [value])
        ]
    return _render(request, "problem.html", {"message": message}, problem.status, headers)


def _same_origin(request: Request) -> None:
    """Raise Problem for a form of another website."""
    if urlsplit(request.headers.get("origin", "")).netloc != request.headers.get("host", "-"):
        raise Problem("forbidden")


def _here(request: Request, category: str) -> Visit:
    service: Service = request.app.state.service
    visit = Visit(request, service, service.models.active(category))
    id, _, token = request.cookies.get(_cookie_name(visit.served.category), "").partition(".")
    if id:
        try:
            visit.session = service.open(id, token)
        except Problem as problem:
            if problem.code not in ("unknown-session", "session-expired"):
                raise
        if visit.session is None or visit.session.category != visit.served.category:
            visit.session, visit.stale = None, True
    if visit.session and visit.private and visit.session.consent != "none":
        service.store.set_consent(id, "none")
        visit.session = replace(visit.session, consent="none")
    return visit


Here = Annotated[Visit, Depends(_here)]
Action = Callable[[Visit, Sent], str | None]


def _answering(action: Action) -> Callable[..., Response]:
    """Route of a form: a redirect, or the page with what is wrong."""

    def answer(request: Request, visit: Here, sent: Annotated[Sent, Form()]) -> Response:
        request.state.sent = sent
        request.app.state.access.limit(request, "turns")
        try:
            query = action(visit, sent)
        except Problem as problem:
            if problem.code not in WITH_PRODUCTS:
                raise
            return visit.page(_message(problem, sent), problem.status, sent.says)
        return visit.redirect(query or "")

    return answer


def _say(visit: Visit, sent: Sent) -> None:
    visit.turn(sent, says=(sent.chip or sent.says).strip(), about=sent.about)


def _like(visit: Visit, sent: Sent) -> None:
    visit.turn(sent, like=sent.product)


def _filter(visit: Visit, sent: Sent) -> None:
    if sent.without == "all":
        filters = Filters()
    elif sent.without:
        present = visit.service.read(visit.started(sent)).filters
        filters = present.model_copy(update={sent.without: None})
    else:
        filters = _filters(sent)
    visit.turn(sent, filters=filters)


def _undo(visit: Visit, sent: Sent) -> None:
    visit.service.undo(visit.started(sent), sent.to + 1)


def _choose(visit: Visit, sent: Sent) -> str:
    visit.service.choose(visit.started(sent), sent.product or "", sent.stored_key)
    return f"?chosen={quote(sent.product or '', safe='')}"


def _consent(visit: Visit, sent: Sent) -> None:
    consent = "none" if visit.private else sent.consent
    if visit.session is not None or consent != "none":
        visit.service.store.set_consent(visit.started(sent).id, consent)


def _delete(visit: Visit, sent: Sent) -> str:
    if visit.session is not None:
        visit.service.store.erase_session(visit.session.id)
    visit.cookie = ""
    return "?deleted"


def _restart(visit: Visit, sent: Sent) -> None:
    visit.session, visit.stale, visit.cookie = None, False, ""
    if sent.product:
        visit.started(sent, Start(product_id=sent.product))


ACTIONS: dict[str, Action] = {
    "say": _say,
    "like": _like,
    "filters": _filter,
    "undo": _undo,
    "choose": _choose,
    "consent": _consent,
    "delete": _delete,
    "restart": _restart,
}


def _filters(sent: Sent) -> Filters:
    """Filters of a form. Raises Problem for a price that is not a number."""
    price = None
    if sent.currency and (sent.price_from.strip() or sent.price_to.strip()):
        bounds = (_minor(text, sent.currency) for text in (sent.price_from, sent.price_to))
        try:
            price = PriceFilter(currency=sent.currency, **dict(zip(("gte", "lte"), bounds, strict=True)))
        except ValidationError:
            raise wrong("/price", "invalid") from None
    return Filters(
        price=price,
        sizes=SizesFilter(any=sent.sizes) if sent.sizes else None,
        in_stock=True if sent.in_stock else None,
    )


def _minor(text: str, currency: str) -> int | None:
    """Minor units of an amount such as 59.90 or 59,90; None for an empty text. Raises Problem for other texts."""
    if not text.strip():
        return None
    try:
        return int(Decimal(text.strip().replace(",", ".")).scaleb(decimals(currency)))
    except (InvalidOperation, ValueError, OverflowError):
        raise wrong("/price", "not_a_number") from None


def _state(visit: Visit) -> dict[str, Any]:
    """Values of the template for the present state of a conversation."""
    service, served, session = visit.service, visit.served, visit.session
    if session is None:
        last, turns, filters = service.first(served.category), [], Filters()
        about = None if served.asks or not last.results else last.results[0].product_id
    else:
        stored = service.read(session)
        served = service.models.version(session.model)
        last, turns, filters, about = stored.last, stored.turns, stored.filters, stored.about
    mentioned = {one for turn in turns for one in (turn.about, *turn.shown[:1])}
    named = {one: _product(served, one) for one in mentioned if one and one in served}
    query = visit.request.query_params
    chosen = query.get("chosen")
    if not any(chosen in turn.shown for turn in turns):
        chosen = None
    return {
        "served": served,
        "path": visit.path,
        "last": last,
        "after": turns[-1].turn if turns else 0,
        "turns": turns,
        "previous": _previous(turns),
        # a model that generates pictures searches with the last words alone, so that they are changed
        "again": next((turn.says for turn in reversed(turns) if turn.says), "") if served.draws else "",
        "named": named,
        "about": about,
        "filters": filters,
        "without": served.shelf.without_each(filters) if not last.results else {},
        "chosen": _product(served, chosen) if chosen else None,
        "chosen_row": served.shelf.row(chosen) if chosen else None,
        "deleted": "deleted" in query and session is None,
        "consent": session.consent if session else "none",
        "private": visit.private,
    }


def _previous(turns: list[TurnShown]) -> int | None:
    """Number of the turn to which the last one can be taken back."""
    return turns[-2].turn if len(turns) > 1 else None


def _product(served: Served, name: str) -> Result:
    return result(served, served.system.cards.product(name, 0.0), 1, [])


def _message(problem: Problem, sent: Sent | None) -> Message:
    return Message(
        problem.code,
        TEXTS.get(problem.code, TITLES[problem.code][1] + "."),
        near=problem.more.get("near", []),
        wait=problem.retry_after or 0,
        product=sent.about or sent.product if sent else None,
    )


def _render(
    request: Request,
    template: str,
    values: dict[str, Any],
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    """A page, or its part that changes for page.js."""
    fragment = "x-fragment" in request.headers
    category = request.path_params.get("category", "")
    values = values | {"fragment": fragment, "category": category, "key": secrets.token_urlsafe(24)}
    text = _environment().get_template(template).render(values)
    # with no-referrer, browsers would send forms without their origin
    sent_with = {"Referrer-Policy": "same-origin", "Vary": "X-Fragment"}
    return HTMLResponse(text, status, (headers or {}) | sent_with)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("fashioniq.serving"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(amount=_amount, bound=_bound, plain=_plain)
    made.globals.update(
        PREFIX=PREFIX, MAX_TEXT=MAX_TEXT, MAX_VALUES=MAX_VALUES, singular=singular, address=_address
    )
    return made


def _amount(price: Price) -> str:
    """A price in its currency, such as 59.90 EUR."""
    return f"{_major(price.minor, price.currency):,} {price.currency}"


def _bound(price: PriceFilter | None, name: str) -> str:
    """Lower or upper bound of a price as a person types it."""
    minor = getattr(price, name, None)
    return "" if price is None or minor is None else str(_major(minor, price.currency))


def _major(minor: int, currency: str) -> Decimal:
    return Decimal(minor).scaleb(-decimals(currency))


def _plain(text: str) -> str:
    """A title without marks that change the direction of other texts, shortened."""
    text = text.translate(DIRECTIONS)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _address(name: str) -> str:
    """Address of a static file, which changes with its content."""
    return f"{PREFIX}/static/{name}?v={hashlib.sha256(_static(name)).hexdigest()[:8]}"


@cache
def _static(name: str) -> bytes:
    return files("fashioniq.serving").joinpath("static", name).read_bytes()


def _cookie_name(category: str) -> str:
    return f"fashioniq-{category}"
