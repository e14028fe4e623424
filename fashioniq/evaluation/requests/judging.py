"""Judging a search: the share of its first results that obey a request, and products that come back unasked."""

from collections.abc import Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Any

from fashioniq.data.requested import Judged, JudgedRequest, RequestCase
from fashioniq.evaluation.requests.findable_products import RESULTS, FindableProducts
from fashioniq.evaluation.requests.searchers import RequestSearcher

CHANCE = "chance"  # row of a random order of the products
BY_FAMILY = ("one wish", "denial")  # kinds with one label, reported by its family
RETURNED = "returned"  # column: share of requests about a product that have it among their results


def judged(
    shelf: FindableProducts, requests: Sequence[RequestCase], searchers: Mapping[str, RequestSearcher]
) -> list[JudgedRequest]:
    """Results of all searchers for all requests. A missing result, and one without labels, does not obey."""
    found = []
    for request in requests:
        right = shelf.obeying(request.truth)
        results = {name: tuple(islice(one.search(request.turns), RESULTS)) for name, one in searchers.items()}
        found.append(
            JudgedRequest(
                request,
                len(right),
                [
                    Judged(name, ids, tuple(one in right for one in ids), bool({*ids} & {*request.about}))
                    for name, ids in results.items()
                ],
            )
        )
    return found


def rows_of(found: Sequence[JudgedRequest], products: int) -> list[dict[str, Any]]:
    """A row for each searcher, and for a random order: percent by kind, their mean, and products that come back."""
    kinds = list(dict.fromkeys(one.request.kind for one in found))
    methods = [one.method for one in found[0].judged] if found else []
    rows: list[dict[str, Any]] = []
    for number, method in enumerate(methods):
        shares = {
            kind: fmean(sum(one.judged[number].obeys) / RESULTS for one in found if one.request.kind == kind)
            for kind in kinds
        }
        back = [one.judged[number].comes_back for one in found if one.request.about]
        rows.append(_row(method, shares, fmean(back) if back else None))
    shares = {
        kind: fmean(one.obeying / products for one in found if one.request.kind == kind) for kind in kinds
    }
    about = any(one.request.about for one in found)
    return [*rows, _row(CHANCE, shares, min(1.0, RESULTS / products) if about else None)]


def families_of(found: Sequence[JudgedRequest], shelf: FindableProducts) -> list[dict[str, Any]]:
    """Rows of the requests with one label, by its family: kind, family, number, and percent of each searcher.

    Some families, such as styles, hardly show in pictures.
    """
    groups: dict[tuple[str, str], list[JudgedRequest]] = {}
    for one in found:
        if one.request.kind in BY_FAMILY:
            truth = one.request.truth
            label = truth.wanted[0][0] if truth.wanted else truth.denied[0]
            groups.setdefault((one.request.kind, shelf.family(label)), []).append(one)
    return [
        {
            "kind": kind,
            "family": family,
            "number": len(group),
            **{
                of.method: 100 * fmean(sum(one.judged[number].obeys) / RESULTS for one in group)
                for number, of in enumerate(group[0].judged)
            },
        }
        for (kind, family), group in sorted(
            groups.items(), key=lambda one: (BY_FAMILY.index(one[0][0]), one[0][1])
        )
    ]


def _row(method: str, shares: Mapping[str, float], back: float | None) -> dict[str, Any]:
    percent = {kind: 100 * share for kind, share in shares.items()}
    mean = 100 * fmean(shares.values()) if shares else None
    return {"method": method, **percent, "mean": mean, RETURNED: None if back is None else 100 * back}
