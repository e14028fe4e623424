"""The protocol of ChatIR: question dialogs, measured after every round, where round 0 is the caption."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import UNSET

from fashioniq.data.dialog_log import LoggedDialog
from fashioniq.data.evaluations import EarlyStop, RoundCosts, RoundMetrics
from fashioniq.data.facts import RoundFacts
from fashioniq.data.words import tokenize
from fashioniq.evaluation.protocols import DialogRun, MeasuredTask, Protocol
from fashioniq.files import write_text
from fashioniq.loop.task import Task
from fashioniq.metrics.chat import early_stop, round_measures, round_table
from fashioniq.report.chat import COSTS_TITLE, write_chat_page
from fashioniq.report.tables import csv_table, label, print_table, rounded


def round_metrics(task: Task, done: DialogRun) -> RoundMetrics:
    """Measures and costs of every round, and the measures if dialogs ended when the best products stay the same."""
    facts = task.facts or RoundFacts()
    assert isinstance(facts, RoundFacts), "protocol_of checks it"
    rounds = round_table(done.rank_NT, done.gallery)
    return RoundMetrics(
        protocol=task.protocol,
        name=task.name,
        gallery=done.gallery,
        dialogs=len(done.rank_NT),
        facts=facts,
        rounds=rounds,
        BRI=rounds[-1]["BRI"],
        early_stop=EarlyStop(*early_stop(done.rank_NT, done.top_NTK, done.gallery)),
        costs=_costs(done.dialogs, task.costs()),
    )


def _write_report(out: Path, evaluated: Sequence[MeasuredTask[RoundMetrics]]) -> None:
    rows = [
        [one.metrics.name, *(row[key] for key in ("round", *round_measures()))]
        for one in evaluated
        for row in one.metrics.rounds
    ]
    write_text(out / "table.csv", csv_table(("dialogues", "round", *round_measures()), rows))
    dialogs = [(one.metrics, one.done.dialogs) for one in evaluated]
    write_chat_page(out / "report.html", dialogs, evaluated[0].task.cards)


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


def _print_rounds(metrics: RoundMetrics) -> None:
    facts = metrics.facts
    covered = "" if facts.coverage is UNSET else f", {100 * facts.coverage:.1f} % of it has vectors"
    query = f"; {facts.query}" if facts.query else ""
    print(
        f"{metrics.name}: {metrics.dialogs:,} dialogs, search space {metrics.gallery:,} "
        f"images{covered}{query}"
    )
    cut = facts.cut or None
    rows = [[rounded(name, row[name]) for name in ("round", *round_measures())] for row in metrics.rounds]
    if cut is not None:
        rows = [[*row, str(count)] for row, count in zip(rows, cut, strict=True)]
    print_table(["round", *map(label, round_measures()), *(["cut"] if cut is not None else [])], rows, left=0)
    print(
        "Hits@10: at that round or an earlier one; R@N: at that round. ATR: 1 is best. BRI: lower is better."
    )
    if cut is not None:
        print(f"cut: dialogs truncated to the {facts.limit} tokens that {facts.encoder} accepts")
    if stop := metrics.early_stop:
        figures = ", ".join(f"{name} {rounded(name, value)}" for name, value in stop.measures.items())
        print(f"ended when the ten best stay the same, after {stop.rounds:.1f} rounds on average: {figures}")
    header, *costs = metrics.cost_table()
    if len(header) > 2:
        print(f"\n{COSTS_TITLE}")
        print_table(header, costs, left=0)
    if asked := facts.questions:
        unmarked = f"; {asked.without_mark} rounds have no question mark" if asked.without_mark else ""
        means = f"{asked.exact_repeats:.2f} exact repeats, {asked.unique_tokens:.1f} distinct words"
        print(f"questions per dialog, on average: {means}{unmarked}")


PROTOCOL = Protocol(
    RoundFacts,
    round_metrics,
    _write_report,
    _print_rounds,
    first_turn=0,
    score=lambda distance: 1 - distance / 2,  # cosine similarity of vectors of unit length
    replaced=("table.csv", "report.html"),
)
