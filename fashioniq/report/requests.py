"""Page of an evaluation with requests: the table, and pictures of results that do not obey."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fashioniq.data.evaluations import RequestMetrics
from fashioniq.data.search_requests import JudgedRequest, RequestTruth
from fashioniq.report.dialogs import ArticleGroup, article_filters
from fashioniq.report.page import run_facts
from fashioniq.report.templates import ItemCards, ProductTable, write_page

ALTERNATIVES = 4  # labels shown of those that are right
PER_KIND = 4  # failures shown of each kind


def write_requests_page(
    path: Path,
    metrics: RequestMetrics,
    table: Sequence[Sequence[str]],
    found: Sequence[JudgedRequest],
    cards: ItemCards,
) -> None:
    """Write the page: for each kind, some requests that the first searcher did not obey entirely.

    Raises UserError if the page cannot be written.
    """
    products = ProductTable(cards)
    groups, classes = [], {}
    for number, kind in enumerate(metrics.requests):
        classes[f"k{number}"] = kind
        failed = [
            (row, one)
            for row, one in enumerate(found)
            if one.request.kind == kind and sum(one.judged[0].obeys) < metrics.results
        ]
        if failed:
            articles = [_article(row, one, f"k{number}", products) for row, one in failed[:PER_KIND]]
            hint = f"{len(failed):,} of {metrics.requests[kind]:,} requests have a result that does not obey"
            groups.append(ArticleGroup(kind, hint, articles))
    header, *rows = table
    write_page(
        path,
        "requests.html",
        title=f"Requests: {metrics.category}, {metrics.gallery:,} products",
        metrics=metrics,
        searcher=found[0].judged[0].method,
        header=header,
        rows=rows,
        families=[
            [
                f"{row['kind']}: {row['family']}",
                *(
                    f"{value:,}" if isinstance(value, int) else f"{value:.1f}"
                    for value in list(row.values())[2:]
                ),
            ]
            for row in metrics.families
        ],
        groups=groups,
        filters=article_filters(
            {"Requests": classes}, [article["classes"] for group in groups for article in group.articles]
        ),
        products=products,
        facts=[one for one in run_facts(metrics, 0) if one[0] != "dialogs"],
    )


def _article(number: int, one: JudgedRequest, kind: str, products: ProductTable) -> dict[str, Any]:
    """A request, what its results must have, and the results of the first searcher, each with whether it obeys."""
    judged, request = one.judged[0], one.request
    return {
        "number": number,
        "classes": {kind},
        "texts": [turn.text for turn in request.turns],
        "about": products.card(request.about[0]) if request.about else None,
        "needs": needs_of(request.truth),
        "obeying": one.obeying,
        "right": sum(judged.obeys),
        "results": [
            (products.card(name), obeys) for name, obeys in zip(judged.results, judged.obeys, strict=True)
        ],
    }


def needs_of(truth: RequestTruth) -> list[str]:
    """What results must have, and must not have, in words."""
    needs = [
        *(
            " or ".join([*words[:ALTERNATIVES], *(["another"] if len(words) > ALTERNATIVES else [])])
            for words in truth.wanted
        ),
        *(f"not {word}" for word in truth.denied),
    ]
    if truth.price_most is not None:
        needs.append(f"at most {truth.price_most / 100:.2f} {truth.currency}")
    if truth.size is not None:
        needs.append(f"size {truth.size}")
    return [*needs, *(["in stock"] if truth.in_stock else [])]
