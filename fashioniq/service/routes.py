"""Routes of searches and sessions."""

import json
import re
from functools import partial
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from fashioniq.data.images import UnreadableImage
from fashioniq.service import uploads
from fashioniq.service.access import Access, bearer
from fashioniq.service.pictures import WIDTHS, webp
from fashioniq.service.problems import Problem
from fashioniq.service.replies import result
from fashioniq.service.reply_schemas import RankingReply, SessionReply, UploadReply
from fashioniq.service.schemas import (
    MAX_K,
    SHOWN,
    ConsentBody,
    Identifier,
    Number,
    SearchBody,
    SessionBody,
    TurnBody,
)
from fashioniq.service.served_model import Served
from fashioniq.service.service import Service
from fashioniq.service.store import SessionRow

UNNAMED = "application/octet-stream"  # type of a picture sent by a program that does not look into it
JSON = 64 * 1024  # bytes of a request
PROBLEM = "application/problem+json"
UNKNOWN = "unknown field; /openapi.json lists those that are taken here"
Key = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200, pattern=r"^[!-~]+$")]
Many = Annotated[int, Query(ge=1, le=MAX_K)]


def errors_of(errors: Any) -> list[dict[str, str]]:
    """Place and reason of each wrong value, without the value; names that the client made up are left out."""
    found = []
    for one in errors[:20]:
        unknown = one["type"] == "extra_forbidden"
        parts = one["loc"][:-1] if unknown else one["loc"]
        if one["type"] == "json_invalid":
            parts = ()  # its place is a number of characters
        known = [str(part) for part in parts[1:] if re.fullmatch(r"[a-z_0-9]{1,40}", str(part))]
        found.append({"pointer": "/" + "/".join(known), "reason": UNKNOWN if unknown else one["type"]})
    return found


def _service(request: Request) -> Service:
    return cast(Service, request.app.state.service)


def allowed(scope: str, limited: str = "") -> Any:
    """Dependency that checks the scope of the caller, and counts the request."""

    def check(request: Request) -> None:
        request.app.state.access.require(request, scope)
        if limited:
            request.app.state.access.limit(request, limited)

    return Depends(check)


new_router = partial(
    APIRouter,
    responses={
        "4XX": {"description": "Problem", "content": {PROBLEM: {}}},
        "503": {"description": "Busy or without its database", "content": {PROBLEM: {}}},
    },
    max_body_size=JSON,
    generate_unique_id_function=lambda route: str(route.name),
)


def _session(request: Request, session_id: str) -> SessionRow:
    """The session of the address, which the token of the request opens."""
    return _service(request).open(session_id, bearer(request))


Open = Annotated[SessionRow, Depends(_session)]
Of = Annotated[Service, Depends(_service)]


def about(served: Served, active: bool) -> dict[str, Any]:
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


searches = new_router(tags=["search"])
limited = [allowed("search", "search")]


@searches.get("/v1/categories")
def categories(service: Of) -> list[str]:
    """Categories with an active model."""
    return service.models.categories


@searches.get("/v1/categories/{category}")
def category(service: Of, category: str) -> dict[str, Any]:
    """The active model of a category, and what it can do."""
    return about(service.models.active(category), active=True)


@searches.post("/v1/categories/{category}/search", dependencies=limited)
def find(service: Of, category: str, body: SearchBody) -> RankingReply:
    """Products for a whole dialog; nothing is stored."""
    return service.searches.search(category, body)


@searches.get("/v1/categories/{category}/products/{product_id}")
def product(service: Of, category: str, product_id: str) -> dict[str, Any]:
    """A product."""
    served = service.models.having(category, product_id)
    product_id = served.own(product_id)
    cards = served.system.cards
    shown = result(served, cards.product(product_id, 0.0), 1, []).model_dump(exclude={"rank", "score", "why"})
    return shown | {"attributes": cards.attributes.get(product_id, [])}


