"""Products of the shop, and the models that serve each category."""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict, replace
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from fashioniq.files import UserError
from fashioniq.service.store.database import Database, each, find, reads, those_in, writes
from fashioniq.service.store.engine import available
from fashioniq.service.store.rows import ModelRow, ProductRow
from fashioniq.service.store.tables import category_model, product


class ProductsAndModels(Database):
    """Products and models."""

    @writes
    def add_products(
        self, connection: Connection, category: str, products: Sequence[ProductRow]
    ) -> list[str]:
        """Store products, or replace those of the same id; return "created" or "updated" for each."""
        same, there = product.c.category == category, product.c.deleted_at.is_(None)
        known = those_in(connection, product.c.id, {one.id for one in products}, same, there)
        results, rows, revision = [], {}, _next_revision(connection)
        for one in products:
            results.append("updated" if one.id in known or one.id in rows else "created")
            rows[one.id] = asdict(replace(one, category=category, revision=revision))
        if rows:
            replaced = delete(product).where(same, product.c.id == bindparam("replaced"))
            connection.execute(replaced, [{"replaced": id} for id in rows])
            connection.execute(insert(product), list(rows.values()))
        return results

    @writes
    def patch_product(
        self,
        connection: Connection,
        category: str,
        id: str,
        imported: ProductRow | None = None,
        **changes: Any,
    ) -> ProductRow | None:
        """Change columns of a product and return it; None if there is no such product.

        A product that was never stored starts as `imported`, which the catalog folder has of it.
        """
        same = product.c.category == category, product.c.id == id
        if imported and not find(connection, ProductRow, *same):
            connection.execute(insert(product).values(asdict(imported)))
        set_too = {"updated_at": self.now(), "revision": _next_revision(connection)}
        changed = update(product).where(*same, product.c.deleted_at.is_(None)).values(changes | set_too)
        return find(connection, ProductRow, *same)[0] if connection.execute(changed).rowcount else None

    def products(self, category: str, since_revision: int = 0) -> list[ProductRow]:
        """Products changed after a revision, in the order of their ids; deleted ones have `deleted_at`."""
        return list(self.each_product(category, since_revision))

    def each_product(self, category: str, since_revision: int = 0) -> Iterator[ProductRow]:
        """The same products, read one after the other, as they were when the first one was read."""
        where = product.c.category == category, product.c.revision > since_revision
        with available(), self.engine.connect() as connection:
            yield from each(connection, ProductRow, *where, order=[product.c.id])

    @writes
    def register_model(self, connection: Connection, new: ModelRow) -> ModelRow:
        """Store a model and return it. A stored one of the same run gets the new folder and products only.

        Raises UserError if the id belongs to another run.
        """
        same = category_model.c.id == new.id
        for stored in find(connection, ModelRow, same):
            if (stored.category, stored.run_sha256) != (new.category, new.run_sha256):
                raise UserError(
                    f"the model {new.id} is another run of {stored.category}; use another version"
                )
            changed = {name: getattr(new, name) for name in ("folder", "features", "gallery_size")}
            connection.execute(update(category_model).where(same).values(changed))
            return replace(stored, **changed)
        connection.execute(insert(category_model).values(asdict(new)))
        return new

    @writes
    def activate_model(self, connection: Connection, id: str) -> ModelRow:
        """Let a model serve its category instead of the present one. Raises UserError if there is no such model."""
        found = find(connection, ModelRow, category_model.c.id == id)
        if not found:
            raise UserError(f"there is no model {id}; register it first")
        if found[0].active_from and not found[0].retired_at:
            return found[0]
        now, others = self.now(), category_model.c.category == found[0].category
        connection.execute(update(category_model).where(others, *_ACTIVE).values(retired_at=now))
        active = {"active_from": now, "retired_at": None}
        connection.execute(update(category_model).where(category_model.c.id == id).values(active))
        return replace(found[0], **active)

    def active_model(self, category: str) -> ModelRow | None:
        """The model that serves a category, or None."""
        return self.one(ModelRow, category_model.c.category == category, *_ACTIVE)

    @reads
    def categories(self, connection: Connection) -> list[str]:
        """Categories with an active model."""
        return sorted(connection.scalars(select(category_model.c.category).where(*_ACTIVE).distinct()))

    def model(self, id: str) -> ModelRow | None:
        """A model, or None."""
        return self.one(ModelRow, category_model.c.id == id)

    @reads
    def models(self, connection: Connection, category: str) -> list[ModelRow]:
        """Models of a category in the order of registration."""
        order = category_model.c.registered_at, category_model.c.id
        return find(connection, ModelRow, category_model.c.category == category, order=order)


_ACTIVE = category_model.c.active_from.is_not(None), category_model.c.retired_at.is_(None)


def _next_revision(connection: Connection) -> int:
    return (connection.scalar(select(func.max(product.c.revision))) or 0) + 1
