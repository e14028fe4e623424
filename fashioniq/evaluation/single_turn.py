"""Single-turn retrieval: queries and gallery of a category, and results of a retriever or another system."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fashioniq.categories import canonical
from fashioniq.config import EvalSingleTurn
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import SingleTurnMetrics
from fashioniq.data.trec import TrecTopic, run_lines, write_topics
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.single_turn_search import (
    QueryRanks,
    Search,
    SingleTurnQuery,
    queries_of,
    rank_queries,
)
from fashioniq.features.selection import pairs_with_targets
from fashioniq.features.store import open_store
from fashioniq.files import UserError, together, write_json, write_jsonl, write_text
from fashioniq.metrics.single_turn import MEASURES, mean, measures
from fashioniq.options import refuse
from fashioniq.provenance import provenance
from fashioniq.report.tables import csv_table, latex_table, print_table, rounded

COUNTS = ("pairs", "queries", "gallery")
GALLERIES = {"original": "all products of the split", "val-split": "the products in pairs of the split"}
CAPTIONS = {
    "each": "each caption of a pair is a query",
    "joined": "each pair is a query, its captions joined by and",
    "both-orders": "each pair is a query, the mean of its captions joined by and in both orders",
}


@dataclass(frozen=True)
class SingleTurnSearcher:
    """A retriever or another system: its products, and a function that searches the gallery for queries.

    `search` takes the ids of the gallery and the queries. `facts` are metadata of the results.
    """

    products: set[str]
    search: Search
    facts: dict[str, Any]


@dataclass(frozen=True)
class SingleTurnTask:
    """Queries of a category, ids of its gallery, and the share of the split that both cover."""

    category: str
    queries: list[SingleTurnQuery]
    ids: list[str]
    facts: dict[str, Any]


def check_categories(settings: EvalSingleTurn, *per_category: str) -> None:
    """Raise UserError unless each category is given once, with one value of each option in `per_category`."""
    refuse(
        (
            not settings.category,
            "no category given; give --category dresses, or several for a table with their mean",
        ),
        (
            len({canonical(name) for name in settings.category}) < len(settings.category),
            f"--category {' '.join(settings.category)} names one category twice",
        ),
    )
    for flag in (*per_category, "features"):
        if (given := getattr(settings, flag)) and len(given) != len(settings.category):
            raise UserError(
                f"--{flag} has {len(given)} values for {len(settings.category)} categories; "
                "give one for each, in their order"
            )


def evaluate_single_turn(
    settings: EvalSingleTurn, searcher_of: Callable[[int, Catalog], SingleTurnSearcher], beside: Path
) -> SingleTurnMetrics:
    """Search for the queries of all categories, print measures per category and their mean, and write all
    results.

    The output folder is --out, by default a folder in `beside`. Raises UserError if a vector is not finite.
    """
    if len(settings.category) > 1 and not settings.out:
        raise UserError("several categories need an output folder; give --out")
    candidate = "-without-candidate" if settings.exclude_candidate else ""
    name = f"single-turn-{settings.split}-{settings.gallery}-{settings.captions}{candidate}"
    out = settings.out or beside / name
    check_results(out)
    catalogs = [Catalog(settings.data, category) for category in settings.category]
    answered, rows = [], []
    for number, catalog in enumerate(catalogs):
        searcher = searcher_of(number, catalog)
        task = task_of(settings, catalog, searcher.products)
        answers = rank_queries(searcher.search, task.ids, task.queries, searcher.facts["answers"])
        answered.append((task, answers))
        values = measures(answers.rank_Q, answers.depth_Q, len(task.ids) - settings.exclude_candidate)
        rows.append({"category": task.category, **searcher.facts, **task.facts, **values})
    metrics = SingleTurnMetrics(
        protocol=SingleTurnMetrics.PROTOCOL,
        data=str(settings.data),
        split=settings.split,
        gallery=settings.gallery,
        captions=settings.captions,
        candidate="passed over" if settings.exclude_candidate else "stays in the gallery",
        rows=rows,
        mean={name: mean([row[name] for row in rows]) for name in MEASURES},
        provenance=provenance({canonical(one.category): one.fingerprint() for one in catalogs}),
    )
    with together(out, "metrics.json", "ranks.*.jsonl", "*.trec", "topics.*.tsv"):
        for task, answers in answered:
            _write_answers(out, task, answers)
        _write_tables(out, metrics)
    _print(metrics)
    print(f"results in {out}")
    return metrics


def known_products(settings: EvalSingleTurn, number: int, catalog: Catalog) -> set[str]:
    """Products that queries may contain: those of the feature store if given, otherwise all of the split."""
    if settings.features:
        return set(open_store(settings.data, catalog.category, Path(settings.features[number])).ids)
    return set(catalog.ids(settings.split))


def task_of(settings: EvalSingleTurn, catalog: Catalog, known: set[str]) -> SingleTurnTask:
    """Queries and gallery of a category. Raises UserError if no pair has a target and two known products."""
    pairs = pairs_with_targets(catalog, settings.split)
    there = [pair for pair in pairs if pair.candidate in known and pair.target in known]
    if not there:
        raise UserError(
            f"no {settings.split} pair of {catalog.category} has features or predictions for both of its "
            "products; "
            "check that they are of this category"
        )
    everything = catalog.ids(settings.split)
    in_pairs = {name for pair in pairs for name in (pair.target, pair.candidate)}
    wanted = [name for name in everything if settings.gallery == "original" or name in in_pairs]
    ids = [name for name in wanted if name in known]
    queries = queries_of(there, settings.captions)
    facts = {
        "pairs": len(there),
        "coverage_of_pairs": len(there) / len(pairs),
        "queries": len(queries),
        "gallery": len(ids),
        "coverage": len(ids) / len(wanted),
        "captions_origin": catalog.captions_origin,
        "fingerprint": catalog.fingerprint(),
    }
    return SingleTurnTask(catalog.category, queries, ids, facts)


def _write_answers(out: Path, task: SingleTurnTask, answers: QueryRanks) -> None:
    """Write each query with the rank of its target, null if unknown, and rankings computed here as a TREC
    run.
    """
    records = [
        {**asdict(query), "rank": rank if rank < depth else None}
        for query, rank, depth in zip(
            task.queries, answers.rank_Q.tolist(), answers.depth_Q.tolist(), strict=True
        )
    ]
    write_jsonl(out / f"ranks.{task.category}.jsonl", records)
    if answers.top is not None:
        lines = [
            line
            for query, ranking in zip(task.queries, answers.top, strict=True)
            for line in run_lines(query.name, [name for name, _ in ranking], [score for _, score in ranking])
        ]
        write_text(out / f"run.{task.category}.trec", "\n".join(lines) + "\n")
        topics = [
            TrecTopic(query.name, query.target, f"[{query.candidate}] {' / '.join(query.texts)}")
            for query in task.queries
        ]
        write_topics(out, topics, task.category)


def _write_tables(out: Path, metrics: SingleTurnMetrics) -> None:
    header = ("category", *COUNTS, *MEASURES)
    write_text(
        out / "table.csv", csv_table(header, [[row.get(name) for name in header] for row in _rows(metrics)])
    )
    write_text(out / "table.tex", latex_table(header, [_cells(row) for row in _rows(metrics)]))
    write_json(out / "metrics.json", metrics.plain())


def _rows(metrics: SingleTurnMetrics) -> list[dict[str, Any]]:
    """Rows of the categories, and of their mean if there are several."""
    return [
        *metrics.rows,
        *([{"category": "mean", **metrics.mean}] if len(metrics.rows) > 1 else []),
    ]


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["category"],
        *(f"{row[name]:,}" if name in row else "" for name in COUNTS),
        *(rounded(name, row[name]) for name in MEASURES),
    ]


def coverage_line(category: str, facts: dict[str, Any]) -> str:
    """Line about the share of pairs and of the gallery that are covered."""
    pairs, gallery = 100 * facts["coverage_of_pairs"], 100 * facts["coverage"]
    return f"{category}: {pairs:.1f} % of the pairs and {gallery:.1f} % of the gallery are covered"


def _print(metrics: SingleTurnMetrics) -> None:
    gallery, captions = metrics.gallery, metrics.captions
    print(
        f"single turn, {metrics.split} split; gallery {gallery}: {GALLERIES[gallery]}; the candidate "
        f"{metrics.candidate}"
    )
    print(f"captions {captions}: {CAPTIONS[captions]}")
    header = [name.replace("+", "\n+") for name in ("category", *COUNTS, *MEASURES)]
    print_table(header, [_cells(row) for row in _rows(metrics)])
    for row in metrics.rows:
        made = (
            f"; features: {row['features']}, pictures: {row['pictures']}, first {row['words']} words of a "
            "text"
            if "features" in row
            else ""
        )
        print(
            f"{coverage_line(row['category'], row)}; {row['model']} of {row['answers']}{made}; captions: "
            f"{row['captions_origin']}"
        )
    if any(row[name] is None for row in metrics.rows for name in MEASURES):
        print("–: the rankings are too short for this measure")