@searches.get("/v1/categories/{category}/products/{product_id}/similar", dependencies=limited)
def similar(service: Of, category: str, product_id: str, k: Many = SHOWN) -> RankingReply:
    """More products like one product."""
    return service.searches.similar(category, product_id, k)


@searches.get("/v1/categories/{category}/products/{product_id}/image", response_class=Response)
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
    except (UnreadableImage, OSError):
        raise Problem("unknown-picture") from None
    return Response(content, media_type="image/webp", headers={"Cache-Control": "public, max-age=86400"})


async def _content(request: Request) -> bytes:
    """The picture in the body of a request."""
    if not request.headers.get("content-type", "").startswith(("image/", UNNAMED)):
        raise Problem("unsupported-media-type")
    return await request.body()


sessions = new_router(tags=["sessions"])


@sessions.post("/v1/sessions", status_code=201)
def start(request: Request, service: Of, body: SessionBody, key: Key = None) -> SessionReply:
    """Begin a conversation. Browsers need no API key; without one, the number per hour is limited."""
    access: Access = request.app.state.access
    access.limit(request, "sessions")
    found = access.key(request)
    if found:
        access.require(request, "search")
    return service.start(body, body.origin, key if found else None, bearer(request))


binary = {"schema": {"type": "string", "format": "binary"}}  # generators of clients do not have image/*
body = {"required": True, "content": {UNNAMED: binary}}


@sessions.post(
    "/v1/pictures",
    status_code=201,
    max_body_size=uploads.MAX_BYTES,
    openapi_extra={"requestBody": body},
)
def upload(
    request: Request, service: Of, category: str, content: Annotated[bytes, Depends(_content)]
) -> UploadReply:
    """Upload a picture as the body (image/*, application/octet-stream), to start from it or to talk about it."""
    request.app.state.access.limit(request, "uploads")
    return service.upload(category, content)


@sessions.get("/v1/sessions/{session_id}")
def read(service: Of, session: Open) -> SessionReply:
    """All turns of a session."""
    return service.read(session)


@sessions.post("/v1/sessions/{session_id}/turns", status_code=201)
def turn(request: Request, service: Of, session: Open, body: TurnBody, key: Key = None) -> RankingReply:
    """Say something, like a product, or change the filters."""
    request.app.state.access.limit(request, "turns")
    answer = service.add_turn(session, body, key)
    request.app.state.measures.turns.labels(session.category).inc()
    return answer


@sessions.delete("/v1/sessions/{session_id}/turns/{n}")
def undo(service: Of, session: Open, n: Number) -> SessionReply:
    """Take turn n and all later ones back."""
    return service.undo(session, n)


@sessions.get("/v1/sessions/{session_id}/turns/{n}/picture", response_class=Response)
def generated(request: Request, service: Of, session: Open, n: Number) -> Response:
    """The picture generated from the words of turn n, as WebP."""
    request.app.state.access.limit(request, "turns")
    return Response(service.picture(session, n), media_type="image/webp")


@sessions.put("/v1/sessions/{session_id}/consent", status_code=204)
def consent(service: Of, session: Open, body: ConsentBody) -> None:
    """Change what the conversation may be used for."""
    service.store.set_consent(session.id, body.consent)


@sessions.get("/v1/sessions/{session_id}/export")
def export(service: Of, session: Open) -> Response:
    """All that is stored of a session."""
    stored = service.store.export_session(session.id)
    return Response(json.dumps(stored, default=str), media_type="application/json")


@sessions.delete("/v1/sessions/{session_id}", status_code=204)
def erase(service: Of, session: Open) -> None:
    """Erase a session."""
    service.store.erase_session(session.id)


@sessions.delete("/v1/clients/{client_id:path}", status_code=204, dependencies=[allowed("admin")])
def erase_client(service: Of, client_id: Identifier) -> None:
    """Erase all sessions of a client."""
    service.store.erase_client(client_id)
