"""The HTTP interface: routes of the API, errors as problem details, limits and headers."""

import asyncio
import json
import logging
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute

from fashioniq import __version__
from fashioniq.data.images import UnreadableImage
from fashioniq.data.words import composed
from fashioniq.service import page, uploads
from fashioniq.service.access import Access, bearer
from fashioniq.service.measures import Measures
from fashioniq.service.pictures import WIDTHS, webp
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.replies import result
from fashioniq.service.schemas import (
    MAX_K,
    BulkReply,
    ConsentBody,
    EventBody,
    EventsBody,
    Identifier,
    ItemStatus,
    ModelBody,
    Number,
    ProductBody,
    ProductPatchBody,
    ProductsBody,
    RankingReply,
    SearchBody,
    SessionBody,
    SessionReply,
    TurnBody,
    UploadReply,
)
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import EventRow, ProductRow, Replaced, SessionRow, Unavailable

UNNAMED = "application/octet-stream"  # type of a picture sent by a program that does not look into it
JSON = 64 * 1024  # bytes of a request
BULK = 2 * 1024 * 1024  # bytes of products or events
SENT = 600.0  # seconds in which a client has to send a request; a slow one needs minutes for a picture
ADMITTED = 32  # requests in work; more are refused at once, as they would wait for a second
REFRESH = 1.0  # seconds between looks at what other processes changed
SWEEP = 3600.0  # seconds between removals of what is too old
ENDED = 600.0  # seconds for the last look
PROBLEM = "application/problem+json"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
}
OF_STATUS = {
    400: "malformed",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
}
log = logging.getLogger("fashioniq.service")

Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200, pattern=r"^[!-~]+$")]
Many = Annotated[int, Query(ge=1, le=MAX_K)]


