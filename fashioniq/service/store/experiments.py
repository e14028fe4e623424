"""Comparisons of two models in service."""

import msgspec
from sqlalchemy import Connection, func, insert, select, update

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

    def count_conversations(self, id: str) -> int:
        """Number of conversations of an experiment."""
        counted = select(func.count()).where(session.c.experiment == id)
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


_RUNNING = experiment.c.ended_at.is_(None)
