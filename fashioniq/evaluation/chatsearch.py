"""Evaluation on conversations of words and pictures: R@1, 5 and 10 of ChatSearch's sub-tasks t, i and m.

The galleries of the sub-tasks differ in size, so their figures are not compared with each other. R@8 and MRR, the
measures of Multiturn FashionIQ, are in metrics.json and in the table by rounds.
"""

import random
from pathlib import Path
from typing import Any

import torch
from msgspec import UNSET
from torch import Tensor

from fashioniq.config import EvalChatsearch
from fashioniq.data.conversation_records import SUBTASKS, Subtask
from fashioniq.data.conversations import Conversations, samples_file
from fashioniq.data.evaluations import ChatSearchMetrics
from fashioniq.data.predictions import matrix, read_scores
from fashioniq.data.trec import TrecTopic, depth_of, run_lines, write_topics
from fashioniq.evaluation.changed_histories import exchanged, other_history, without_history
from fashioniq.evaluation.chatsearch_tables import (
    COLUMNS,
    Queries,
    Ranks,
    by_rounds,
    cells_of,
    differences_of,
    print_tables,
    row_of,
)
from fashioniq.evaluation.output import check_results
from fashioniq.features.frozen import frozen_features
from fashioniq.files import UserError, checksum, together, write_json, write_jsonl, write_text
from fashioniq.metrics.measures import ranks_of_scores
from fashioniq.models.device import pick_device
from fashioniq.provenance import provenance
from fashioniq.report.conversations import write_samples_page
from fashioniq.report.tables import csv_table, latex_table
from fashioniq.runs import ChatSearcherRun, read_run
from fashioniq.systems.chatsearch import Found, VectorSearch, searches

RESULTS = ("metrics.json", "table.*", "ranks.*.jsonl", "*.trec", "topics.tsv")
BEST = 5  # items of each ranking on the page
SHOWN = 8  # conversations of each sub-task on the page
Best = dict[str, tuple[int, list[str]]]  # rank of the target and ids of the best items, by sample
Asked = dict[Subtask, Found]  # queries of the first method


def evaluate_chatsearch(settings: EvalChatsearch) -> ChatSearchMetrics:
    """Search with all methods, print their measures, and write all results. Raises UserError for missing items."""
    out = settings.out or (settings.run or Path()) / "chatsearch"
    check_results(out)
    device = pick_device(settings.device)
    data = Conversations(settings.data)
    features = frozen_features(list(data.items), settings.features)
    tasks, coverage = _tasks(data, features.positions)
    others = {path.stem: _scores(path, tasks) for path in map(Path, settings.scores)}
    found = searches(settings, data, features, device)
    with together(out, *RESULTS):
        ranks, asked, best = _search_all(settings, tasks, found, others, out)
        first = next(iter(ranks))
        metrics = ChatSearchMetrics(
            protocol=ChatSearchMetrics.PROTOCOL,
            data=str(settings.data),
            samples={subtask: len(task.samples) for subtask, task in tasks.items()},
            galleries={subtask: len(task.ids) for subtask, task in tasks.items()},
            coverage=coverage,
            features=features.facts,
            run=str(settings.run) if settings.run else UNSET,
            encoder=settings.encoder or UNSET,
            seed=settings.seed,
            rows=[{"method": name, **row_of(one, tasks)} for name, one in ranks.items()],
            rounds=by_rounds(ranks, tasks),
            checks=_checks(found[first], tasks, asked, ranks[first], settings.seed) if first in found else [],
            shows_picture={
                subtask: 100 * one.shows_Q.double().mean().item()
                for subtask, one in asked.items()
                if one.shows_Q is not None
            },
            differences=differences_of(ranks, tasks, settings.seed),
            provenance=provenance(
                {
                    path.name: checksum(path)
                    for path in (samples_file(settings.data, s, "test") for s in tasks)
                },
                read_run(settings.run, ChatSearcherRun).provenance or None if settings.run else None,
            ),
        )
        samples = [sample for task in tasks.values() for sample in task.samples]
        write_topics(out, [TrecTopic(one.id, one.target, one.transcript) for one in samples])
        _write(out, metrics, data, tasks, best=best)
    print_tables(metrics)
    print(f"results in {out}")
    return metrics