class App(FastAPI):
    """FastAPI that refuses requests at once which would wait too long, and answers too large bodies with problems: its
    own answers to them are plain texts. `admitted` is the number of requests in work, whose body is complete: clients
    may send theirs slowly.
    """

    admitted = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if (problem := self._refused(scope)) is not None:  # before any work for them
            request = Request(scope | {"app": self})
            request.state.id = secrets.token_hex(8)
            await _answer(request, problem)(scope, receive, send)
            return
        counted, parts, until = False, list[Any](), asyncio.get_running_loop().time() + SENT

        async def in_time() -> Any:
            try:
                async with asyncio.timeout_at(until):
                    return await receive()
            except TimeoutError:
                return {"type": "http.disconnect"}

        async def received() -> Any:
            nonlocal counted
            message = parts.pop() if parts else await (receive() if counted else in_time())
            if not counted and not message.get("more_body"):
                counted = True
                self.admitted += 1
            return message

        try:
            parts.append(await received())
            await self._with_problems(scope, received, send)
        finally:
            self.admitted -= counted

    def _refused(self, scope: Any) -> Problem | None:
        if self.admitted >= ADMITTED and scope["path"].startswith("/v1/"):
            return Problem("busy", retry_after=1)
        if "\0" in scope["path"]:  # PostgreSQL has no such texts
            return Problem("not-found")
        return Problem("malformed") if b"%00" in scope["query_string"] else None

    async def _with_problems(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""  # in place of the library's

        async def send_problem(message: Any) -> None:
            nonlocal body
            if message["type"] == "http.response.start" and message["status"] == 413:
                kinds = [value for name, value in message["headers"] if name == b"content-type"]
                if not kinds[0].startswith(PROBLEM.encode()):
                    body = json.dumps(Problem("too-large").content(secrets.token_hex(8))).encode()
                    headers = [
                        (b"content-type", PROBLEM.encode()),
                        (b"content-length", str(len(body)).encode()),
                    ]
                    message = message | {"headers": headers}
            elif body:
                message = message | {"body": body}
            await send(message)

        await super().__call__(scope, receive, send_problem)


def create_app(service: Service, access: Access) -> FastAPI:
    """The application of a service, with the API and the page."""
    measures = Measures()
    app = App(
        title="fashioniq",
        version=__version__,
        summary="Dialog-based search for fashion products",
        lifespan=_background(service, measures),
        max_body_size=JSON,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=_routes(),
    )
    app.state.service, app.state.access, app.state.measures = service, access, measures
    app.exception_handler(Problem)(_problem)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(Unavailable)(_unavailable)
    app.exception_handler(ClientDisconnect)(_incomplete)
    app.exception_handler(Exception)(_unexpected)
    app.middleware("http")(_observed(measures, service))
    return app


@lru_cache(maxsize=1)
def _routes() -> list[BaseRoute]:
    """Routes of the API and the page. They find their service in the state of the application, so all
    applications of a process share them.
    """
    problems: dict[int | str, dict[str, Any]] = {
        "4XX": {"description": "Problem", "content": {PROBLEM: {}}},
        "503": {"description": "Busy or without its database", "content": {PROBLEM: {}}},
    }
    router = APIRouter(
        responses=problems, max_body_size=JSON, generate_unique_id_function=lambda route: str(route.name)
    )
    for add in (_add_operations, _add_search, _add_sessions, _add_catalog, page.add_routes):
        add(router)
    return router.routes


def _background(service: Service, measures: Measures) -> Callable[[FastAPI], Any]:
    """Life of the application: look for changes of other processes, store events that waited for the database, and
    remove what is too old.
    """

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        ended, swept = threading.Event(), 0.0

        def refresh() -> None:
            nonlocal swept
            service.models.refresh_all()
            service.models.settle()
            if time.monotonic() - swept > SWEEP:
                service.store.sweep(service.store.now())
                swept = time.monotonic()

        def replay() -> None:
            while not ended.is_set() and (outcomes := Counter(service.events.replay())):
                for outcome, count in outcomes.items():
                    measures.waited.labels(outcome).inc(count)
                if dropped := outcomes["unknown"] + outcomes["damaged"]:
                    log.warning("%d of %d events that waited were dropped", dropped, outcomes.total())

        def run() -> None:
            while not ended.wait(REFRESH):
                for task in (refresh, replay):
                    try:
                        task()
                    except Exception as error:
                        reason = str(error) if isinstance(error, Unavailable) else type(error).__name__
                        log.warning("%s failed: %s", task.__name__, reason)

        thread = threading.Thread(target=run, name="refresh", daemon=True)
        thread.start()
        yield
        ended.set()
        thread.join(ENDED)
        if thread.is_alive():
            log.error("the thread %r has not ended within %g seconds", thread.name, ENDED)

    return life


Handler = Callable[[Request], Awaitable[Response]]


def _observed(measures: Measures, service: Service) -> Callable[[Request, Handler], Awaitable[Response]]:
    """Middleware that adds an id and headers, and measures and logs each request without its texts."""

    async def observe(request: Request, call_next: Handler) -> Response:
        request.state.id = secrets.token_hex(8)
        began = time.perf_counter()
        if request.app.admitted > ADMITTED and request.url.path.startswith(page.PREFIX):
            response = _answer(request, Problem("busy", retry_after=1))
        else:
            response = await call_next(request)
        route = getattr(request.scope.get("route"), "path", "none")
        seconds = time.perf_counter() - began
        measures.seconds.labels(request.method, route, response.status_code).observe(seconds)
        measures.waiting.set(service.inference.waiting)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-store")
        response.headers["X-Request-Id"] = request.state.id
        line = f"{request.state.id} {request.method} {route} {response.status_code} {1000 * seconds:.0f} ms"
        log.info(line)
        return response

    return observe


def _answer(request: Request, problem: Problem) -> Response:
    request.app.state.measures.problems.labels(problem.code).inc()
    headers = {**HEADERS, "Cache-Control": "no-store"}  # an unexpected error does not pass the middleware
    if problem.retry_after:
        headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if request.url.path.startswith(page.PREFIX):
        return page.problem_page(request, problem, headers)
    content = problem.content(getattr(request.state, "id", ""))
    return JSONResponse(content, problem.status, headers, media_type=PROBLEM)


async def _problem(request: Request, error: Any) -> Response:
    return _answer(request, error)


async def _unavailable(request: Request, error: Any) -> Response:
    return _answer(request, Problem("database", retry_after=5))


async def _incomplete(request: Request, error: Any) -> Response:
    """For a client that went away before its request was complete, or sent it too slowly."""
    return _answer(request, Problem("malformed"))


async def _invalid(request: Request, error: Any) -> Response:
    return _answer(request, Problem("invalid", errors_of(error.errors())))


async def _http(request: Request, error: Any) -> Response:
    return _answer(request, Problem(OF_STATUS.get(error.status_code, "malformed")))


async def _unexpected(request: Request, error: Exception) -> Response:
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f"{where.tb_frame.f_code.co_qualname}:{where.tb_lineno}" if where else "?"
    log.error("%s failed: %s in %s", getattr(request.state, "id", ""), type(error).__name__, place)
    return _answer(request, Problem("internal"))


def errors_of(errors: Any) -> list[dict[str, str]]:
    """Place and reason of each wrong value, without the value; names that the client made up are left out."""
    found = []
    for one in errors[:20]:
        parts = one["loc"][:-1] if one["type"] == "extra_forbidden" else one["loc"]
        known = [str(part) for part in parts[1:] if re.fullmatch(r"[a-z_0-9]{1,40}", str(part))]
        found.append({"pointer": "/" + "/".join(known), "reason": one["type"]})
    return found


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _allowed(scope: str, limited: str = "") -> Any:
    """Dependency that checks the scope of the caller, and counts the request."""

    def check(request: Request) -> None:
        request.app.state.access.require(request, scope)
        if limited:
            request.app.state.access.limit(request, limited)

    return Depends(check)


def _session(request: Request, session_id: str) -> SessionRow:
    """The session of the address, which the token of the request opens."""
    return _service(request).open(session_id, bearer(request))


Open = Annotated[SessionRow, Depends(_session)]
Of = Annotated[Service, Depends(_service)]


def _add_operations(router: APIRouter) -> None:
    @router.get("/livez", tags=["operations"])
    def alive() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "ok"}

    @router.get("/readyz", tags=["operations"])
    def ready(service: Of) -> dict[str, Any]:
        """Whether models are loaded and the database can be written."""
        try:
            service.store.check()
        except Replaced:
            raise Problem("database-replaced", retry_after=5) from None
        if not service.models.categories:
            raise Problem("busy", retry_after=5)
        return {"status": "ok", "categories": service.models.categories}

    @router.get(
        "/metrics", tags=["operations"], response_class=PlainTextResponse, dependencies=[_allowed("admin")]
    )
    def metrics(request: Request) -> Response:
        """Measures in the text format of Prometheus."""
        return Response(request.app.state.measures.text(), media_type="text/plain; version=0.0.4")

    @router.post("/v1/models", status_code=201, tags=["models"], dependencies=[_allowed("admin")])
    def register(service: Of, body: ModelBody) -> dict[str, Any]:
        """Load a run of the folder of models, and activate it if asked to."""
        served = service.models.register_named(body.run)
        if body.activate:
            service.models.activate(served.version)
        return _about(served, active=service.models.is_active(served))

    @router.post("/v1/models/{version}/activate", tags=["models"], dependencies=[_allowed("admin")])
    def activate(service: Of, version: str) -> dict[str, Any]:
        """Let a registered model serve its category; an earlier one is a rollback. Sessions keep their model."""
        return _about(service.models.activate(version), active=True)

    @router.get("/v1/models", tags=["models"], dependencies=[_allowed("admin")])
    def models(service: Of, category: str) -> list[dict[str, Any]]:
        """Models of a category, oldest first."""
        return [
            {
                "version": model.id,
                "active": model.active_from is not None and model.retired_at is None,
                "registered_at": model.registered_at,
                "products": model.gallery_size,
            }
            for model in service.store.models(category)
        ]


