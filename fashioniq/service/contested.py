"""Answers in conversations in which two models are compared."""

import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from fashioniq.data.cards import Product
from fashioniq.loop.dialog import Dialog
from fashioniq.service.experiments import Contenders
from fashioniq.service.problems import Problem
from fashioniq.service.reply_schemas import RankingReply
from fashioniq.service.searches import Searches, Wanted, Watch, reply_of, row_of
from fashioniq.service.served_model import Served
from fashioniq.service.store import TurnRow

LiveOf = Callable[[Served], Callable[[], Dialog]]
log = logging.getLogger("fashioniq.service")


class ServedAnswer(NamedTuple):
    """The model that answers, its dialog, and its products, or those of both models."""

    served: Served
    live: Dialog
    ranking: RankingReply
    failed: bool = False  # whether a model failed, and the other one answers alone

    def row(self, session_id: str, n: int, wanted: Wanted, at: datetime) -> TurnRow:
        """Row of the turn, with what a comparison needs to know of it."""
        row = row_of(session_id, n, self.live, self.ranking, wanted, at=at)
        return replace(row, heard=row.heard | {"failed": True}) if self.failed else row


def answer(
    searches: Searches, contenders: Contenders, live_of: LiveOf, wanted: Wanted, watch: Watch
) -> ServedAnswer:
    """The answer of the first model, or of both in one list; of a model that fails, that of the other one.

    `live_of` returns the function for `Searches.nearest` of a model. Raises Problem if both fail, or too many requests
    wait.
    """
    if len(contenders.models) == 1:
        (served,) = contenders.models
        return ServedAnswer(
            served, *searches.nearest(served, live_of(served), wanted, watch), failed=contenders.missing
        )
    in_turn = [contenders.models] if contenders.interleaved else [[one] for one in contenders.models]
    failures = list[Exception]()
    for asked in in_turn:
        answers = list[tuple[Served, Dialog, list[Product]]]()
        for served, found in zip(asked, _each(searches, asked, contenders, live_of, wanted), strict=True):
            if isinstance(found, Exception):
                log.warning("%s failed (%s); the other model answers", served.version, type(found).__name__)
                failures.append(found)
            else:
                answers.append((served, *found))
        if answers:
            break
    else:
        raise failures[0]
    (served, live, products), *more = answers
    chances = list[dict[str, float]]()
    for _, _, others in more:
        of_id = {one.id: one for one in (*others, *products) if one.id in served}
        rankings = [[one.id for one in some if one.id in of_id] for some in (products, others)]
        shown = contenders.interleave(rankings, wanted.k)
        products = [of_id[name] for name in shown.items]
        places = zip(shown.propensities, shown.credits, strict=True)
        chances = [{"propensity": propensity, "credit": credit} for propensity, credit in places]
    eligible = served.shelf.allowed(wanted.filters)[1]
    products = products[: wanted.k]
    ranking = reply_of(served, live, products, wanted=wanted, eligible=eligible, watch=watch)
    ranking._chances = chances
    for _, other, _ in more:
        searches.states.remember(ranking.query_id or "", other)
    return ServedAnswer(served, live, ranking, bool(failures))


def _each(
    searches: Searches, asked: Sequence[Served], contenders: Contenders, live_of: LiveOf, wanted: Wanted
) -> list[tuple[Dialog, list[Product]] | Exception]:
    """Dialog and products of each model, or why it failed; each is asked once."""
    jobs = []
    for served in asked:
        mask_N, eligible = served.shelf.allowed(wanted.filters)
        allowed_N = None if eligible == len(mask_N) else mask_N
        jobs.append((live_of(served), contenders.depth(wanted.k), allowed_N))
    found = searches.inference.search_each(jobs)
    for one in found:
        if isinstance(one, Problem) and one.code == "busy":  # it is not the model's fault
            raise one
    return found