def _search_all(
    settings: EvalChatsearch,
    tasks: dict[Subtask, Queries],
    found: dict[str, VectorSearch],
    others: dict[str, dict[Subtask, Tensor]],
    out: Path,
) -> tuple[dict[str, Ranks], Asked, Best]:
    """Ranks by method and score file, and queries and best items of the first row.

    Writes the ranks and the TREC run of each row.
    """
    ranks: dict[str, Ranks] = {}
    asked: Asked = {}
    best: Best = {}
    for name in [*(name for name in settings.methods if name in found or name == "random"), *others]:
        own: Ranks = {}
        lines: list[str] = []
        for subtask, task in tasks.items():
            if name == "random":
                generator = torch.Generator().manual_seed(settings.seed)
                own[subtask] = torch.randint(len(task.ids), task.target_Q.shape, generator=generator)
                continue
            if name in others:
                if (score_QN := others[name].get(subtask)) is None:
                    continue
                own[subtask] = ranks_of_scores(score_QN, task.target_Q)
                score_QK, item_QK = (
                    part[:, : depth_of(len(task.ids))]
                    for part in score_QN.sort(dim=1, descending=True, stable=True)
                )
            else:
                gallery = task.gallery(found[name])
                if (conversed := found[name].converse(gallery, task.samples, task.target_Q)) is None:
                    continue
                queries, own[subtask] = conversed
                distance_QK, item_QK = gallery.top(queries.query_QD, depth_of(len(gallery)))
                score_QK = 1 - distance_QK / 2
                if not ranks:
                    asked[subtask] = queries
            lines += _trec(score_QK, item_QK, task)
            if not ranks:
                best |= _best(task, own[subtask], item_QK[:, :BEST])
        ranks[name] = own
        _write_ranks(out, name, own, tasks)
        if lines:
            write_text(out / f"run.{name}.trec", "\n".join(lines) + "\n")
    return ranks, asked, best


def _scores(path: Path, tasks: dict[Subtask, Queries]) -> dict[Subtask, Tensor]:
    """Scores Q×N in a file by sub-task, −inf where it has none.

    Raises UserError if the file is damaged, or has no conversation of test.
    """
    given = list(read_scores(path).values())
    queries = {name for one in given for name in one.query_ids}
    items = {name for one in given for name in one.index_ids}
    found: dict[Subtask, Tensor] = {}
    for subtask, task in tasks.items():
        ids = [sample.id for sample in task.samples]
        if there := queries & set(ids):
            found[subtask] = torch.from_numpy(matrix(given, ids, task.ids))
            known = items & set(task.ids)
            if len(there) < len(ids) or len(known) < len(task.ids):
                print(
                    f"{path}: scores of {len(there):,} of {len(ids):,} conversations of {subtask}, and of "
                    f"{len(known):,} of {len(task.ids):,} items; targets without one are last"
                )
    if not found:
        raise UserError(
            f"expected scores of conversations of test in {path}, found none; the query_ids must be the ids of samples"
        )
    return found


def _write(
    out: Path, metrics: ChatSearchMetrics, data: Conversations, tasks: dict[Subtask, Queries], *, best: Best
) -> None:
    """Write the table, the page with some conversations of each sub-task, and metrics.json."""
    header = ["method", *COLUMNS, "mean"]
    rows = [cells_of(row) for row in metrics.rows]
    write_text(
        out / "table.csv", csv_table(header, [[row.get(name) for name in header] for row in metrics.rows])
    )
    write_text(out / "table.tex", latex_table(header, rows))
    tables = [("Recall in percent", header, rows)]
    if metrics.checks:
        checked = [cells_of(row, "check") for row in metrics.checks]
        tables.append((f"Checks of {metrics.rows[0]['method']}", ["check", *header[1:]], checked))
    chance = random.Random(metrics.seed)
    shown = [
        one for task in tasks.values() for one in chance.sample(task.samples, min(SHOWN, len(task.samples)))
    ]
    total = sum(metrics.samples.values())
    write_samples_page(out / "report.html", data.folder, data.items, shown, total, tables=tables, found=best)
    write_json(out / "metrics.json", metrics.plain())


