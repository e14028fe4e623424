"""The protocol of Fashion IQ: dialogs that refer to products, measured after every turn."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from fashioniq import plugins
from fashioniq.data.evaluations import Success, TurnMetrics
from fashioniq.data.facts import MostSaid, TurnFacts
from fashioniq.evaluation.protocols import DialogRun, MeasuredTask, Protocol
from fashioniq.loop.task import Task
from fashioniq.metrics.measures import average, success, turn_table
from fashioniq.metrics.speech import truthfulness
from fashioniq.report.page import cautions, write_dialog_page
from fashioniq.report.tables import RANKS_COUNT, label, print_table, rounded, success_line

COLUMNS = ("turn", "P", "R@1", "R@5", "R@10", "R@50", "Hits@10", "MRR", "mean_rank", "median_rank")


def turn_metrics(task: Task, done: DialogRun) -> TurnMetrics:
    """Measures after every turn, their average, and the share of dialogs that found their target (Fashion
    IQ).
    """
    table = turn_table(done.rank_NT, done.gallery)
    return TurnMetrics(
        protocol=task.protocol,
        gallery=done.gallery,
        dialogs=len(done.rank_NT),
        facts=with_speech(task, done),
        turns=table,
        average=average(table),
        success=Success(**success(done.rank_NT)),
    )


def with_speech(task: Task, done: DialogRun) -> TurnFacts:
    """Facts of a task, with what was counted of the user's replies: how much is true, and what is said most often."""
    facts = task.facts or TurnFacts()
    assert isinstance(facts, TurnFacts), "protocol_of checks it"
    said = [
        (turn.words or "", str(dialog.target), turn.shown or "")
        for dialog in done.dialogs
        for turn in dialog.turns
    ]
    share = truthfulness(said, task.truth)["true"]
    times = Counter(words for words, _, _ in said if words)
    return msgspec.structs.replace(
        facts,
        true_by_labels=UNSET if share is None else share,
        most_frequent=MostSaid(times.most_common(1)[0][0], max(times.values()) / times.total())
        if times
        else UNSET,
    )


def write_turn_reports(out: Path, evaluated: Sequence[MeasuredTask[TurnMetrics]]) -> None:
    """Write the page of each task."""
    for one in evaluated:
        write_dialog_page(one.folder / "report.html", one.metrics, one.done.dialogs, one.task.cards)


def _print_turns(metrics: TurnMetrics) -> None:
    facts, columns = metrics.facts, [*COLUMNS, *plugins.names("measures")]
    covered = "" if facts.coverage is UNSET else f", {100 * facts.coverage:.1f} % of the split have features"
    where = f"{facts.category}, {facts.split} split: " if facts.category else ""
    print(f"{where}{metrics.dialogs} dialogs, gallery {metrics.gallery}{covered}")
    several = len(metrics.turns) > 1
    average = metrics.average or {}
    mean = ["mean", *(rounded(name, average[name]) for name in columns[1:])] if several else None
    header = [label(name).replace(" ", "\n") for name in columns]
    rows = [[rounded(name, turn[name]) for name in columns] for turn in metrics.turns]
    print_table(header, rows, left=0, last=mean)
    print(RANKS_COUNT)
    if several and metrics.success:
        print(success_line(metrics.success))
    chance = {n: f"R@{n} {min(100, 100 * n / metrics.gallery):.2f}" for n in (10, 50)}
    print(f"chance level: P 50, {chance[10]}, {chance[50]}" + _origin(facts))
    for caution in cautions(metrics):
        print(f"warning: {caution}")


def _origin(facts: TurnFacts) -> str:
    """Line about features, user and catalog; empty for a system without them."""
    if not facts.features:
        return ""
    noise = f", word noise {100 * facts.errors:g} %" if facts.errors else ""
    lines = [f"; features: {facts.features}; user: {facts.user}, {facts.decoding}{noise}"]
    if facts.exclude_shown:
        lines.append("no product is shown twice in a dialog; ranks count all products")
    if facts.score is not UNSET:
        lines.append(f"{facts.score} alone rank the products")
    if index := facts.index:
        how = "".join(f"{name} {index[name]}, " for name in ("nprobe", "efSearch") if name in index)
        recall = f"recall@10 {index['recall@10']:.3f} on {index['queries']} queries"
        lines.append(f"the products shown are found with the index {index['index']}: {how}{recall}")
    true = facts.true_by_labels
    stated = "" if true is UNSET else f"; {100 * true:.1f} % of the statements are true by the labels"
    lines.append(f"pictures: {facts.pictures}; captions: {facts.captions}{stated}")
    return "\n".join(lines)


PROTOCOL = Protocol(TurnFacts, turn_metrics, write_turn_reports, _print_turns)
