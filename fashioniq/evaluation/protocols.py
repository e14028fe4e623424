"""Protocols of dialog evaluations: what a system states, how dialogs are measured, and the files and tables of results.

A protocol is a part, found by the name that `metrics.json` gives it; each of the package's own is a file beside this.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor

from fashioniq import plugins
from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import Metrics
from fashioniq.data.facts import StatedFacts
from fashioniq.data.trec import TrecTopic
from fashioniq.files import UserError, explaining
from fashioniq.loop.task import Task
from fashioniq.metrics.measures import measure
from fashioniq.options import refuse

M = TypeVar("M", bound=Metrics)
M_co = TypeVar("M_co", bound=Metrics, covariant=True)


@dataclass(frozen=True)
class DialogRun:
    """Finished dialogs of a task: 0-based ranks N×T, positions of the best products N×T×TOP, the lines of
    dialogs.jsonl and run.trec, and the queries of its rankings.
    """

    rank_NT: Tensor
    top_NTK: Tensor
    gallery: int
    dialogs: list[LoggedDialog]
    rankings: list[str]
    topics: list[TrecTopic]


@dataclass(frozen=True)
class MeasuredTask(Generic[M_co]):
    """A task with its finished dialogs, their measures, and the folder of its results."""

    task: Task
    metrics: M_co
    done: DialogRun
    folder: Path = Path()


@dataclass(frozen=True)
class Protocol(Generic[M]):
    """Measures of dialogs and the format of their results.

    `facts` is what a system has to state. `first_turn` is the number of the first turn in names and tables. `score`
    makes a score for run.trec of a squared distance. `replaced` are files of earlier results that new ones replace.
    `print` prints the measures of one task, `print_all` those of all tasks together.
    """

    facts: type[StatedFacts]
    metrics: Callable[[Task, DialogRun], M]
    write_report: Callable[[Path, Sequence[MeasuredTask[M]]], None]
    print: Callable[[M], None] = lambda metrics: None
    print_all: Callable[[Sequence[M]], None] = lambda evaluated: None
    first_turn: int = 1
    score: Callable[[float], float] = lambda distance: -distance
    replaced: tuple[str, ...] = ()


def protocol_of(tasks: Sequence[Task]) -> Protocol[Any]:
    """The protocol of the tasks of a system. Raises UserError if they do not fit it, before any dialog."""
    named = {task.protocol for task in tasks}
    if len(named) != 1:
        raise UserError(
            f"expected tasks of one protocol, found {', '.join(sorted(named)) or 'no task'}; correct the system"
        )
    protocol: Protocol[Any] = plugins.find("protocols", next(iter(named)))
    for name in plugins.names("measures"):
        measure(name)
    for task in tasks:
        refuse(
            (
                not isinstance(stated_by(task, protocol), protocol.facts),
                f"the task {task.name} states {type(task.facts).__name__}, but dialogs of the protocol {task.protocol} "
                f"need {protocol.facts.__name__}; correct the system",
            ),
            (
                task.count < 1 or task.turns < 1,
                f"the task {task.name} has {task.count} dialogs of {task.turns} turns; both must be at least 1",
            ),
        )
    if len({task.name for task in tasks}) < len(tasks) or not all(task.name for task in tasks):
        raise UserError("expected different names of the tasks, which name their folders; correct the system")
    return protocol


def stated_by(task: Task, protocol: Protocol[Any]) -> StatedFacts:
    """StatedFacts of a task; those without any value if it states none and none is required."""
    if task.facts is not None:
        return task.facts
    with explaining(
        f"the task {task.name} states no facts, but the protocol {task.protocol} needs {protocol.facts.__name__}",
        "; give them",
        TypeError,  # of a required field
    ):
        return protocol.facts()
