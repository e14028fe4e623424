"""Comparisons of two models in service."""

from msgspec.structs import asdict
from sqlalchemy import Connection, Subquery, func, insert, select, update

from fashioniq.files import UserError
from fashioniq.service.store.database import Database, find, reads, writes
from fashioniq.service.store.rows import ExperimentRow
from fashioniq.service.store.tables import experiment, session


class ExperimentTable(Database):
    """Experiments, of which a category has one at a time."""

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


_RUNNING = experiment.c.ended_at.is_(None)


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