def _about(served: Served, active: bool) -> dict[str, Any]:
    return {
        "category": served.category,
        "model": served.version,
        "active": active,
        "products": len(served.system.gallery),
        "words": len(served.system.vocabulary.words) if served.system.vocabulary else None,
        "features": served.features,
        "limits": {"max_words": served.max_words, "max_turns": served.max_turns},
        "metrics": served.metrics,
        "sizes": served.shelf.sizes,
        "requests": served.requests,
    }


def _add_search(router: APIRouter) -> None:
    search = [_allowed("search", "search")]

    @router.get("/v1/categories", tags=["search"])
    def categories(service: Of) -> list[str]:
        """Categories with an active model."""
        return service.models.categories

    @router.get("/v1/categories/{category}", tags=["search"])
    def category(service: Of, category: str) -> dict[str, Any]:
        """The active model of a category, and what it can do."""
        return _about(service.models.active(category), active=True)

    @router.post("/v1/categories/{category}/search", tags=["search"], dependencies=search)
    def find(service: Of, category: str, body: SearchBody) -> RankingReply:
        """Products for a whole dialog; nothing is stored."""
        return service.search(category, body)

    @router.get("/v1/categories/{category}/products/{product_id}", tags=["search"])
    def product(service: Of, category: str, product_id: str) -> dict[str, Any]:
        """A product."""
        served = service.models.having(category, product_id)
        product_id = served.own(product_id)
        found = result(served, served.system.cards.product(product_id, 0.0), 1, [])
        shown = found.model_dump(exclude={"rank", "score", "why"})
        return shown | {"attributes": served.system.cards.attributes.get(product_id, [])}

    @router.get(
        "/v1/categories/{category}/products/{product_id}/similar", tags=["search"], dependencies=search
    )
    def similar(service: Of, category: str, product_id: str, k: Many = 8) -> RankingReply:
        """More products like one product."""
        return service.similar(category, product_id, k)

    @router.get(
        "/v1/categories/{category}/products/{product_id}/image", tags=["search"], response_class=Response
    )
    def image(
        service: Of, category: str, product_id: str, w: Annotated[int, Query(ge=1, le=2000)] = 320
    ) -> Response:
        """The picture of a product as WebP, in the smallest offered width that is wide enough."""
        served = service.models.having(category, product_id)
        path = served.system.cards.images.get(served.own(product_id))
        if path is None:
            raise Problem("unknown-picture")
        try:
            content = webp(path, min((width for width in WIDTHS if width >= w), default=WIDTHS[-1]))
        except UnreadableImage:
            raise Problem("unknown-picture") from None
        return Response(content, media_type="image/webp", headers={"Cache-Control": "public, max-age=86400"})


