"""Routes of operations, models, products and events."""

import re
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.responses import PlainTextResponse
from msgspec.structs import asdict
from pydantic import ValidationError

from fashioniq.data.words import composed
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.reply_schemas import BulkReply, ItemStatus
from fashioniq.service.routes import Of, about, allowed, errors_of, new_router
from fashioniq.service.schemas import (
    EventBody,
    EventsBody,
    ModelBody,
    ProductBody,
    ProductPatchBody,
    ProductsBody,
)
from fashioniq.service.service import Service
from fashioniq.service.store import EventRow, ProductRow, Replaced

WRITTEN = 5.0  # seconds for which a write shows that another one would succeed: anyone may ask, and often
BULK = 2 * 1024 * 1024  # bytes of products or events

operations = new_router()


@operations.get("/livez", tags=["operations"])
def alive() -> dict[str, str]:
    """Whether the process answers."""
    return {"status": "ok"}


@operations.get("/readyz", tags=["operations"])
def ready(service: Of) -> dict[str, Any]:
    """Whether models are loaded and the database can be written, as a write in the last 5 seconds shows."""
    try:
        service.store.check(WRITTEN)
    except Replaced:
        raise Problem("database-replaced", retry_after=5) from None
    if not service.models.categories:
        raise Problem("busy", retry_after=5)
    return {"status": "ok", "categories": service.models.categories}


@operations.get(
    "/metrics", tags=["operations"], response_class=PlainTextResponse, dependencies=[allowed("admin")]
)
def metrics(request: Request) -> Response:
    """Measures in the text format of Prometheus."""
    return Response(request.app.state.measures.text(), media_type="text/plain; version=0.0.4")


@operations.post("/v1/models", status_code=201, tags=["models"], dependencies=[allowed("admin")])
def register(service: Of, body: ModelBody) -> dict[str, Any]:
    """Load a run of the folder of models, and activate it if asked to."""
    served = service.models.register_named(body.run)
    if body.activate:
        service.models.activate(served.version)
    return about(served, active=service.models.is_active(served))


@operations.post("/v1/models/{version}/activate", tags=["models"], dependencies=[allowed("admin")])
def activate(service: Of, version: str) -> dict[str, Any]:
    """Let a registered model serve its category; an earlier one is a rollback. Sessions keep their model."""
    return about(service.models.activate(version), active=True)


@operations.get("/v1/models", tags=["models"], dependencies=[allowed("admin")])
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


def _change(service: Service, category: str, product_id: str, **changes: Any) -> None:
    """Change the row of a product; one that was never stored starts as what is shown of it."""
    served, now = service.models.active(category), service.store.now()
    product_id = composed(product_id)  # as rows have it, whatever the catalog writes
    imported = None
    if (shown := served.shelf.row(served.own(product_id))) is not None:
        imported = ProductRow(
            category=served.category,
            id=product_id,
            updated_at=now,
            **asdict(shown) | {"sizes": list(shown.sizes)},
        )
    if service.store.patch_product(served.category, product_id, imported, **changes) is None:
        raise wrong("/product_id", "unknown_product", "unknown-product")
    served.shelf.put(service.store.products(served.category, served.shelf.revision))


bulk = new_router(tags=["events"])


def each_item(kind: Any, given: Sequence[Any], name: str) -> tuple[list[ItemStatus], dict[int, Any]]:
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


@bulk.post(
    "/v1/events",
    status_code=202,
    dependencies=[allowed("events")],
    max_body_size=BULK,
)
def events(request: Request, service: Of, body: EventsBody) -> BulkReply:
    """What shoppers did with products, such as purchases. Repeated events count once.

    While the database is not available, they are accepted and stored later, if their query is known then.
    """
    items, good = each_item(EventBody, body.events, "event_id")
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


catalog = new_router(tags=["catalog"], dependencies=[allowed("catalog")])


@catalog.put("/v1/categories/{category}/products", max_body_size=BULK)
def put(service: Of, category: str, body: ProductsBody) -> BulkReply:
    """Add or replace prices, sizes, stock and titles of products.

    A product without a vector in the active model is stored, but cannot be found until a model has one.
    """
    served = service.models.active(category)
    items, good = each_item(ProductBody, body.products, "id")
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


@catalog.patch(
    "/v1/categories/{category}/products/{product_id}",
    status_code=204,
)
def patch(service: Of, category: str, product_id: str, body: ProductPatchBody) -> None:
    """Change price, sizes or stock of a product."""
    changes = body.model_dump(exclude_unset=True)
    if "price" in changes:
        price = changes.pop("price")
        changes |= {"price_minor": price and price["minor"], "currency": price and price["currency"]}
    changes = {name: value for name, value in changes.items() if value is not None or "price" in name}
    _change(service, category, product_id, **changes)


@catalog.delete(
    "/v1/categories/{category}/products/{product_id}",
    status_code=204,
)
def delete(service: Of, category: str, product_id: str) -> None:
    """Remove a product from all searches."""
    _change(service, category, product_id, deleted_at=service.store.now())
