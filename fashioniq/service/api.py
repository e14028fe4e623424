"""The HTTP interface: routes of the API, errors as problem details, limits and headers."""

import asyncio
import logging
import secrets
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from fashioniq import __version__
from fashioniq.service import page
from fashioniq.service.access import Access
from fashioniq.service.catalog_routes import bulk, catalog, operations
from fashioniq.service.measures import Measures
from fashioniq.service.problems import PROBLEM_OF, Problem
from fashioniq.service.routes import JSON, PROBLEM, errors_of, searches, sessions
from fashioniq.service.service import Service
from fashioniq.service.store import Unavailable

SENT = 600.0  # seconds in which a client has to send a request; a slow one needs minutes for a picture
ADMITTED = 32  # requests in work; more are refused at once, as they would wait for a second
REFRESH = 1.0  # seconds between looks at what other processes changed
SWEEP = 3600.0  # seconds between removals of what is too old
ENDED = 600.0  # seconds for the last look
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",  # of most answers
}
OF_STATUS = {
    400: "malformed",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
}
ROUTES = [  # they find their service in the state of the application
    route
    for router in (operations, searches, sessions, bulk, catalog, page.router)
    for route in router.routes
]
log = logging.getLogger("fashioniq.service")


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
        if scope["method"] == "HEAD":  # as GET; uvicorn leaves the body out
            scope = scope | {"method": "GET"}
        if (problem := self._refused(scope)) is not None:  # before any work for them
            self.state.measures.add_request(scope["method"], "none", problem.status, 0.0)
            await self._refuse(problem, scope, receive, send)
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

    async def _refuse(self, problem: Problem, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope | {"app": self})
        request.state.id = secrets.token_hex(8)
        await _answer(request, problem)(scope, receive, send)

    async def _with_problems(self, scope: Any, receive: Any, send: Any) -> None:
        replaced = False  # the library's answer

        async def send_problem(message: Any) -> None:
            nonlocal replaced
            too_large = message["type"] == "http.response.start" and message["status"] == 413
            if too_large and Headers(raw=message["headers"])["content-type"].startswith("text/plain"):
                replaced = True
                await self._refuse(Problem("too-large"), scope, receive, send)
            elif not replaced:
                await send(message)

        await super().__call__(scope, receive, send_problem)


def create_app(service: Service, access: Access) -> FastAPI:
    """The application of a service, with the API and the page."""
    app = App(
        title="fashioniq",
        version=__version__,
        summary="Dialog-based search for fashion products",
        lifespan=_background,
        max_body_size=JSON,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={**{kind: _handled for kind in HANDLED}, Exception: _unexpected},
        routes=ROUTES,
    )
    app.state.service, app.state.access, app.state.measures = service, access, Measures()
    app.state.measures.waiting.set_function(lambda: service.inference.waiting)
    app.middleware("http")(_observe)
    return app


@asynccontextmanager
async def _background(app: FastAPI) -> AsyncIterator[None]:
    """Life of the application: look for changes of other processes, store events that waited for the database, and
    remove what is too old.
    """
    service: Service = app.state.service
    ended, swept = threading.Event(), -SWEEP  # the clock begins with the machine

    def refresh() -> None:
        service.models.refresh_all()
        service.experiments.refresh()
        service.models.settle()

    def sweep() -> None:
        nonlocal swept
        if time.monotonic() - swept > SWEEP:
            service.store.sweep()
            swept = time.monotonic()

    def replay() -> None:
        while not ended.is_set() and (outcomes := Counter(service.events.replay())):
            for outcome, count in outcomes.items():
                app.state.measures.waited.labels(outcome).inc(count)
            if dropped := outcomes["unknown"] + outcomes["damaged"]:
                log.warning("%d of %d events that waited were dropped", dropped, outcomes.total())

    def run() -> None:
        while not ended.wait(REFRESH):
            for task in (refresh, sweep, replay):
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


async def _observe(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Middleware that adds an id and headers, and measures and logs each request without its texts."""
    request.state.id = secrets.token_hex(8)
    began, status = time.perf_counter(), 500  # of an exception, which `_unexpected` answers
    try:
        if request.app.admitted > ADMITTED and request.url.path.startswith(page.PREFIX):
            response = _answer(request, Problem("busy", retry_after=1))
        else:
            response = await call_next(request)
        status = response.status_code
    finally:
        route, seconds = getattr(request.scope.get("route"), "path", "none"), time.perf_counter() - began
        request.app.state.measures.add_request(request.method, route, status, seconds)
        log.info(f"{request.state.id} {request.method} {route} {status} {1000 * seconds:.0f} ms")
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["X-Request-Id"] = request.state.id
    return response


def _answer(request: Request, problem: Problem) -> Response:
    request.app.state.measures.problems.labels(problem.code).inc()
    headers = dict(HEADERS)  # an unexpected error does not pass the middleware
    if problem.retry_after:
        headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if request.url.path.startswith(page.PREFIX):
        return page.problem_page(request, problem, headers)
    content = problem.content(getattr(request.state, "id", ""))
    return JSONResponse(content, problem.status, headers, media_type=PROBLEM)


HANDLED: dict[type[Exception], Callable[[Any], Problem]] = PROBLEM_OF | {
    RequestValidationError: lambda error: Problem("invalid", errors_of(error.errors())),
    HTTPException: lambda error: Problem(OF_STATUS.get(error.status_code, "malformed")),
    # a client went away before its request was complete, or sent it too slowly
    ClientDisconnect: lambda _: Problem("malformed"),
}


async def _handled(request: Request, error: Exception) -> Response:
    return _answer(request, next(of for kind, of in HANDLED.items() if isinstance(error, kind))(error))


async def _unexpected(request: Request, error: Exception) -> Response:
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    place, id = frame.f_code.co_qualname, getattr(request.state, "id", "")
    log.error("%s failed: %s in %s:%d", id, type(error).__name__, place, line)
    return _answer(request, Problem("internal"))