def _tasks(data: Conversations, positions: dict[str, int]) -> tuple[dict[Subtask, Queries], float]:
    """Conversations of test whose items have features, by sub-task, and their share; empty sub-tasks are left out.

    Raises UserError if none of a sub-task have features, if there are no conversations, or if a target is not in the
    gallery.
    """
    tasks, every, seen = {}, 0, set[str]()
    for subtask in SUBTASKS:
        if not (samples := data.samples(subtask, "test")):
            continue
        if double := seen & {sample.id for sample in samples}:
            raise UserError(
                f"expected every id of a conversation of test once in {data.folder}, found {min(double)!r} again in "
                f"{subtask}.test.jsonl; rename one"
            )
        seen |= {sample.id for sample in samples}
        every += len(samples)
        kept = [sample for sample in samples if {*sample.pictures, sample.target} <= positions.keys()]
        if not kept:
            raise UserError(
                f"no test conversation of {subtask} in {data.folder} has features of all its items; give the feature "
                "stores of all items with --features"
            )
        ids = [name for name in data.gallery(subtask) if name in positions]
        place = {name: number for number, name in enumerate(ids)}
        if lacking := [sample.target for sample in kept if sample.target not in place]:
            raise UserError(
                f"expected the target of every conversation of {subtask} in its gallery, found {lacking[0]!r} not "
                f"there; correct gallery.{subtask}.test.json in {data.folder}"
            )
        tasks[subtask] = Queries(
            kept,
            ids,
            torch.tensor([place[sample.target] for sample in kept]),
            torch.tensor([positions[name] for name in ids]),
        )
    if not every:
        raise UserError(f"expected conversations of test in {data.folder}, found none; make some")
    return tasks, sum(len(task.samples) for task in tasks.values()) / every


def _checks(
    search: VectorSearch, tasks: dict[Subtask, Queries], asked: Asked, own: Ranks, seed: int
) -> list[dict[str, Any]]:
    """Measures of the first method with other and without history, and with exchanged targets."""
    rows: list[dict[str, Any]] = [{"check": "as it is", **row_of(own, tasks)}]
    for name, changed in (
        ("history of another", lambda samples: other_history(samples, seed)),
        ("no history", without_history),
    ):
        ranks: Ranks = {
            subtask: conversed[1]
            for subtask, task in tasks.items()
            if subtask != "i" and subtask in own
            if (conversed := search.converse(task.gallery(search), changed(task.samples), task.target_Q))
        }
        rows.append({"check": name, **row_of(ranks, tasks)})
    ranks = {
        subtask: tasks[subtask].gallery(search).rank(one.query_QD, exchanged(tasks[subtask].target_Q, seed))
        for subtask, one in asked.items()
    }
    return [*rows, {"check": "exchanged targets", **row_of(ranks, tasks)}]


def _best(task: Queries, rank_Q: Tensor, item_QK: Tensor) -> Best:
    """Rank of the target and the best items by sample."""
    return {
        sample.id: (rank, [task.ids[item] for item in items])
        for sample, rank, items in zip(task.samples, rank_Q.tolist(), item_QK.tolist(), strict=True)
    }


def _trec(score_QK: Tensor, item_QK: Tensor, task: Queries) -> list[str]:
    """Lines of a TREC run, without candidates that have no score."""
    return [
        line
        for sample, scores, items in zip(task.samples, score_QK.tolist(), item_QK.tolist(), strict=True)
        for known in [[score for score in scores if score > -torch.inf]]
        for line in run_lines(sample.id, [task.ids[item] for item in items[: len(known)]], known)
    ]


def _write_ranks(out: Path, name: str, ranks: Ranks, tasks: dict[Subtask, Queries]) -> None:
    write_jsonl(
        out / f"ranks.{name}.jsonl",
        [
            {"sample": sample.id, "subtask": subtask, "target": sample.target, "rank": rank}
            for subtask, rank_Q in ranks.items()
            for sample, rank in zip(tasks[subtask].samples, rank_Q.tolist(), strict=True)
        ],
    )
