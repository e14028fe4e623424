"""Evaluator of all systems: run the dialogs, compute the measures and write all results."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from msgspec import UNSET, UnsetType
from rich.progress import track
from torch import Tensor

from fashioniq.askers.generated_picture import GeneratedPicture
from fashioniq.data.evaluations import (
    EarlyStop,
    LoggedDialog,
    MostSaid,
    RoundCosts,
    RoundMetrics,
    TurnMetrics,
)
from fashioniq.data.trec import TrecTopic, depth_of, run_lines, write_topics
from fashioniq.data.words import tokenize
from fashioniq.evaluation.protocols import PROTOCOLS, Protocol
from fashioniq.files import (
    UserError,
    check_writable,
    discard,
    remove_leftovers,
    write_json,
    write_jsonl,
    write_text,
)
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.rollout import Dialogs, System, rollout
from fashioniq.loop.task import Task
from fashioniq.metrics.chat import early_stop
from fashioniq.metrics.speech import true_by_labels
from fashioniq.provenance import provenance

TOP = 10  # items of the last ranking in dialogs.jsonl, and of the rankings that can be stable


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


Evaluated = list[TurnMetrics | RoundMetrics]  # metrics.json of each task


@dataclass(frozen=True)
class MeasuredTask:
    """A task with its finished dialogs and their measures."""

    task: Task
    metrics: TurnMetrics | RoundMetrics
    done: DialogRun


def evaluate(tasks: Sequence[Task], out: Path, batch_size: int) -> Evaluated:
    """Run all dialogs, write all results to `out`, and return each metrics.json.

    An earlier result in `out` is replaced when all dialogs are finished. Raises UserError before the first
    dialog if `out` cannot be written.
    """
    check_writable(out)
    return write_results(measured(tasks, batch_size), out)


def measured(tasks: Sequence[Task], batch_size: int) -> list[MeasuredTask]:
    """Run all dialogs of the tasks and measure them."""
    protocol = PROTOCOLS[tasks[0].protocol]
    found = []
    for task in tasks:
        done = run_dialogs(task, protocol, batch_size)
        metrics = protocol.metrics(task, done.rank_NT, done.gallery)
        said = (
            (turn.words or "", str(dialog.target), turn.shown or "")
            for dialog in done.dialogs
            for turn in dialog.turns
        )
        share = true_by_labels(said, task.labels) if task.labels else None
        if isinstance(metrics, TurnMetrics):
            metrics.true_by_labels = UNSET if share is None else share
            metrics.most_frequent = _most_frequent(done.dialogs)
        elif isinstance(metrics, RoundMetrics):
            metrics.early_stop = EarlyStop(*early_stop(done.rank_NT, done.top_NTK, done.gallery))
            metrics.costs = _costs(done.dialogs, task.costs())
        metrics.provenance = provenance(task.data, retriever=task.retriever)
        found.append(MeasuredTask(task, metrics, done))
    return found


def write_results(found: Sequence[MeasuredTask], out: Path) -> Evaluated:
    """Write all results to `out` in the place of earlier ones, and return each metrics.json.

    Each of several tasks has its own folder in `out`; they share one table and one page. Files
    metrics.json are removed first and written last.
    """
    protocol = PROTOCOLS[found[0].task.protocol]
    folders = [out / one.task.name if len(found) > 1 else out for one in found]
    discard(out, *(str((folder / "metrics.json").relative_to(out)) for folder in folders), *protocol.replaced)
    for one, folder in zip(found, folders, strict=True):
        remove_leftovers(folder)
        write_jsonl(folder / "dialogs.jsonl", one.done.dialogs)
        write_text(folder / "run.trec", "".join(line + "\n" for line in one.done.rankings))
        write_topics(folder, one.done.topics)
        for name, content in one.task.files.items():
            write_json(folder / name, content)
    protocol.write_report(out, [(one.metrics, one.done.dialogs) for one in found], found[0].task.cards)
    for one, folder in zip(found, folders, strict=True):
        write_json(folder / "metrics.json", one.metrics.plain())
    return [one.metrics for one in found]


def print_results(evaluated: Sequence[TurnMetrics | RoundMetrics], out: Path) -> None:
    """Print the measures and the folder of the results."""
    for metrics in evaluated:
        PROTOCOLS[metrics.protocol].print(metrics)
    PROTOCOLS[evaluated[0].protocol].print_all(evaluated)
    pages = "the folders N-turns" if not (out / "report.html").exists() else out / "report.html"
    print(f"results in {out}; dialogs in {pages}")


def _most_frequent(dialogs: Sequence[LoggedDialog]) -> MostSaid | UnsetType:
    """Sentence that the user said most often; unset without words."""
    said = Counter(turn.words for dialog in dialogs for turn in dialog.turns if turn.words)
    return MostSaid(said.most_common(1)[0][0], max(said.values()) / said.total()) if said else UNSET


def _costs(dialogs: Sequence[LoggedDialog], pictures: Sequence[Mapping[str, float]]) -> list[RoundCosts]:
    """Costs of every round: words per dialog, and the costs of the `pictures`, one row per round if there are
    any.
    """
    rows = []
    for number, turns in enumerate(zip(*(dialog.turns for dialog in dialogs), strict=True)):
        asked, said = (
            sum(len(tokenize((message and message.text) or "")) for message in side) / len(turns)
            for side in ([turn.offer for turn in turns], [turn.reply for turn in turns])
        )
        further = pictures[number] if pictures else {}
        rows.append(RoundCosts(round=number, words=said, asked=asked, **further))
    return rows


@torch.no_grad()
def run_dialogs(task: Task, protocol: Protocol, batch_size: int) -> DialogRun:
    """Run the dialogs of a task batch by batch. Raises UserError if a query is not finite."""
    ranks: list[Tensor] = []
    best: list[Tensor] = []
    logged: list[LoggedDialog] = []
    rankings: list[str] = []
    topics: list[TrecTopic] = []
    size = 0
    try:
        for start in track(range(0, task.count, batch_size), description=task.name):
            system, user, target_B, first = task.batch(range(start, min(start + batch_size, task.count)))
            dialogs = rollout(system, user, target_B, first, task.turns)
            size = len(system.gallery)
            tops = [system.gallery.top(query_BD, depth_of(size)) for query_BD in dialogs.talk.queries]
            ranks.append(dialogs.ranks.cpu())
            best.append(torch.stack([item_BK[:, :TOP] for _, item_BK in tops], 1).cpu())
            logged += _logged(dialogs, tops, system)
            names = [
                f"{dialog.target}-{number}" if task.repeated else str(dialog.target)
                for number, dialog in enumerate(logged[start:], start)
            ]
            rankings += _rankings(protocol, names, tops, system.gallery.items.ids)
            topics += _topics(protocol, names, logged[start:])
    except NotFiniteError as error:
        raise UserError(
            f"{task.name}: the queries are not finite numbers ({error}); {task.advice}"
        ) from error
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
    if isinstance(system.asker, GeneratedPicture):
        last = system.offer(dialogs.talk)
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
