"""Answers in conversations in which two models are compared."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor

from fashioniq.data.cards import Product
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.exact import NotFiniteError
from fashioniq.service.experiments import Contenders
from fashioniq.service.problems import Problem
from fashioniq.service.reply_schemas import RankingReply
from fashioniq.service.searches import Searches, Wanted, reply_of
from fashioniq.service.served_model import Served

LiveOf = Callable[[Served], Callable[[], Dialog]]
SearchJob = tuple[Callable[[], Dialog], int, Tensor | None]
log = logging.getLogger("fashioniq.service")


class ServedAnswer(NamedTuple):
    """The model that answers, its dialog, and its products, or those of both models."""

    served: Served
    live: Dialog
    ranking: RankingReply


def answer(searches: Searches, contenders: Contenders, live_of: LiveOf, wanted: Wanted) -> ServedAnswer:
    """The answer of the first model, or of both in one list; of a model that fails, that of the other one.

    `live_of` returns the function for `Searches.nearest` of a model. In the log, the products of an interleaved list
    have their credit, and those of a model that answers for another one have "failed". Raises Problem if both fail,
    or too many requests wait.
    """
    if len(contenders.models) == 1 and not contenders.missing:
        (served,) = contenders.models
        return ServedAnswer(served, *searches.nearest(served, live_of(served), wanted))
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
        raise Problem("unusable-run") if isinstance(failures[0], NotFiniteError) else failures[0]
    (served, live, products), *more = answers
    own, chances = products[: wanted.k], list[dict[str, float]]()
    if failures or contenders.missing:
        chances = [{"propensity": 1.0, "failed": 1.0}] * len(own)
    mixed = own
    for _, _, others in more:
        of_id = {one.id: one for one in (*others, *products) if one.id in served}
        rankings = [[one.id for one in some if one.id in of_id] for some in (products, others)]
        shown = contenders.interleave(rankings, wanted.k, len(live.state.turns))
        mixed = [of_id[name] for name in shown.items]
        places = zip(shown.propensities, shown.credits, strict=True)
        chances = [{"propensity": propensity, "credit": credit} for propensity, credit in places]
    eligible = served.shelf.allowed(wanted.filters)[1]
    # notices are about the order of the model that answers
    ranking = reply_of(served, live, own, wanted=wanted, eligible=eligible, shown=mixed)
    ranking._chances = chances
    for _, other, _ in more:
        searches.states.remember(ranking.query_id or "", other)
    return ServedAnswer(served, live, ranking)


def _each(
    searches: Searches, asked: Sequence[Served], contenders: Contenders, live_of: LiveOf, wanted: Wanted
) -> list[tuple[Dialog, list[Product]] | Exception]:
    """Dialog and products of each model, or why it failed; each is asked once."""

    def job(served: Served) -> SearchJob | Problem:
        mask_N, eligible = served.shelf.allowed(wanted.filters)
        allowed_N = None if eligible == len(mask_N) else mask_N
        try:
            return live_of(served), contenders.depth(wanted.k), allowed_N
        except Problem as problem:  # such as a picture that this model cannot read
            return problem

    jobs = [job(served) for served in asked]
    found = iter(searches.inference.search_each([one for one in jobs if not isinstance(one, Problem)]))
    outcomes = [one if isinstance(one, Problem) else next(found) for one in jobs]
    for one in outcomes:
        if isinstance(one, Problem) and one.code == "busy":  # it is not the model's fault
            raise one
    return outcomes
