"""Results of recorded sessions: measures by number of turns, pooled, and of the clean subset.

Sessions with the same number of turns are one task. The pooled measures are means over all sessions, after
the last turn and after the turn before it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from fashioniq.data.evaluations import Measures, SessionMetrics, Success
from fashioniq.data.facts import SessionFacts
from fashioniq.evaluation.protocols import DialogRun, MeasuredTask, Protocol
from fashioniq.evaluation.turns import with_speech, write_turn_reports
from fashioniq.files import write_json, write_text
from fashioniq.loop.task import Task
from fashioniq.metrics.measures import average, measure, success, turn_table
from fashioniq.report.tables import csv_table, label, print_table, rounded

MEASURES = ("P", "R@1", "R@5", "R@8", "R@10", "R@50", "MRR")
SUMMARY = "sessions.json"  # the pooled measures, beside the folders of the tasks
HEADER = ("turns", "after", "sessions", *MEASURES)

Row = dict[str, Any]


def session_metrics(task: Task, done: DialogRun) -> SessionMetrics:
    """Measures after every turn of sessions with the same number of turns, and `clean`: those of the clean
    subset.
    """
    facts, table = with_speech(task, done), _table(done.rank_NT, done.gallery)
    assert isinstance(facts, SessionFacts), "protocol_of checks it"
    rows = facts.clean_rows
    return SessionMetrics(
        protocol=task.protocol,
        gallery=done.gallery,
        dialogs=len(done.rank_NT),
        facts=facts,
        turns=table,
        average=average(table),
        success=Success(**success(done.rank_NT)),
        clean={"dialogs": len(rows), "turns": _table(done.rank_NT[rows], done.gallery) if rows else None},
    )


def _write_report(out: Path, evaluated: Sequence[MeasuredTask[SessionMetrics]]) -> None:
    """Write a page for each number of turns, and the table of all as sessions.json and table.csv."""
    write_turn_reports(out, evaluated)
    rows = session_rows([one.metrics for one in evaluated])
    write_json(out / SUMMARY, {"gallery": evaluated[0].done.gallery, "rows": rows})
    write_text(out / "table.csv", csv_table(HEADER, [[row[name] for name in HEADER] for row in rows]))


def session_rows(evaluated: Sequence[SessionMetrics]) -> list[Row]:
    """Rows of the table: each number of turns, all sessions, all after the turn before, and the clean ones.

    `turns` is a number, "all" or "clean". Sessions of one turn have no turn before the last.
    """
    rows = [
        _row(len(metrics.turns), "last turn", [(metrics.dialogs, metrics.turns[-1])]) for metrics in evaluated
    ]
    last = [(metrics.dialogs, metrics.turns[-1]) for metrics in evaluated]
    before = [(metrics.dialogs, metrics.turns[-2]) for metrics in evaluated if len(metrics.turns) > 1]
    clean = [
        (metrics.clean["dialogs"], metrics.clean["turns"][-1])
        for metrics in evaluated
        if metrics.clean["turns"]
    ]
    rows.append(_row("all", "last turn", last))
    if before:
        rows.append(_row("all", "turn before the last", before))
    if clean:
        rows.append(_row("clean", "last turn", clean))
    return rows


def print_sessions(evaluated: Sequence[SessionMetrics]) -> None:
    """Print the table of recorded sessions, and what it depends on."""
    first = evaluated[0]
    sessions = sum(metrics.dialogs for metrics in evaluated)
    print(
        f"{first.facts.category}: {sessions} recorded sessions "
        f"({100 * first.facts.coverage_of_sessions:.1f} % of those in {first.facts.sessions}), "
        f"gallery {first.gallery}, {100 * (first.facts.coverage or 0.0):.1f} % of it have features"
    )
    rows = [
        [
            str(row["turns"]),
            row["after"],
            str(row["sessions"]),
            *(rounded(name, row[name]) for name in MEASURES),
        ]
        for row in session_rows(evaluated)
    ]
    print_table([label(name) for name in HEADER], rows, left=2)
    print("clean: sessions of val whose end is not part of a train session")


def _table(rank_NT: Tensor, gallery: int) -> list[dict[str, float]]:
    """Measures of every turn; R@8, which this field uses, in addition to those of other dialogs."""
    extra = [name for name in MEASURES if name not in turn_table(rank_NT[:1], gallery)[0]]
    columns = {name: measure(name).by_turn(rank_NT, gallery) for name in extra}
    return [
        turn | {name: values[number] for name, values in columns.items()}
        for number, turn in enumerate(turn_table(rank_NT, gallery))
    ]


def _row(turns: int | str, after: str, groups: Sequence[tuple[int, Measures]]) -> Row:
    """Means over the sessions of all groups, which are counts and means."""
    count = sum(number for number, _ in groups)
    means = {name: sum(number * turn[name] for number, turn in groups) / count for name in MEASURES}
    return {"turns": turns, "after": after, "sessions": count, **means}


PROTOCOL = Protocol(
    SessionFacts,
    session_metrics,
    _write_report,
    print_all=print_sessions,
    replaced=("*-turns/metrics.json", SUMMARY, "report.html"),
)
