"""Predictions of another system for recorded sessions of Multiturn FashionIQ, scored after the last turn.

A session is named as in the score files of Yuan and Lam: SPLIT_CATEGORY_FIRST_TARGET_NUMBER, such as
val_dress_B0084Y8XIU_B006ZO5SYY_17. The number counts the sessions of a file, but files of sessions with two,
three or four turns alone start again from 0. Therefore a session is found by its first item and its target; if
several have both in common, by the number, or else in their order.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch

from fashioniq.categories import canonical
from fashioniq.config import EvalSingleTurn
from fashioniq.data.sessions import Session, leakage, read_gallery, read_sessions
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.sessions import MEASURES
from fashioniq.evaluation.single_turn_search import SingleTurnQuery, rank_queries, read_predictions
from fashioniq.files import UserError, together, write_json, write_text
from fashioniq.metrics.single_turn import measures
from fashioniq.provenance import provenance
from fashioniq.report.tables import csv_table, label, print_table, rounded

HEADER = ("category", "turns", "sessions", *MEASURES)


def score_sessions(settings: EvalSingleTurn) -> dict[str, Any]:
    """Print and write the measures by number of turns, of all sessions and of the clean ones.

    Raises UserError if a file is missing or does not match.
    """
    assert settings.sessions is not None, "the caller checks it"
    out = settings.out or Path(settings.predictions[0]).with_suffix("") / f"sessions-{settings.split}"
    check_results(out)
    scored = [
        _scored(settings, settings.sessions, canonical(category), Path(path))
        for category, path in zip(settings.category, settings.predictions, strict=True)
    ]
    rows = [row for found, _ in scored for row in found]
    covered = [share for _, share in scored]
    scores = {
        "sessions": str(settings.sessions),
        "split": settings.split,
        "predictions": settings.predictions,
        "rows": rows,
        "covered": covered,
        "provenance": msgspec.to_builtins(provenance({})),
    }
    table = csv_table(HEADER, [[row[name] for name in HEADER] for row in rows])
    with together(out, "metrics.json", "table.*", "ranks.*.jsonl", "run.*.trec"):  # of pairs, scored before
        write_text(out / "table.csv", table)
        write_json(out / "session_scores.json", scores)
    print(f"recorded sessions of {settings.split}, after the last turn; the items shown stay in the gallery")
    cells = [
        [str(row[name]) for name in HEADER[:3]] + [rounded(name, row[name]) for name in MEASURES]
        for row in rows
    ]
    print_table([label(name) for name in HEADER], cells, left=2)
    print("\n".join(covered))
    if any(row["turns"] == "clean" for row in rows):
        print("clean: sessions whose end is not part of a train session")
    if any(row[name] is None for row in rows for name in MEASURES):
        print("–: the rankings are too short for this measure")
    print(f"results in {out}")
    return scores


def _scored(
    settings: EvalSingleTurn, folder: Path, category: str, path: Path
) -> tuple[list[dict[str, Any]], str]:
    """Rows of a category, and what the predictions cover."""
    sessions = read_sessions(folder, category, settings.split)
    gallery = read_gallery(folder, category, settings.split)
    leaks = leakage(read_sessions(folder, category, "train"))
    given = read_predictions(path, False, settings.batch_size)
    ids = [name for name in gallery if given.products is None or name in given.products]
    if not ids:
        raise UserError(f"{path} has no product of the gallery of {category} in {folder}")
    known = set(ids)
    found = [(name, one) for name, one in _named(sessions, given.names) if one.target in known]
    if not found:
        raise UserError(
            f"expected predictions for sessions of {category} in {folder}, found none in {path}; "
            f"name them {settings.split}_CATEGORY_FIRST_TARGET_NUMBER"
        )
    # the candidate is not removed from the results, and it may have no predictions
    queries = [SingleTurnQuery(name, one.target, one.target, ()) for name, one in found]
    answers = rank_queries(given.search, ids, queries, str(path))
    turns_S = torch.tensor([len(one.steps) for _, one in found])
    clean_S = torch.tensor([not leaks(one) for _, one in found])
    groups = {str(turns): turns_S == turns for turns in sorted(set(turns_S.tolist()))}
    groups |= {"all": turns_S > 0} | ({"clean": clean_S} if clean_S.any() else {})
    rows = [
        {"category": category, "turns": name, "sessions": int(which_S.sum())}
        | measures(answers.rank_Q[which_S], answers.depth_Q[which_S], len(ids), MEASURES)
        for name, which_S in groups.items()
    ]
    covered = (
        f"{category}: {len(found)} of {len(sessions)} sessions and {len(ids)} of {len(gallery)} products of the "
        "gallery have predictions"
    )
    return rows, covered


def _named(sessions: Sequence[Session], names: Iterable[str]) -> list[tuple[str, Session]]:
    """Names of predictions, each with its session."""
    waiting: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in sorted(names, key=_number):
        parts = name.split("_")
        if len(parts) == 5:
            waiting[parts[2], parts[3]].append(name)
    found: dict[int, str] = {}
    keys = [(session.first, session.target) for session in sessions]
    for place, key in enumerate(keys):
        if own := [name for name in waiting[key] if _number(name) == place]:
            found[place] = own[0]
            waiting[key].remove(own[0])
    for place, key in enumerate(keys):
        if place not in found and waiting[key]:
            found[place] = waiting[key].pop(0)
    return [(found[place], sessions[place]) for place in sorted(found)]


def _number(name: str) -> int:
    number = name.rpartition("_")[2]
    return int(number) if number.isdecimal() else 0