async def _content(request: Request) -> bytes:
    """The picture in the body of a request."""
    if not request.headers.get("content-type", "").startswith(("image/", UNNAMED)):
        raise Problem("unsupported-media-type")
    return await request.body()


def _add_sessions(router: APIRouter) -> None:
    @router.post("/v1/sessions", status_code=201, tags=["sessions"])
    def start(request: Request, service: Of, body: SessionBody, key: Key = None) -> SessionReply:
        """Begin a conversation. Browsers need no API key; their number per hour is limited."""
        access: Access = request.app.state.access
        access.limit(request, "sessions")
        found, secret = access.key(request)
        if found:
            access.require(request, "search")
        return service.start(body, body.origin, key if found else None, secret)

    binary = {"schema": {"type": "string", "format": "binary"}}  # generators of clients do not have image/*
    body = {"required": True, "content": {UNNAMED: binary}}

    @router.post(
        "/v1/pictures",
        status_code=201,
        tags=["sessions"],
        max_body_size=uploads.MAX_BYTES,
        openapi_extra={"requestBody": body},
    )
    def upload(
        request: Request, service: Of, category: str, content: Annotated[bytes, Depends(_content)]
    ) -> UploadReply:
        """Upload a picture as the body (image/*, application/octet-stream), to start from it or to talk about it."""
        request.app.state.access.limit(request, "uploads")
        return service.upload(category, content)

    @router.get("/v1/sessions/{session_id}", tags=["sessions"])
    def read(service: Of, session: Open) -> SessionReply:
        """All turns of a session."""
        return service.read(session)

    @router.post("/v1/sessions/{session_id}/turns", status_code=201, tags=["sessions"])
    def turn(request: Request, service: Of, session: Open, body: TurnBody, key: Key = None) -> RankingReply:
        """Say something, like a product, or change the filters."""
        request.app.state.access.limit(request, "turns")
        answer = service.add_turn(session, body, key)
        request.app.state.measures.turns.labels(session.category).inc()
        return answer

    @router.delete("/v1/sessions/{session_id}/turns/{n}", tags=["sessions"])
    def undo(service: Of, session: Open, n: Number) -> SessionReply:
        """Take turn n and all later ones back."""
        return service.undo(session, n)

    @router.get("/v1/sessions/{session_id}/turns/{n}/picture", tags=["sessions"], response_class=Response)
    def generated(request: Request, service: Of, session: Open, n: Number) -> Response:
        """The picture generated from the words of turn n, as WebP."""
        request.app.state.access.limit(request, "turns")
        return Response(service.picture(session, n), media_type="image/webp")

    @router.put("/v1/sessions/{session_id}/consent", status_code=204, tags=["sessions"])
    def consent(service: Of, session: Open, body: ConsentBody) -> None:
        """Change what the conversation may be used for."""
        service.store.set_consent(session.id, body.consent)

    @router.get("/v1/sessions/{session_id}/export", tags=["sessions"])
    def export(service: Of, session: Open) -> Response:
        """All that is stored of a session."""
        stored = service.store.export_session(session.id)
        return Response(json.dumps(stored, default=str), media_type="application/json")

    @router.delete("/v1/sessions/{session_id}", status_code=204, tags=["sessions"])
    def erase(service: Of, session: Open) -> None:
        """Erase a session."""
        service.store.erase_session(session.id)

    @router.delete(
        "/v1/clients/{client_id}", status_code=204, tags=["sessions"], dependencies=[_allowed("admin")]
    )
    def erase_client(service: Of, client_id: Identifier) -> None:
        """Erase all sessions of a client."""
        service.store.erase_client(client_id)

    @router.post(
        "/v1/events",
        status_code=202,
        tags=["events"],
        dependencies=[_allowed("events")],
        max_body_size=BULK,
    )
    def events(request: Request, service: Of, body: EventsBody) -> BulkReply:
        """What shoppers did with products, such as purchases. Repeated events count once.

        While the database is not available, they are accepted and stored later, if their query is known then.
        """
        items, good = _each(EventBody, body.events, "event_id")
        now = service.store.now()
        rows = [
            EventRow(
                event_id=one.event_id,
                query_id=one.query_id,
                session_id=one.session_id,
                action=one.action_name,
                product_id=service.models.own(one.event_attributes.object.object_id),
                position=one.event_attributes.position.ordinal if one.event_attributes.position else None,
                value_minor=one.event_attributes.value_minor,
                client_at=one.timestamp,
                server_at=now,
            )
            for one in good.values()
        ]
        outcomes = service.events.add(rows)
        request.app.state.measures.waited.labels("waiting").inc(outcomes.count("waiting"))
        for number, outcome in zip(good, outcomes, strict=True):
            if outcome == "unknown":
                items[number].status, items[number].reason = 404, "unknown_query"
        return BulkReply(errors=any(item.status >= 400 for item in items), items=items)


