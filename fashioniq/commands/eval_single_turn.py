"""`fashioniq eval-single-turn`."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fashioniq.categories import canonical
from fashioniq.commands.common import load_retriever, open_store, pairs_with_targets, pick_device
from fashioniq.commands.single_turn_search import Answers, look_up, query_vectors, search, search_vectors
from fashioniq.config import EvalSingleTurn
from fashioniq.data.catalog import Catalog
from fashioniq.data.queries import Query, queries_of
from fashioniq.data.rankings import read_rankings, read_vectors
from fashioniq.files import UserError, discard, write_json, write_jsonl, write_text
from fashioniq.gallery import Gallery, NotFiniteError
from fashioniq.metrics.single_turn import MEASURES, mean, measures
from fashioniq.report.tables import csv_table, latex_table, rounded

COUNTS = ("pairs", "queries", "gallery")
GALLERIES = {"original": "all products of the split", "val-split": "the products in pairs of the split"}
CAPTIONS = {
    "each": "each caption of a pair is a query",
    "joined": "a pair is a query, its captions joined by and",
    "both-orders": "a pair is a query, the mean of its captions joined by and in both orders",
}


@dataclass(frozen=True)
class Source:
    """Who answers: for which products, by which function of a gallery's ids and queries, and what that depends on."""

    known: set[str]
    answer: Callable[[Sequence[str], Sequence[Query]], Answers]
    facts: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """The queries of a category's usable pairs, the ids of its gallery, and how much of the split both are."""

    category: str
    queries: list[Query]
    ids: list[str]
    facts: dict[str, Any]


def run(settings: EvalSingleTurn) -> None:
    """Answer the captioned pairs of a split as queries, print a row of measures a category and their mean, and leave all results in a folder."""
    _check(settings)
    catalogs = [Catalog(settings.data, category) for category in settings.category]
    if settings.write_queries:
        tasks = [_task(settings, catalog, _known(settings, number, catalog)) for number, catalog in enumerate(catalogs)]
        _write_queries(settings.write_queries, tasks)
        return
    answered, rows = [], []
    for number, catalog in enumerate(catalogs):
        source = _of_run(settings, number, catalog) if settings.run else _of_predictions(settings, number, catalog)
        task = _task(settings, catalog, source.known)
        try:
            answers = source.answer(task.ids, task.queries)
        except NotFiniteError as error:
            raise UserError(f"{source.facts['answers']} answers with vectors too large to compare ({error}): train or write it again") from error
        answered.append((task, answers))
        told = measures(answers.rank_Q, answers.depth_Q, len(task.ids) - settings.exclude_candidate)
        rows.append({"category": task.category, **source.facts, **task.facts, **told})
    metrics = {
        "protocol": "single-turn retrieval",
        "data": str(settings.data),
        "split": settings.split,
        "gallery": settings.gallery,
        "captions": settings.captions,
        "candidate": "passed over" if settings.exclude_candidate else "stays in the gallery",
        "rows": rows,
        "mean": {name: mean([row[name] for row in rows]) for name in MEASURES},
    }
    out = settings.out or _beside(settings)
    discard(out, "metrics.json", "ranks.*.jsonl", "run.*.trec")
    for task, answers in answered:
        _write_answers(out, task, answers)
    _write_tables(out, metrics)
    _tell(metrics)
    print(f"results in {out}")


def _check(settings: EvalSingleTurn) -> None:
    """Raise UserError where it is not said, for each category, who answers."""
    if not settings.category:
        raise UserError("no category is named: give --category dresses, or several for a table with their mean")
    if len({canonical(name) for name in settings.category}) < len(settings.category):
        raise UserError(f"--category {' '.join(settings.category)} names one category twice")
    if sum(map(bool, (settings.run, settings.predictions, settings.write_queries))) != 1:
        raise UserError("it is not clear who answers: give one of --run, --predictions and --write-queries")
    for flag in ("run", "predictions", "features"):
        if (given := getattr(settings, flag)) and len(given) != len(settings.category):
            raise UserError(f"--{flag} names {len(given)} for {len(settings.category)} categories: give one for each, in their order")
    if len(settings.category) > 1 and not settings.write_queries and not settings.out:
        raise UserError("several categories are evaluated: name the folder of their results with --out")


def _beside(settings: EvalSingleTurn) -> Path:
    folder = Path(settings.run[0]) if settings.run else Path(settings.predictions[0]).with_suffix("")
    candidate = "-without-candidate" if settings.exclude_candidate else ""
    return folder / f"single-turn-{settings.split}-{settings.gallery}-{settings.captions}{candidate}"


def _known(settings: EvalSingleTurn, number: int, catalog: Catalog) -> set[str]:
    """The products that may be asked for: those of the feature store where one is named, else all of the split."""
    if settings.features:
        return set(open_store(settings.data, catalog.category, Path(settings.features[number])).ids)
    return set(catalog.ids(settings.split))


