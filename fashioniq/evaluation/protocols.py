"""Protocols of dialog evaluations: how measures are computed from ranks, written, rendered and printed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET
from torch import Tensor

from fashioniq.data import trec
from fashioniq.data.cards import ItemCards
from fashioniq.data.evaluations import LoggedDialog, RoundMetrics, TurnMetrics, metrics_of
from fashioniq.evaluation.sessions import SUMMARY, print_sessions, session_metrics, write_session_report
from fashioniq.files import write_text
from fashioniq.loop.task import Task
from fashioniq.metrics.chat import MEASURES, round_table
from fashioniq.metrics.ranking import average, success, turn_table
from fashioniq.report.cautions import cautions
from fashioniq.report.chat import COSTS_TITLE, write_chat_page
from fashioniq.report.page import write_dialog_page
from fashioniq.report.tables import RANKS_COUNT, csv_table, label, print_table, rounded, success_line

COLUMNS = ("turn", "P", "R@1", "R@5", "R@10", "R@50", "Hits@10", "MRR", "mean_rank", "median_rank")
Evaluated = Sequence[tuple[Any, list[LoggedDialog]]]  # metrics and dialogs of each task


@dataclass(frozen=True)
class Protocol:
    """Measures of dialogs and the format of their results.

    `first_turn` is the number of the first turn in names and tables. `score` makes a score for run.trec
    of a squared distance. `replaced` are files of earlier results that are removed before new ones are computed.
    `print` prints the measures of one task, `print_all` those of all tasks together.
    """

    first_turn: int
    score: Callable[[float], float]
    replaced: tuple[str, ...]
    metrics: Callable[[Task, Tensor, int], TurnMetrics | RoundMetrics]
    write_report: Callable[[Path, Evaluated, ItemCards], None]
    print: Callable[[Any], None]
    print_all: Callable[[Sequence[Any]], None] = lambda evaluated: None


def _turn_metrics(task: Task, rank_NT: Tensor, gallery: int) -> TurnMetrics:
    """Measures after every turn, their average, and the share of dialogs that found their target (Fashion
    IQ).
    """
    table = turn_table(rank_NT, gallery)
    measured = {"turns": table, "average": average(table), "success": success(rank_NT)}
    about = {"protocol": task.protocol, "gallery": gallery, "dialogs": len(rank_NT)}
    return metrics_of({**about, **task.facts, **measured}, TurnMetrics)


def _write_turn_report(out: Path, evaluated: Evaluated, cards: ItemCards) -> None:
    ((metrics, records),) = evaluated
    write_dialog_page(out / "report.html", metrics, records, cards)


def _print_turns(metrics: TurnMetrics) -> None:
    covered = (
        "" if metrics.coverage is UNSET else f", {100 * metrics.coverage:.1f} % of the split have features"
    )
    where = f"{metrics.category}, {metrics.split} split: " if metrics.category else ""
    print(f"{where}{metrics.dialogs} dialogs, gallery {metrics.gallery}{covered}")
    several = len(metrics.turns) > 1
    average = metrics.average or {}
    mean = ["mean", *(rounded(name, average[name]) for name in COLUMNS[1:])] if several else None
    header = [label(name).replace(" ", "\n") for name in COLUMNS]
    rows = [[rounded(name, turn[name]) for name in COLUMNS] for turn in metrics.turns]
    print_table(header, rows, left=0, last=mean)
    print(RANKS_COUNT)
    if several and metrics.success:
        print(success_line(metrics.success))
    chance = {n: f"R@{n} {min(100, 100 * n / metrics.gallery):.2f}" for n in (10, 50)}
    print(f"chance level: P 50, {chance[10]}, {chance[50]}" + _origin(metrics))
    for caution in cautions(metrics):
        print(f"warning: {caution}")


def _origin(metrics: TurnMetrics) -> str:
    """Line about features, user and catalog; empty for a system without them."""
    if not metrics.features:
        return ""
    noise = f", word noise {100 * metrics.errors:g} %" if metrics.errors else ""
    lines = [f"; features: {metrics.features}; user: {metrics.user}, {metrics.decoding}{noise}"]
    if metrics.exclude_shown:
        lines.append("no product is shown twice in a dialog; ranks count all products")
    if index := metrics.index:
        how = "".join(f"{name} {index[name]}, " for name in ("nprobe", "efSearch") if name in index)
        recall = f"recall@10 {index['recall@10']:.3f} on {index['queries']} queries"
        lines.append(f"the products shown are found with the index {index['index']}: {how}{recall}")
    true = metrics.true_by_labels
    stated = "" if true is UNSET else f"; {100 * true:.1f} % of the stated attributes are true by the labels"
    lines.append(f"pictures: {metrics.pictures}; captions: {metrics.captions}{stated}")
    return "\n".join(lines)


def _round_metrics(task: Task, rank_NT: Tensor, gallery: int) -> RoundMetrics:
    """Measures after every round, where round 0 is the caption (ChatIR)."""
    rounds = round_table(rank_NT, gallery)
    measured = {"rounds": rounds, "BRI": rounds[-1]["BRI"]}
    about = {"protocol": task.protocol, "name": task.name, "gallery": gallery, "dialogs": len(rank_NT)}
    return metrics_of({**about, **task.facts, **measured}, RoundMetrics)


def _write_round_report(out: Path, evaluated: Evaluated, cards: ItemCards) -> None:
    rows = [
        [metrics.name, *(row[key] for key in ("round", *MEASURES))]
        for metrics, _ in evaluated
        for row in metrics.rounds
    ]
    write_text(out / "table.csv", csv_table(("dialogues", "round", *MEASURES), rows))
    write_chat_page(out / "report.html", evaluated, cards)


def _print_rounds(metrics: RoundMetrics) -> None:
    covered = "" if metrics.coverage is UNSET else f", {100 * metrics.coverage:.1f} % of it has vectors"
    query = f"; {metrics.query}" if metrics.query else ""
    print(
        f"{metrics.name}: {metrics.dialogs:,} dialogs, search space {metrics.gallery:,} "
        f"images{covered}{query}"
    )
    cut = metrics.cut or None
    rows = [[rounded(name, row[name]) for name in ("round", *MEASURES)] for row in metrics.rounds]
    if cut is not None:
        rows = [[*row, str(count)] for row, count in zip(rows, cut, strict=True)]
    print_table(["round", *MEASURES, *(["cut"] if cut is not None else [])], rows, left=0)
    print(
        "Hits@10: at that round or an earlier one; R@N: at that round. ATR: 1 is best. BRI: lower is better."
    )
    if cut is not None:
        print(f"cut: dialogs truncated to the {metrics.limit} tokens that {metrics.encoder} accepts")
    if stop := metrics.early_stop:
        figures = ", ".join(f"{name} {rounded(name, value)}" for name, value in stop.measures.items())
        print(f"ended when the ten best stay the same, after {stop.rounds:.1f} rounds on average: {figures}")
    header, *costs = metrics.cost_table()
    if len(header) > 2:
        print(f"\n{COSTS_TITLE}")
        print_table(header, costs, left=0)
    if asked := metrics.questions:
        unmarked = f"; {asked.without_mark} rounds have no question mark" if asked.without_mark else ""
        means = f"{asked.exact_repeats:.2f} exact repeats, {asked.unique_tokens:.1f} distinct words"
        print(f"questions per dialog, on average: {means}{unmarked}")


PROTOCOLS = {
    "Fashion IQ dialogs": Protocol(
        first_turn=1,
        score=lambda distance: -distance,
        replaced=(),
        metrics=_turn_metrics,
        write_report=_write_turn_report,
        print=_print_turns,
    ),
    "recorded sessions": Protocol(
        first_turn=1,
        score=lambda distance: -distance,
        replaced=("metrics.json", "*-turns/metrics.json", SUMMARY, "report.html"),
        metrics=session_metrics,
        write_report=write_session_report,
        print=lambda metrics: None,
        print_all=print_sessions,
    ),
    "ChatIR": Protocol(
        first_turn=0,
        score=lambda distance: 1 - distance / 2,  # cosine similarity of vectors of unit length
        replaced=("metrics.json", "dialogs.jsonl", *trec.FILES, "table.csv", "report.html"),
        metrics=_round_metrics,
        write_report=_write_round_report,
        print=_print_rounds,
    ),
}
