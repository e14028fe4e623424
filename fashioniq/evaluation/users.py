"""A retriever evaluated with several users: own and unseen simulators, truthful descriptions, and people.

Each user has its own folder of results; `users.json` and the page have one table of all.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from fashioniq import plugins
from fashioniq.config import EvalDialogs
from fashioniq.config.evaluation import BM25, LAST_SHOWN, RECORDED, is_named
from fashioniq.data import trec
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import TurnMetrics, UserTable
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.protocols import MeasuredTask
from fashioniq.evaluation.run import Evaluated, measure_tasks, print_results, write_results
from fashioniq.evaluation.user_table import TRAINING_ONLY, print_user_table, user_table, write_user_page
from fashioniq.files import UserError, together, write_json
from fashioniq.provenance import restart_clock
from fashioniq.runs import CaptionerRun, RetrieverRun, read_run
from fashioniq.runs.checks import verify_run
from fashioniq.runs.evaluation_inputs import allows_bm25, users_of_training
from fashioniq.runs.training_data import data_of
from fashioniq.systems.recorded_sessions import check_recorded
from fashioniq.users.by_name import users_of_catalog

SUMMARY = "users.json"
PEOPLE = ("sessions", "human")  # the first one that is evaluated makes the column
TRUTHFUL = ("grammar", "differences")
FILES_OF_ONE = ("metrics.json", "dialogs.jsonl", *trec.FILES, "report.html")


def evaluate_users(options: EvalDialogs, out: Path) -> UserTable | Evaluated:
    """Evaluate with the users given, by default with all for which there is data; print and write the results.

    A single user has no table. Raises UserError if options and users do not go together.
    """
    assert options.run is not None, "the folder of the results depends on it"
    trained, first = users_of_training(options.run)
    catalog, store = data_of(options.run, options.data, options.category, options.features)
    options = replace(options, data=catalog.root, category=catalog.category, features=store.root)
    users = options.user or _default_users(options, catalog, first)
    _check_users(options, users)
    check_recorded(options, users, catalog)
    check_results(out)
    if len(users) < 2 and not options.linear:
        if not options.user and users == [first]:
            print(TRAINING_ONLY)
        tasks = _evaluated(replace(options, user=users))
        with together(out, SUMMARY):
            metrics = write_results(tasks, out)
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
        options_of_one = (
            replace(_with_user(options, people[0]), run=Path(name))
            if name in baselines
            else _with_user(options, name)
        )
        results[name] = _evaluated(options_of_one)
    table = user_table(
        options,
        {name: [one.metrics for one in tasks] for name, tasks in results.items()},
        columns,
        [name for name in baselines if name in results],
        training_only=not people
        and all(_trained_with(user, trained) for of in columns.values() for user in of),
        folders=folders,
    )
    with together(out, SUMMARY, *FILES_OF_ONE):
        for name, tasks in results.items():
            write_results(tasks, out / folders[name])
        write_json(out / SUMMARY, msgspec.to_builtins(table))
        write_user_page(table, results, out)
    print_user_table(table)
    print(
        f"measures after every turn and dialogs of each user in {out / 'report.html'}; table in {out / SUMMARY}"
    )
    return table


def _evaluated(options: EvalDialogs) -> list[MeasuredTask[TurnMetrics]]:
    return measure_tasks(plugins.find("systems", options.system).build(options), options.batch_size)


def _default_users(options: EvalDialogs, catalog: Catalog, own: str | None) -> list[str]:
    users = [own] if own else []
    users += users_of_catalog(catalog, options.split)
    users += ["sessions"] if options.sessions else []
    if not users:
        raise UserError(
            f"{options.run} was trained without a captioner; give --user differences, human or a run of train-captioner"
        )
    return users


def _check_users(options: EvalDialogs, users: Sequence[str]) -> None:
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
        if (model := read_run(options.linear, RetrieverRun).model) != "linear":
            raise UserError(
                f"expected a linear retriever, found a {model} in {options.linear}; correct --linear"
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
        "own": [user for user in captioners if _trained_with(user, trained)],
        "unseen": [user for user in captioners if not _trained_with(user, trained)],
        "truthful": [user for user in TRUTHFUL if user in users][:1],
        "people": [user for user in PEOPLE if user in users][:1],
    }
    return {column: of for column, of in columns.items() if of}


def _trained_with(user: str, trained: Sequence[str]) -> bool:
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
