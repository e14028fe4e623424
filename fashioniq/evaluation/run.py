"""Evaluator of all systems: run the dialogs, compute the measures and write all results."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from msgspec import UNSET, UnsetType
from rich.progress import track
from torch import Tensor

from fashioniq import plugins
from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import Metrics
from fashioniq.data.trec import FILES, TrecTopic, depth_of, run_lines, write_topics
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.protocols import DialogRun, MeasuredTask, Protocol, protocol_of
from fashioniq.files import explaining, together, write_json, write_jsonl, write_text
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.rollout import Dialogs, System, rollout
from fashioniq.loop.task import Task
from fashioniq.metrics.measures import check_measures
from fashioniq.provenance import provenance

OF_ONE = ("dialogs.jsonl", *FILES)  # results of a single task, which those of several ones replace
TOP = 10  # items of the last ranking in dialogs.jsonl, and of the rankings that can be stable


Evaluated = list[Any]  # metrics.json of each task


def evaluate_tasks(tasks: Sequence[Task], out: Path, batch_size: int) -> Evaluated:
    """Run all dialogs, write all results to `out`, and return each metrics.json.

    An earlier result in `out` is replaced when all files of the new one are made. Raises UserError before the first
    dialog if `out` cannot be written, or if the tasks do not fit their protocol.
    """
    check_results(out)
    return write_results(measure_tasks(tasks, batch_size), out)


def measure_tasks(tasks: Sequence[Task], batch_size: int) -> list[MeasuredTask[Any]]:
    """Run all dialogs of the tasks and measure them. Raises UserError before the first if a measure fails."""
    protocol = protocol_of(tasks)
    check_measures()
    found = []
    for task in tasks:
        done = run_dialogs(task, protocol, batch_size)
        metrics = protocol.metrics(task, done)
        metrics.provenance = provenance(task.data, retriever=task.retriever)
        found.append(MeasuredTask(task, metrics, done))
    return found


def write_results(found: Sequence[MeasuredTask], out: Path) -> Evaluated:
    """Write all results to `out` in the place of earlier ones, or none if one cannot be made.

    Each of several tasks has its own folder in `out`; they share one table and one page. Files metrics.json are the
    first to be removed and the last to be written.
    """
    protocol = protocol_of([one.task for one in found])
    found = [replace(one, folder=folder_of(one, found, out)) for one in found]
    replaced = [str((one.folder / "metrics.json").relative_to(out)) for one in found]
    with together(out, "metrics.json", *replaced, *OF_ONE, *protocol.replaced):
        for one in found:
            write_jsonl(one.folder / "dialogs.jsonl", one.done.dialogs)
            write_text(one.folder / "run.trec", "".join(line + "\n" for line in one.done.rankings))
            write_topics(one.folder, one.done.topics)
        protocol.write_report(out, found)
        for one in found:
            write_json(one.folder / "metrics.json", one.metrics.plain())
    return [one.metrics for one in found]


def folder_of(one: MeasuredTask, found: Sequence[MeasuredTask], out: Path) -> Path:
    """Folder of the results of one of several tasks, or of a single one."""
    return out / one.task.name if len(found) > 1 else out


def print_results(evaluated: Sequence[Metrics], out: Path) -> None:
    """Print the measures and the folder of the results."""
    protocol = plugins.find("protocols", evaluated[0].protocol)
    for metrics in evaluated:
        protocol.print(metrics)
    protocol.print_all(evaluated)
    pages = "the folders N-turns" if not (out / "report.html").exists() else out / "report.html"
    print(f"results in {out}; dialogs in {pages}")


@torch.no_grad()
def run_dialogs(task: Task, protocol: Protocol, batch_size: int) -> DialogRun:
    """Run the dialogs of a task batch by batch. Raises UserError if a query is not finite."""
    ranks: list[Tensor] = []
    best: list[Tensor] = []
    logged: list[LoggedDialog] = []
    rankings: list[str] = []
    topics: list[TrecTopic] = []
    size = 0
    with explaining(f"{task.name}: the queries are not finite numbers", f"; {task.advice}", NotFiniteError):
        for start in track(range(0, task.count, batch_size), description=task.name):
            system, user, target_B, first = task.batch(range(start, min(start + batch_size, task.count)))
            dialogs = rollout(system, user, target_B, first, task.turns)
            size = len(system.gallery)
            tops = [system.gallery.top(query_BD, depth_of(size)) for query_BD in dialogs.state.queries]
            ranks.append(dialogs.ranks.cpu())
            best.append(torch.stack([item_BK[:, :TOP] for _, item_BK in tops], 1).cpu())
            logged += _logged(dialogs, tops, system)
            names = [
                f"{dialog.target}-{number}" if task.repeated else str(dialog.target)
                for number, dialog in enumerate(logged[start:], start)
            ]
            rankings += _rankings(protocol, names, tops, system.gallery.items.ids)
            topics += _topics(protocol, names, logged[start:])
    return DialogRun(torch.cat(ranks), torch.cat(best), size, logged, rankings=rankings, topics=topics)


def _logged(
    dialogs: Dialogs, tops: Sequence[tuple[Tensor, Tensor]], system: System
) -> Iterator[LoggedDialog]:
    """Lines of dialogs.jsonl."""
    ids = system.gallery.items.ids
    best_BT = torch.stack([item_BK[:, 0] for _, item_BK in tops], 1).tolist()
    last_BK = tops[-1][1][:, :TOP].tolist()
    turns_B = dialogs.logged(ids, system.vocabulary)
    pictures: Sequence[str | UnsetType | None] = [UNSET] * len(turns_B)
    if system.shows_pictures:
        last = system.offer(dialogs.state)
        pictures = [message.picture for message in last.logged(ids, len(turns_B))]
    for target, turns, best_T, last_K, picture in zip(
        dialogs.target_B.tolist(), turns_B, best_BT, last_BK, pictures, strict=True
    ):
        for turn, best in zip(turns, best_T, strict=True):
            turn.shown = (turn.offer and turn.offer.item) or ids[best]
        yield LoggedDialog(
            target=ids[target], turns=turns, top=[ids[item] for item in last_K], picture=picture
        )


def _rankings(
    protocol: Protocol, names: Sequence[str], tops: Sequence[tuple[Tensor, Tensor]], ids: Sequence[str]
) -> Iterator[str]:
    """Lines of run.trec. Queries are NAME-TURN, with the name of the dialog."""
    found = [tuple(part.tolist() for part in top) for top in tops]
    for row, name in enumerate(names):
        for turn, (distances, items) in enumerate(found, start=protocol.first_turn):
            scores = [protocol.score(distance) for distance in distances[row]]
            yield from run_lines(f"{name}-{turn}", [ids[item] for item in items[row]], scores)


def _topics(protocol: Protocol, names: Sequence[str], dialogs: Sequence[LoggedDialog]) -> Iterator[TrecTopic]:
    """Queries of run.trec. Their texts are the dialogs up to the turn: "[product] request [product] request"."""
    for name, dialog in zip(names, dialogs, strict=True):
        said: list[str] = []
        for turn, logged in enumerate(dialog.turns, start=protocol.first_turn):
            if logged.offer and logged.offer.item:
                said.append(f"[{logged.offer.item}]")
            said += [logged.words] if logged.words else []
            yield TrecTopic(f"{name}-{turn}", str(dialog.target), " ".join(said))