def _each(kind: Any, given: Sequence[Any], name: str) -> tuple[list[ItemStatus], dict[int, Any]]:
    """A status for each item, and the valid items by their number."""
    items, good = [], {}
    for number, one in enumerate(given):
        id = one.get(name) if isinstance(one, dict) else None
        try:
            good[number] = kind.model_validate(one)
            items.append(ItemStatus(id=str(id), status=202))
        except ValidationError as error:
            first = errors_of([{"loc": ("body", *e["loc"]), "type": e["type"]} for e in error.errors()])[0]
            shown = (
                id if isinstance(id, str) and re.fullmatch(r"[\w.:-]{1,200}", id, re.ASCII) else f"#{number}"
            )
            items.append(ItemStatus(id=shown, status=422, reason=f"{first['pointer']}: {first['reason']}"))
    return items, good


def _imported(service: Service, served: Served, product_id: str) -> ProductRow | None:
    """What is shown of a product, as a row; None if nothing is known."""
    if (shown := served.shelf.row(served.own(product_id))) is None:
        return None
    return ProductRow(
        category=served.category,
        id=product_id,
        title=shown.title,
        price_minor=shown.price_minor,
        currency=shown.currency,
        sizes=list(shown.sizes),
        in_stock=shown.in_stock is not False,
        url=shown.url,
        updated_at=service.store.now(),
    )


