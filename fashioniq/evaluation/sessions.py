"""Results of recorded sessions: measures by number of turns, pooled, and of the clean subset.

Sessions with the same number of turns are one task. The pooled measures are means over all sessions, after
the last turn and after the turn before it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from fashioniq.data.cards import ItemCards
from fashioniq.data.evaluations import LoggedDialog, Measures, SessionMetrics, metrics_of
from fashioniq.files import write_json, write_text
from fashioniq.loop.task import Task
from fashioniq.metrics.measures import measure
from fashioniq.metrics.ranking import average, success, turn_table
from fashioniq.report.page import write_dialog_page
from fashioniq.report.tables import csv_table, label, print_table, rounded

MEASURES = ("P", "R@1", "R@5", "R@8", "R@10", "R@50", "MRR")
SUMMARY = "sessions.json"  # the pooled measures, beside the folders of the tasks
HEADER = ("turns", "after", "sessions", *MEASURES)

Row = dict[str, Any]


def session_metrics(task: Task, rank_NT: Tensor, gallery: int) -> SessionMetrics:
    """Measures after every turn of sessions with the same number of turns, and `clean`: those of the clean
    subset.
    """
    table = _table(rank_NT, gallery)
    facts = dict(task.facts)
    rows = facts.pop("clean_rows")
    clean = {"dialogs": len(rows), "turns": _table(rank_NT[rows], gallery) if rows else None}
    about = {"protocol": task.protocol, "gallery": gallery, "dialogs": len(rank_NT)}
    measured = {"turns": table, "average": average(table), "success": success(rank_NT), "clean": clean}
    return metrics_of(about | facts | measured, SessionMetrics)


def write_session_report(
    out: Path, evaluated: Sequence[tuple[SessionMetrics, list[LoggedDialog]]], cards: ItemCards
) -> None:
    """Write a page for each number of turns, and the table of all as sessions.json and table.csv."""
    for metrics, records in evaluated:
        folder = out / f"{len(metrics.turns)}-turns" if len(evaluated) > 1 else out
        write_dialog_page(folder / "report.html", metrics, records, cards)
    rows = session_rows([metrics for metrics, _ in evaluated])
    write_json(out / SUMMARY, {"gallery": evaluated[0][0].gallery, "rows": rows})
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
        f"{first.category}: {sessions} recorded sessions "
        f"({100 * first.facts['coverage_of_sessions']:.1f} % of those in {first.facts['sessions']}), "
        f"gallery {first.gallery}, {100 * (first.coverage or 0.0):.1f} % of it have features"
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
