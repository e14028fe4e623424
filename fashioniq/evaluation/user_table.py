"""The table of a retriever's users: its figures, what is printed of it, and its page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from msgspec import UNSET

from fashioniq.config import EvalDialogs
from fashioniq.data.evaluations import SessionMetrics, TurnMetrics, UserRow, UserTable
from fashioniq.evaluation.protocols import MeasuredTask
from fashioniq.evaluation.run import folder_of
from fashioniq.evaluation.sessions import session_rows
from fashioniq.metrics.measures import at_chance
from fashioniq.report.page import UserResults, repetitive, write_users_page
from fashioniq.report.tables import label, print_table, rounded

COLUMNS = {
    "own": "own simulator",
    "unseen": "unseen simulators",
    "truthful": "truthful",
    "people": "people",
}
MEASURES = ("P", "R@10")
TRAINING_ONLY = "figures with the simulator of the training only: not a result for people"


def user_table(
    options: EvalDialogs,
    metrics_of: Mapping[str, Sequence[TurnMetrics]],
    columns: dict[str, list[str]],
    baselines: Sequence[str],
    *,
    training_only: bool,
    folders: dict[str, str],
) -> UserTable:
    """Table of the metrics of each user and baseline."""
    means = {column: _mean([metrics_of[user] for user in of]) for column, of in columns.items()}
    rows = [UserRow(str(options.run), means)]
    rows += [UserRow(run, {"people": _mean([metrics_of[run]])}) for run in baselines]
    return UserTable(
        category=str(options.category),
        split=options.split,
        headline=min(columns, key=lambda column: means[column]["R@10"]),
        training_only=training_only,
        users=columns,
        galleries={column: metrics_of[of[0]][0].gallery for column, of in columns.items()},
        true={
            column: fmean(shares)
            for column, of in columns.items()
            if (shares := _true_shares(metrics_of, of))
        },
        at_chance=[
            column
            for column, of in columns.items()
            if at_chance(means[column]["P"], sum(one.dialogs for user in of for one in metrics_of[user]))
        ],
        repetitive=[
            user
            for user, evaluated in metrics_of.items()
            if user not in baselines and any(map(repetitive, evaluated))
        ],
        rows=rows,
        folders=folders,
    )


def headline(table: UserTable) -> str:
    """First line of the results: the worst column, or that there are only users of the training."""
    if table.training_only:
        return TRAINING_ONLY
    measures = table.rows[0].columns[table.headline]
    figures = ", ".join(f"{label(name)} {rounded(name, measures[name])}" for name in reversed(MEASURES))
    users = ", ".join(table.users[table.headline])
    return f"worst column, {COLUMNS[table.headline]} ({users}): {figures} after the last turn"


def _mean(metrics_of_users: Sequence[Sequence[TurnMetrics]]) -> dict[str, float]:
    """P and R@10 after the last turn, on average over the users of a column."""
    measures = [_after_last_turn(metrics) for metrics in metrics_of_users]
    return {name: fmean(of_user[name] for of_user in measures) for name in MEASURES}


def _true_shares(metrics_of: Mapping[str, Sequence[TurnMetrics]], users: Sequence[str]) -> list[float]:
    """Shares of what these users state that hold by the labels, as far as they are known."""
    facts = [metrics.facts for user in users for metrics in metrics_of[user]]
    return [share for one in facts if (share := one.true_by_labels) is not UNSET]


def _after_last_turn(metrics_of_user: Sequence[TurnMetrics]) -> Any:
    sessions = [metrics for metrics in metrics_of_user if isinstance(metrics, SessionMetrics)]
    if sessions:
        return next(row for row in session_rows(sessions) if row["turns"] == "all")
    (metrics,) = metrics_of_user
    return metrics.turns[-1]


def _cells(table: UserTable) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table, whose columns are those that have users; – where a baseline has no value."""
    header = ["retriever", *(f"{COLUMNS[name]}\n{label(one)}" for name in table.users for one in MEASURES)]
    rows = [
        [
            row.retriever,
            *(
                rounded(one, row.columns.get(column, {}).get(one))
                for column in table.users
                for one in MEASURES
            ),
        ]
        for row in table.rows
    ]
    return header, rows


def _legend(table: UserTable) -> str:
    return "; ".join(
        f"{COLUMNS[column]}: {', '.join(users)}, gallery {table.galleries[column]:,}"
        + (f", {100 * table.true[column]:.0f} % true by the labels" if column in table.true else "")
        for column, users in table.users.items()
    )


def _warnings(table: UserTable) -> list[str]:
    columns = ", ".join(COLUMNS[column] for column in table.at_chance)
    warnings = [f"warning: P after the last turn is at chance level: {columns}"] if columns else []
    if table.repetitive:
        warnings.append(
            f"warning: one sentence makes up most turns of these users: {', '.join(table.repetitive)}"
        )
    return warnings


def print_user_table(table: UserTable) -> None:
    """Print the table with its headline, its users, and warnings."""
    print(headline(table))
    print(f"{table.category}, {table.split} split, after the last turn")
    print_table(*_cells(table))
    print(_legend(table))
    for warning in _warnings(table):
        print(warning)


def write_user_page(table: UserTable, results: Mapping[str, Sequence[MeasuredTask]], out: Path) -> None:
    """Page with the table, the curves, a dialog of each user, and links to their pages."""
    of_users = []
    for name, tasks in results.items():
        for one in tasks:
            user = f"{name}, {one.task.name}" if len(tasks) > 1 else name
            page = folder_of(one, tasks, Path(table.folders[name])) / "report.html"
            of_users.append(UserResults(user, page, one.metrics, one.done.dialogs, one.task.cards))
    header, rows = _cells(table)
    values = {"header": [name.replace("\n", " ") for name in header], "rows": rows, "legend": _legend(table)}
    values |= {"warnings": _warnings(table), "headline": headline(table)}
    title = f"Users: {table.category}, {table.split} split"
    write_users_page(out / "report.html", of_users, title=title, **values)
