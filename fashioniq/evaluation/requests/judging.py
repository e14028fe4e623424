"""Searches and their judgement: plain BM25, and a trained system along the path of a shopper; the share of the first
results that obey a request, and products that come back unasked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import bm25s
import torch

from fashioniq.config import EvalRequests
from fashioniq.data.search_requests import Judged, JudgedRequest, RequestCase, RequestTurn
from fashioniq.evaluation.requests.findable_products import RESULTS, FindableProducts
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.rollout import System
from fashioniq.systems import load

WORD = r"\w+(?:[-'’]\w+)*"  # v-neck is a single word


class BM25:
    """Plain BM25 over titles and labels, the baseline: all words of all turns, and no product is excluded."""

    def __init__(self, texts: Mapping[str, str], language: str) -> None:
        self._ids = list(texts)
        self._tokens = partial(
            bm25s.tokenize, token_pattern=WORD, stopwords=language, return_ids=False, show_progress=False
        )
        self._index = bm25s.BM25()
        self._index.index(self._tokens(list(texts.values())), show_progress=False)

    def search(self, turns: Sequence[RequestTurn]) -> list[str]:
        """Ids of the results by their scores."""
        text = " ".join(turn.text for turn in turns)
        count = min(RESULTS, len(self._ids))
        found, _ = self._index.retrieve(self._tokens(text), corpus=self._ids, k=count, show_progress=False)
        return [str(name) for name in found[0]]


@dataclass(frozen=True)
class TrainedSearcher:
    """A trained system, searched as in `chat` and in the service: turn by turn, each about a product or none."""

    system: System

    @property
    def ids(self) -> list[str]:
        """Products of the gallery."""
        return list(self.system.gallery.items.ids)

    def without_words(self) -> "TrainedSearcher":
        """The same system, in which neither words nor wishes count beside the vectors."""
        gallery = self.system.gallery.with_scorer(None)
        return TrainedSearcher(replace(self.system, wording=None, gallery=gallery, offers=None))

    @torch.no_grad()
    def search(self, turns: Sequence[RequestTurn]) -> list[str]:
        """Ids of the nearest products after the last turn."""
        live = Dialog.start(self.system)
        for turn in turns:
            about = turn.about or self.system.named(turn.text, turn.shown)
            live = (live if about is None else live.about(about)).say(turn.text)
        return [product.id for product in live.nearest(RESULTS)]


RequestSearcher = BM25 | TrainedSearcher


def trained_searcher(settings: EvalRequests, run: Path, words: bool = True) -> TrainedSearcher:
    """The system of a run, with all products of the catalog; without `words`, from pictures alone."""
    return TrainedSearcher(
        load(
            run,
            settings.features,
            split="all",
            device=settings.device,
            data=settings.data,
            category=settings.category,
            words=words,
        )
    )


CHANCE = "chance"  # row of a random order of the products
BY_FAMILY = ("one wish", "denial")  # kinds with one label, reported by its family
RETURNED = "returned"  # column: share of requests about a product that have it among their results


def judge_requests(
    shelf: FindableProducts, requests: Sequence[RequestCase], searchers: Mapping[str, RequestSearcher]
) -> list[JudgedRequest]:
    """Results of all searchers for all requests. A missing result, and one without labels, does not obey."""
    judged = []
    for request in requests:
        obeying = shelf.obeying(request.truth)
        results = {name: tuple(islice(one.search(request.turns), RESULTS)) for name, one in searchers.items()}
        judged.append(
            JudgedRequest(
                request,
                len(obeying),
                [
                    Judged(name, ids, tuple(one in obeying for one in ids), bool({*ids} & {*request.about}))
                    for name, ids in results.items()
                ],
            )
        )
    return judged


def rows_by_searcher(judged: Sequence[JudgedRequest], products: int) -> list[dict[str, Any]]:
    """A row for each searcher, and for a random order: percent by kind, their mean, and products that come back."""
    kinds = list(dict.fromkeys(one.request.kind for one in judged))
    methods = [one.method for one in judged[0].judged] if judged else []
    rows: list[dict[str, Any]] = []
    for number, method in enumerate(methods):
        shares = {
            kind: fmean(sum(one.judged[number].obeys) / RESULTS for one in judged if one.request.kind == kind)
            for kind in kinds
        }
        back = [one.judged[number].comes_back for one in judged if one.request.about]
        rows.append(_row(method, shares, fmean(back) if back else None))
    shares = {
        kind: fmean(one.obeying / products for one in judged if one.request.kind == kind) for kind in kinds
    }
    about = any(one.request.about for one in judged)
    return [*rows, _row(CHANCE, shares, min(1.0, RESULTS / products) if about else None)]


def rows_by_family(judged: Sequence[JudgedRequest], shelf: FindableProducts) -> list[dict[str, Any]]:
    """Rows of the requests with one label, by its family: kind, family, number, and percent of each searcher.

    Some families, such as styles, hardly show in pictures.
    """
    groups: dict[tuple[str, str], list[JudgedRequest]] = {}
    for one in judged:
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