def _add_catalog(router: APIRouter) -> None:
    catalog = [_allowed("catalog")]

    @router.put(
        "/v1/categories/{category}/products", tags=["catalog"], dependencies=catalog, max_body_size=BULK
    )
    def put(service: Of, category: str, body: ProductsBody) -> BulkReply:
        """Add or replace prices, sizes, stock and titles of products.

        A product without a vector in the active model is stored, but cannot be found until a model has one.
        """
        served = service.models.active(category)
        items, good = _each(ProductBody, body.products, "id")
        rows = [
            ProductRow(
                category=served.category,
                id=one.id,
                title=one.title,
                price_minor=one.price.minor if one.price else None,
                currency=one.price.currency if one.price else None,
                sizes=one.sizes or [],
                in_stock=True if one.in_stock is None else one.in_stock,
                url=one.url,
                group_id=one.group_id,
                updated_at=service.store.now(),
            )
            for one in good.values()
        ]
        for number, outcome in zip(good, service.store.add_products(served.category, rows), strict=True):
            items[number].status = 201 if outcome == "created" else 200
            items[number].searchable = served.own(good[number].id) in served
        served.shelf.put(service.store.products(served.category, served.shelf.revision))
        return BulkReply(errors=any(item.status >= 400 for item in items), items=items)

    @router.patch(
        "/v1/categories/{category}/products/{product_id}",
        status_code=204,
        tags=["catalog"],
        dependencies=catalog,
    )
    def patch(service: Of, category: str, product_id: str, body: ProductPatchBody) -> None:
        """Change price, sizes or stock of a product."""
        served, changes = service.models.active(category), body.model_dump(exclude_unset=True)
        product_id = composed(product_id)  # as rows have it, whatever the catalog writes
        if "price" in changes:
            price = changes.pop("price")
            changes |= {"price_minor": price and price["minor"], "currency": price and price["currency"]}
        changes = {name: value for name, value in changes.items() if value is not None or "price" in name}
        imported = _imported(service, served, product_id)
        if service.store.patch_product(served.category, product_id, imported, **changes) is None:
            raise wrong("/product_id", "unknown_product", "unknown-product")
        served.shelf.put(service.store.products(served.category, served.shelf.revision))

    @router.delete(
        "/v1/categories/{category}/products/{product_id}",
        status_code=204,
        tags=["catalog"],
        dependencies=catalog,
    )
    def delete(service: Of, category: str, product_id: str) -> None:
        """Remove a product from all searches."""
        served, product_id = service.models.active(category), composed(product_id)
        imported = _imported(service, served, product_id)
        if not service.store.delete_product(served.category, product_id, imported):
            raise wrong("/product_id", "unknown_product", "unknown-product")
        served.shelf.put(service.store.products(served.category, served.shelf.revision))
