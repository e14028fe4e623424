"""Comparisons of two models in service."""

import msgspec
from sqlalchemy import Connection, Subquery, func, insert, select, update

from fashioniq.files import UserError
from fashioniq.service.store.database import Database, find
from fashioniq.service.store.rows import ExperimentRow
from fashioniq.service.store.tables import experiment, session


class ExperimentTable(Database):
    """Experiments, of which a category has one at a time."""

    def begin_experiment(self, new: ExperimentRow) -> None:
        """Store an experiment. Raises UserError if another one of its category is running."""

        def work(connection: Connection) -> None:
            for other in find(connection, ExperimentRow, experiment.c.category == new.category, _RUNNING):
                raise UserError(
                    f"{other.challenger} is compared with {other.running} already; end that by --end {new.category}"
                )
            connection.execute(insert(experiment).values(msgspec.structs.asdict(new)))

        self.write(work)

    def end_experiment(self, id: str, verdict: str) -> ExperimentRow:
        """End an experiment, unless it has ended: the first verdict stays. Return it as it is stored."""

        def work(connection: Connection) -> ExperimentRow:
            ended = update(experiment).where(experiment.c.id == id, _RUNNING)
            connection.execute(ended.values(ended_at=self.now(), verdict=verdict))
            return find(connection, ExperimentRow, experiment.c.id == id)[0]

        return self.write(work)

    def running_experiments(self) -> list[ExperimentRow]:
        """Experiments that have not ended."""
        return self.read(lambda connection: find(connection, ExperimentRow, _RUNNING))

    def is_full(self, one: ExperimentRow) -> bool:
        """Whether an experiment has as many conversations that count as it may have, one of each client."""
        of_it = session.c.experiment == one.id
        every, known = func.count(), func.count(session.c.client)
        clients = every - known + func.count(session.c.client.distinct())

        def work(connection: Connection) -> bool:
            # clients are counted only where there are enough conversations, as the index alone does not tell them
            return all(
                (connection.scalar(select(count).where(of_it)) or 0) >= one.most for count in (every, clients)
            )

        return self.read(work)

    def count_later(self, id: str) -> int:
        """Number of conversations of an experiment that do not count, as their client had an earlier one."""
        places = places_of_clients(id)
        counted = select(func.count()).select_from(places).where(places.c.place > 1)
        return self.read(lambda connection: connection.scalar(counted)) or 0

    def experiment(self, id: str) -> ExperimentRow | None:
        """An experiment, or None."""
        return self.one(ExperimentRow, experiment.c.id == id)

    def experiments(self, category: str) -> list[ExperimentRow]:
        """Experiments of a category, oldest first."""
        order = experiment.c.started_at, experiment.c.id
        return self.read(
            lambda connection: find(connection, ExperimentRow, experiment.c.category == category, order=order)
        )


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


_RUNNING = experiment.c.ended_at.is_(None)
