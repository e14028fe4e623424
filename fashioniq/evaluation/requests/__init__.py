"""Requests of shoppers made from a catalog's labels, and the share of results that obey them."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from fashioniq.config import EvalRequests
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.data.evaluations import RequestMetrics
from fashioniq.data.languages import language
from fashioniq.data.search_requests import JudgedRequest
from fashioniq.evaluation.output import check_results
from fashioniq.evaluation.requests.findable_products import RESULTS, FindableProducts
from fashioniq.evaluation.requests.judging import (
    BM25,
    CHANCE,
    RETURNED,
    RequestSearcher,
    judge_requests,
    rows_by_family,
    rows_by_searcher,
    trained_searcher,
)
from fashioniq.evaluation.requests.kinds import make_requests
from fashioniq.evaluation.requests.phrasings import RequestPhrasings
from fashioniq.features.store import StoreIdentity
from fashioniq.files import UserError, read_json, together, write_json, write_jsonl
from fashioniq.provenance import Provenance, provenance
from fashioniq.report.requests import write_requests_page
from fashioniq.report.tables import one_decimal, print_table
from fashioniq.runs import KINDS, kind_of, read_run
from fashioniq.systems.zero_shot import prepare_zero_shot

SEARCH, BLIND, VECTORS, BASELINE = "search", "pictures alone", "vectors alone", "BM25"
WORD = re.compile(r"[^\W\d_]+")
ALIKE = 0.74
PER_KIND = 200  # requests of each kind, at most
FILES = ("requests.json", "requests.jsonl", "report.html")


def evaluate_requests(settings: EvalRequests) -> RequestMetrics:
    """Make the requests, search for them, write the results, and print the table.

    Raises UserError if the catalog has no labels, or none that enough products have.
    """
    out = settings.folder()
    check_results(out)
    catalog = Catalog(settings.data, settings.category)
    speech = language(catalog.language)
    run = settings.run
    if settings.encoder:
        run = prepare_zero_shot(
            settings.encoder, settings.data, settings.category, settings.features, settings.device
        )
    searchers: dict[str, RequestSearcher] = {}
    ids = catalog.all_ids()
    if run:
        search = trained_searcher(settings, run)
        ids = search.ids
        searchers[SEARCH] = search
        if settings.blind:
            searchers[BLIND] = trained_searcher(settings, run, words=False)
        searchers[VECTORS] = search.without_words()
    pictures, provenance_of_run = _origins(run, catalog)
    shelf = FindableProducts(
        catalog.labels, ids, speech, catalog.category, offers=catalog.offers, titles=catalog.titles
    )
    by_people = read_misspellings(settings.misspellings) if settings.misspellings else {}
    requests = make_requests(shelf, RequestPhrasings(speech), PER_KIND, settings.seed, by_people)
    if not requests:
        raise UserError(
            f"expected labels that {RESULTS} or more products of {catalog.category} have, found none in "
            f"{settings.data}; label the products with `fashioniq extract-attributes`"
        )
    searchers[BASELINE] = BM25(texts_of(catalog, ids), speech.code)
    results = judge_requests(shelf, requests, searchers)
    metrics = RequestMetrics(
        protocol=RequestMetrics.PROTOCOL,
        data=str(settings.data),
        category=catalog.category,
        language=speech.code,
        gallery=len(ids),
        labelled=len(shelf.ids),
        fingerprint=catalog.fingerprint(),
        pictures=pictures,
        run=str(settings.run) if settings.run else UNSET,
        seed=settings.seed,
        results=RESULTS,
        requests=dict(Counter(request.kind for request in requests)),
        rows=rows_by_searcher(results, len(shelf.ids)),
        families=rows_by_family(results, shelf),
        provenance=provenance({catalog.category: catalog.fingerprint()}, provenance_of_run or None),
    )
    _write_results(out, catalog, shelf, metrics, results)
    _print_results(metrics)
    print(f"results in {out}")
    return metrics


def _write_results(
    out: Path,
    catalog: Catalog,
    shelf: FindableProducts,
    metrics: RequestMetrics,
    results: Sequence[JudgedRequest],
) -> None:
    cards = ItemCards(
        catalog.images, catalog.titles, {name: list(words) for name, words in shelf.labels_of.items()}
    )
    with together(out, *FILES):
        write_jsonl(out / "requests.jsonl", map(msgspec.to_builtins, results))
        write_requests_page(out / "report.html", metrics, table_of(metrics), results, cards)
        write_json(out / "requests.json", metrics.plain())


def _print_results(metrics: RequestMetrics) -> None:
    header, *rows = table_of(metrics)
    print(
        f"share of the first {RESULTS} results that obey, in percent; {metrics.category}, "
        f"{metrics.gallery:,} products, labels in {metrics.language}, seed {metrics.seed}"
    )
    print_table(header, rows)
    print(f"{RETURNED}: share of the requests about a product that find it again; {CHANCE}: random order")


def _origins(run: Path | None, catalog: Catalog) -> tuple[str, Provenance | UnsetType]:
    """Origin of the pictures behind the vectors of a run, and provenance of the run, if it is of a known kind."""
    if run is None or (kind := kind_of(run)) not in KINDS:
        return catalog.pictures_origin, UNSET
    about = read_run(run, KINDS[kind])
    of_words = isinstance(about.features, StoreIdentity) and about.features.of_words
    return catalog.pictures_behind(of_words), about.provenance


def table_of(metrics: RequestMetrics) -> list[list[str]]:
    """Header and rows of the table: kinds of requests, their number, and a column for each searcher."""
    header = ["request", "number", *(row["method"] for row in metrics.rows)]
    numbers = {kind: f"{number:,}" for kind, number in metrics.requests.items()}
    names = [*metrics.requests, "mean", RETURNED]
    return [
        header,
        *([name, numbers.get(name, ""), *(one_decimal(row[name]) for row in metrics.rows)] for name in names),
    ]


def texts_of(catalog: Catalog, ids: list[str]) -> dict[str, str]:
    """Title and labels of each product as one text; with descriptions, BM25 obeys less."""
    labels = {
        name: " ".join(word for words in lists for word in words) for name, lists in catalog.labels.items()
    }
    return {name: f"{catalog.titles.get(name, '')} {labels.get(name, '')}".strip() for name in ids}


def read_misspellings(path: Path) -> dict[str, list[str]]:
    """Misspellings of single words by the word meant, from a JSON object of misspellings and their corrections.

    Pairs that have less than a share of ALIKE of their letters in common are other corrections than of spelling.

    Raises UserError for another content.
    """
    content = read_json(path, "misspellings and their corrections", dict)
    misspelled: dict[str, list[str]] = defaultdict(list)
    for wrong, right in content.items():
        if not isinstance(right, str):
            raise UserError(
                f"expected corrections as strings in {path}, found {json.dumps(right)[:40]}; correct it"
            )
        pair = wrong.lower(), right.lower()
        if all(WORD.fullmatch(one) for one in pair) and ALIKE <= SequenceMatcher(None, *pair).ratio() < 1:
            misspelled[pair[1]].append(pair[0])
    return {right: sorted(wrong) for right, wrong in sorted(misspelled.items())}
