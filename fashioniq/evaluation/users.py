"""A retriever evaluated with several users: own and unseen simulators, truthful descriptions, and people.

Each user has its own folder of results; `users.json` and the page have one table of all.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
from msgspec import UNSET

from fashioniq import plugins
from fashioniq.config import EvalDialogs
from fashioniq.config.evaluation import BM25, LAST_SHOWN, RECORDED, is_named
from fashioniq.data import trec
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import SessionMetrics, TurnMetrics, UserRow, UserTable
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.protocols import MeasuredTask
from fashioniq.evaluation.run import Evaluated, folder_of, measured, print_results, write_results
from fashioniq.evaluation.sessions import session_rows
from fashioniq.files import UserError, together, write_json
from fashioniq.metrics.measures import at_chance
from fashioniq.provenance import restart_clock
from fashioniq.report.page import UserResults, repetitive, write_users_page
from fashioniq.report.tables import label, print_table, rounded
from fashioniq.runs import CaptionerRun, RetrieverRun, read_run
from fashioniq.runs.checks import verify_run
from fashioniq.runs.evaluation_inputs import allows_bm25, users_of_training
from fashioniq.runs.training_data import data_of
from fashioniq.systems.recorded_sessions import check_recorded
from fashioniq.users.by_name import users_of_catalog

SUMMARY = "users.json"
COLUMNS = {
    "own": "own simulator",
    "unseen": "unseen simulators",
    "truthful": "truthful",
    "people": "people",
}
MEASURES = ("P", "R@10")
PEOPLE = ("sessions", "human")  # the first one that is evaluated makes the column
TRUTHFUL = ("grammar", "differences")
FILES_OF_ONE = ("metrics.json", "dialogs.jsonl", *trec.FILES, "report.html")
TRAINING_ONLY = "figures with the simulator of the training only: not a result for people"


def evaluate_users(options: EvalDialogs, out: Path) -> UserTable | Evaluated:
    """Evaluate with the users given, by default with all for which there is data; print and write the results.

    A single user has no table. Raises UserError if options and users do not go together.
    """
    assert options.run is not None, "the folder of the results depends on it"
    trained, first = users_of_training(options.run)
    catalog, store = data_of(options.run, options.data, options.category, options.features)
    options = replace(options, data=catalog.root, category=catalog.category, features=store.root)
    users = options.user or _default_users(options, catalog, first)
    _check(options, users)
    check_recorded(options, users, catalog)
    check_results(out)
    if len(users) < 2 and not options.linear:
        if not options.user and users == [first]:
            print(TRAINING_ONLY)
        found = measured(
            plugins.find("systems", options.system).build(replace(options, user=users)), options.batch_size
        )
        with together(out, SUMMARY):
            metrics = write_results(found, out)
        print_results(metrics, out)
        return metrics
    columns = _columns(users, trained)
    people = columns.get("people", [])
    baselines = {LAST_SHOWN: LAST_SHOWN} | ({BM25: BM25} if allows_bm25(options) else {})
    baselines |= {str(options.linear): "linear"} if options.linear else {}
    baselines.pop(str(options.run), None)
    folders = dict(zip(users, _folders(users), strict=True))
    folders |= {run: f"{people[0]}-{name}" for run, name in baselines.items() if people}
    results: dict[str, list[MeasuredTask[TurnMetrics]]] = {}
    for name in folders:
        restart_clock()
        one = _with_user(options, people[0] if name in baselines else name)
        one = replace(one, run=Path(name)) if name in baselines else one
        results[name] = measured(plugins.find("systems", options.system).build(one), options.batch_size)
    done = {name: [one.metrics for one in found] for name, found in results.items()}
    rows = [
        UserRow(
            str(options.run),
            {column: _mean([done[user] for user in of]) for column, of in columns.items()},
        )
    ]
    rows += [UserRow(run, {"people": _mean([done[run]])}) for run in baselines if run in done]
    table = UserTable(
        category=catalog.category,
        split=options.split,
        headline=min(columns, key=lambda column: rows[0].columns[column]["R@10"]),
        training_only=not people and all(_known(user, trained) for of in columns.values() for user in of),
        users=columns,
        galleries={column: done[of[0]][0].gallery for column, of in columns.items()},
        true={column: fmean(shares) for column, of in columns.items() if (shares := _shares(done, of))},
        at_chance=[
            column
            for column, of in columns.items()
            if at_chance(rows[0].columns[column]["P"], sum(one.dialogs for user in of for one in done[user]))
        ],
        repetitive=[user for user in users if any(repetitive(one) for one in done[user])],
        rows=rows,
        folders=folders,
    )
    with together(out, SUMMARY, *FILES_OF_ONE):
        for name, found in results.items():
            write_results(found, out / folders[name])
        write_json(out / SUMMARY, msgspec.to_builtins(table))
        _write_page(table, results, out)
    _print(table)
    print(
        f"measures after every turn and dialogs of each user in {out / 'report.html'}; table in {out / SUMMARY}"
    )
    return table


def headline(table: UserTable) -> str:
    """First line of the results: the worst column, or that there are only users of the training."""
    if table.training_only:
        return TRAINING_ONLY
    found = table.rows[0].columns[table.headline]
    figures = ", ".join(f"{label(name)} {rounded(name, found[name])}" for name in reversed(MEASURES))
    users = ", ".join(table.users[table.headline])
    return f"worst column, {COLUMNS[table.headline]} ({users}): {figures} after the last turn"


def _default_users(options: EvalDialogs, catalog: Catalog, own: str | None) -> list[str]:
    users = [own] if own else []
    users += users_of_catalog(catalog, options.split)
    users += ["sessions"] if options.sessions else []
    if not users:
        raise UserError(
            f"{options.run} was trained without a captioner; give --user differences, human or a run of train-captioner"
        )
    return users


def _check(options: EvalDialogs, users: Sequence[str]) -> None:
    """Raise UserError for a user given twice, a missing run, or an option without a user that it is for."""
    if twice := [user for user, times in Counter(users).items() if times > 1]:
        raise UserError(f"--user {twice[0]} is given twice; give each user once")
    for user in users:
        if not is_named(user):
            if Path(user).name == user and not Path(user).exists():
                known = ", ".join([*RECORDED, *plugins.names("users")])
                raise UserError(
                    f"expected {known} or a run of train-captioner in {user}, found no such folder; correct --user"
                    f"{plugins.module_hint(user)}"
                )
            about = read_run(Path(user), CaptionerRun)
            if options.verify:
                verify_run(Path(user), about)
    if options.linear:
        if not set(users) & set(PEOPLE):
            raise UserError(
                "--linear is a baseline for people's words; add --user human or sessions, or leave it out"
            )
        if (found := read_run(options.linear, RetrieverRun).model) != "linear":
            raise UserError(
                f"expected a linear retriever, found a {found} in {options.linear}; correct --linear"
            )
    if len(users) > 1 and options.captions != "each" and "human" not in users:
        raise UserError(
            f"--captions {options.captions} needs recorded captions; add --user human or leave it out"
        )


def _with_user(options: EvalDialogs, user: str) -> EvalDialogs:
    """Options of one of several users, without those for another kind of user."""
    return replace(
        options,
        user=[user],
        index=None if user == "sessions" else options.index,
        sessions=options.sessions if user == "sessions" else None,
        captions=options.captions if user == "human" else "each",
    )


def _columns(users: Sequence[str], trained: Sequence[str]) -> dict[str, list[str]]:
    """Users of each column that has any."""
    captioners = [user for user in users if user not in (*TRUTHFUL, *PEOPLE)]
    columns = {
        "own": [user for user in captioners if _known(user, trained)],
        "unseen": [user for user in captioners if not _known(user, trained)],
        "truthful": [user for user in TRUTHFUL if user in users][:1],
        "people": [user for user in PEOPLE if user in users][:1],
    }
    return {column: of for column, of in columns.items() if of}


def _known(user: str, trained: Sequence[str]) -> bool:
    """Whether a retriever was trained with a user."""
    if is_named(user):
        return user in trained
    return Path(user).resolve() in {Path(name).resolve() for name in trained}


def _folders(users: Sequence[str]) -> list[str]:
    """A folder name for each user; captioners have those of their runs."""
    taken = Counter((*TRUTHFUL, *RECORDED))
    names = []
    for user in users:
        name = plugins.file_name(user) if is_named(user) else Path(user).resolve().name
        if user not in (*TRUTHFUL, *RECORDED):
            taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}-{taken[name]}")
    return names


def _mean(done: Sequence[Sequence[TurnMetrics]]) -> dict[str, float]:
    """P and R@10 after the last turn, on average over the users of a column."""
    last = [_last(evaluated) for evaluated in done]
    return {name: fmean(measures[name] for measures in last) for name in MEASURES}


def _shares(done: Mapping[str, Sequence[TurnMetrics]], users: Sequence[str]) -> list[float]:
    """Shares of what these users state that hold by the labels, as far as they are known."""
    every = [metrics for user in users for metrics in done[user]]
    return [share for metrics in every if (share := metrics.facts.true_by_labels) is not UNSET]


def _last(evaluated: Sequence[TurnMetrics]) -> Any:
    sessions = [metrics for metrics in evaluated if isinstance(metrics, SessionMetrics)]
    if sessions:
        return next(row for row in session_rows(sessions) if row["turns"] == "all")
    (metrics,) = evaluated
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
    found = [f"warning: P after the last turn is at chance level: {columns}"] if columns else []
    if table.repetitive:
        found.append(
            f"warning: one sentence makes up most turns of these users: {', '.join(table.repetitive)}"
        )
    return found


def _print(table: UserTable) -> None:
    print(headline(table))
    print(f"{table.category}, {table.split} split, after the last turn")
    print_table(*_cells(table))
    print(_legend(table))
    for warning in _warnings(table):
        print(warning)


def _write_page(table: UserTable, results: Mapping[str, Sequence[MeasuredTask]], out: Path) -> None:
    """Page with the table, the curves, a dialog of each user, and links to their pages."""
    of_users = []
    for name, found in results.items():
        for one in found:
            user = f"{name}, {one.task.name}" if len(found) > 1 else name
            page = folder_of(one, found, Path(table.folders[name])) / "report.html"
            of_users.append(UserResults(user, page, one.metrics, one.done.dialogs, one.task.cards))
    header, rows = _cells(table)
    values = {"header": [name.replace("\n", " ") for name in header], "rows": rows, "legend": _legend(table)}
    values |= {"warnings": _warnings(table), "headline": headline(table)}
    title = f"Users: {table.category}, {table.split} split"
    write_users_page(out / "report.html", of_users, title=title, **values)