def _of_run(settings: EvalSingleTurn, number: int, catalog: Catalog) -> Source:
    """A retriever of ours answers, for the products of its feature store."""
    store = open_store(settings.data, catalog.category, Path(settings.features[number]) if settings.features else None)
    folder, device = Path(settings.run[number]), pick_device(settings.device)
    retriever, hears, facts = load_retriever(folder, catalog.category, store)
    retriever.to(device)
    if facts.data.fingerprint != catalog.fingerprint():
        print(f"note: the splits or captions of {catalog.category} are not those that {folder} was trained on")
    longest = retriever.max_words * (1 if settings.captions == "each" else 2)

    @torch.no_grad()
    def answer(ids: Sequence[str], queries: Sequence[Query]) -> Answers:
        items = store.items(ids).to(device)
        gallery = Gallery(items, retriever.embed_images(items.features_ND))
        query_QD = query_vectors(retriever, gallery, queries, hears, longest, settings.batch_size)
        return search(gallery, query_QD, queries, settings.exclude_candidate, settings.batch_size)

    composition = f" {facts.sizes['composition']}" if facts.model == "composer" else ""
    depends_on = {
        "answers": str(folder),
        "model": facts.model + composition,
        "attributes": facts.attrs,
        "words": longest,
        "features": store.facts.encoder,
        "pictures": "none" if store.facts.encoder == "metadata" else catalog.pictures_origin,
    }
    return Source(set(store.ids), answer, depends_on)


def _of_predictions(settings: EvalSingleTurn, number: int, catalog: Catalog) -> Source:
    """Someone else's file answers: vectors for the products that it has, rankings for all; --features leaves out those that are in no store."""
    path, known = Path(settings.predictions[number]), _known(settings, number, catalog)
    if path.suffix != ".npz":
        rankings = read_rankings(path)
        answer = partial(look_up, rankings, exclude_candidate=settings.exclude_candidate, path=path)
        return Source(known, answer, {"answers": str(path), "model": "rankings"})
    given = read_vectors(path)
    answer = partial(search_vectors, given, exclude_candidate=settings.exclude_candidate, batch_size=settings.batch_size, path=path)
    return Source(known & set(given.ids), answer, {"answers": str(path), "model": "vectors"})


def _task(settings: EvalSingleTurn, catalog: Catalog, known: set[str]) -> Task:
    """The queries and the gallery of a category. Raises UserError where no pair has a target, or both products known."""
    pairs = pairs_with_targets(catalog, settings.split)
    there = [pair for pair in pairs if pair.candidate in known and pair.target in known]
    if not there:
        raise UserError(f"of no {settings.split} pair of {catalog.category} are both products known to who answers: is it of this category?")
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
    return Task(catalog.category, queries, ids, facts)


def _write_queries(folder: Path, tasks: list[Task]) -> None:
    for task in tasks:
        path = folder / f"queries.{task.category}.json"
        queries = {query.name: {key: value for key, value in asdict(query).items() if key != "name"} for query in task.queries}
        write_json(path, {"category": task.category, **task.facts, "queries": queries, "gallery": task.ids}, indent=None)
        print(f"{_coverage(task.category, task.facts)}: {len(queries)} queries in {path}")


def _write_answers(out: Path, task: Task, answers: Answers) -> None:
    """A line a query of its target's rank, null where that is not known, and a TREC run file of what was searched here."""
    records = [{**asdict(query), "rank": rank} for query, rank in zip(task.queries, answers.known_ranks(), strict=True)]
    write_jsonl(out / f"ranks.{task.category}.jsonl", records)
    if answers.top is not None:
        lines = [
            f"{query.name} Q0 {name} {place} {score:.6f} fashioniq"
            for query, ranking in zip(task.queries, answers.top, strict=True)
            for place, (name, score) in enumerate(ranking, start=1)
        ]
        write_text(out / f"run.{task.category}.trec", "\n".join(lines) + "\n")


def _write_tables(out: Path, metrics: dict[str, Any]) -> None:
    header = ("category", *COUNTS, *MEASURES)
    write_text(out / "table.csv", csv_table(header, [[row.get(name) for name in header] for row in _rows(metrics)]))
    write_text(out / "table.tex", latex_table(header, [_cells(row) for row in _rows(metrics)]))
    write_json(out / "metrics.json", metrics)


def _rows(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """The categories and, where they are several, their mean."""
    return [*metrics["rows"], *([{"category": "mean", **metrics["mean"]}] if len(metrics["rows"]) > 1 else [])]


def _cells(row: dict[str, Any]) -> list[str]:
    return [row["category"], *(f"{row[name]:,}" if name in row else "" for name in COUNTS), *(rounded(name, row[name], 2) for name in MEASURES)]


def _coverage(category: str, facts: dict[str, Any]) -> str:
    return f"{category}: {100 * facts['coverage_of_pairs']:.1f} % of the pairs and {100 * facts['coverage']:.1f} % of the gallery are covered"


def _tell(metrics: dict[str, Any]) -> None:
    gallery, captions = metrics["gallery"], metrics["captions"]
    print(f"single turn, {metrics['split']} split; gallery {gallery}: {GALLERIES[gallery]}; the candidate {metrics['candidate']}")
    print(f"captions {captions}: {CAPTIONS[captions]}")
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in ("category", *COUNTS, *MEASURES):
        table.add_column(name.replace("+", "\n+"), justify="left" if name == "category" else "right")
    for row in _rows(metrics):
        table.add_row(*_cells(row))
    Console().print(table)
    for row in metrics["rows"]:
        made = f"; features: {row['features']}, pictures: {row['pictures']}, first {row['words']} words of a text" if "features" in row else ""
        print(f"{_coverage(row['category'], row)}; {row['model']} of {row['answers']}{made}; captions: {row['captions_origin']}")
    if any(row[name] is None for row in metrics["rows"] for name in MEASURES):
        print("–: the rankings are too short to tell it")
