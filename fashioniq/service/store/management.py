"""What a shop manages: its products, the models that serve each category, comparisons of two models in service, and API
keys, of whose secrets only hashes are stored.
"""

import hashlib
from collections.abc import Iterator, Sequence
from secrets import token_hex, token_urlsafe
from typing import Any

from msgspec.structs import asdict, replace
from sqlalchemy import Connection, Subquery, bindparam, delete, func, insert, select, update

from fashioniq.files import UserError
from fashioniq.service.store.database import Database, each, find, reads, those_in, writes
from fashioniq.service.store.engine import available
from fashioniq.service.store.rows import ExperimentRow, KeyRow, ModelRow, ProductRow
from fashioniq.service.store.tables import api_key, category_model, experiment, product, session


class Management(Database):
    """Products, models, experiments, of which a category has one at a time, and API keys."""

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

    @writes
    def begin_experiment(self, connection: Connection, new: ExperimentRow) -> None:
        """Store an experiment. Raises UserError if another one of its category is running."""
        for other in find(connection, ExperimentRow, experiment.c.category == new.category, _RUNNING):
            raise UserError(
                f"{other.challenger} is compared with {other.running} already; end that by --end {new.category}"
            )
        connection.execute(insert(experiment).values(asdict(new)))

    @writes
    def end_experiment(self, connection: Connection, id: str, verdict: str) -> ExperimentRow:
        """End an experiment, unless it has ended: the first verdict stays. Return it as it is stored."""
        ended = {"ended_at": self.now(), "verdict": verdict}
        connection.execute(update(experiment).where(experiment.c.id == id, _RUNNING).values(ended))
        return find(connection, ExperimentRow, experiment.c.id == id)[0]

    @reads
    def running_experiments(self, connection: Connection) -> list[ExperimentRow]:
        """Experiments that have not ended."""
        return find(connection, ExperimentRow, _RUNNING)

    @reads
    def is_full(self, connection: Connection, one: ExperimentRow) -> bool:
        """Whether an experiment has as many conversations that count as it may have, one of each client."""
        of_it = session.c.experiment == one.id
        every, known = func.count(), func.count(session.c.client)
        clients = every - known + func.count(session.c.client.distinct())
        # clients are counted only where there are enough conversations, as the index alone does not tell them
        return all(
            (connection.scalar(select(count).where(of_it)) or 0) >= one.most for count in (every, clients)
        )

    @reads
    def count_later(self, connection: Connection, id: str) -> int:
        """Number of conversations of an experiment that do not count, as their client had an earlier one."""
        places = places_of_clients(id)
        return connection.scalar(select(func.count()).select_from(places).where(places.c.place > 1)) or 0

    def experiment(self, id: str) -> ExperimentRow | None:
        """An experiment, or None."""
        return self.one(ExperimentRow, experiment.c.id == id)

    @reads
    def experiments(self, connection: Connection, category: str) -> list[ExperimentRow]:
        """Experiments of a category, oldest first."""
        order = experiment.c.started_at, experiment.c.id
        return find(connection, ExperimentRow, experiment.c.category == category, order=order)

    def add_key(self, scopes: Sequence[str], limits: dict[str, Any] | None = None) -> tuple[str, str]:
        """Create a key; return its id, and its secret, which is not stored: ID.RANDOM."""
        id = f"key_{token_hex(6)}"
        secret = f"{id}.{token_urlsafe(32)}"
        values = {"id": id, "sha256": hashed(secret), "scopes": list(scopes), "limits": limits or {}}
        self.write(lambda connection: connection.execute(insert(api_key).values(values)))
        return id, secret

    def find_key(self, secret: str) -> KeyRow | None:
        """The key with a secret, or None if there is none or it was revoked."""
        of_secret = api_key.c.id == secret.partition(".")[0], api_key.c.sha256 == hashed(secret)
        return self.one(KeyRow, *of_secret, api_key.c.revoked_at.is_(None))

    def revoke_key(self, id: str) -> bool:
        """Refuse a key from now on; return whether it was valid."""
        revoked = update(api_key).where(api_key.c.id == id, api_key.c.revoked_at.is_(None))
        return self.write(
            lambda connection: connection.execute(revoked.values(revoked_at=self.now())).rowcount > 0
        )


_ACTIVE = category_model.c.active_from.is_not(None), category_model.c.retired_at.is_(None)
_RUNNING = experiment.c.ended_at.is_(None)


def _next_revision(connection: Connection) -> int:
    return (connection.scalar(select(func.max(product.c.revision))) or 0) + 1


def places_of_clients(id: str) -> Subquery:
    """Ids of the conversations of an experiment whose consent was not withdrawn, and their place from 1 among those of
    their client. One without a client is the first of its own.
    """
    place = func.row_number().over(
        partition_by=func.coalesce(session.c.client, session.c.id),
        order_by=(session.c.created_at, session.c.id),
    )
    measured = session.c.experiment == id, session.c.consent != "none"
    return select(session.c.id, place.label("place")).where(*measured).subquery()


def hashed(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
