"""Replies to searches and turns: the products for a dialog, with what was understood, and their row in the database."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fashioniq.data.cards import Product
from fashioniq.data.words import tokenize
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.loop.exact import NotFiniteError
from fashioniq.service.dialog_states import DialogStates, counting, is_picture, width_of
from fashioniq.service.exploring import DEEPEST, explored_ranks, propensity
from fashioniq.service.inference import Inference
from fashioniq.service.models import Models
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.replies import (
    MOST_WORDS,
    effects,
    facets,
    generated_picture,
    notice_codes,
    notices,
    parts,
    result,
)
from fashioniq.service.reply_schemas import HeardReply, RankingReply
from fashioniq.service.schemas import FiltersBody, SearchBody, SessionBody, TurnBody
from fashioniq.service.served_model import Served
from fashioniq.service.stated_limits import over
from fashioniq.service.store import TurnRow
from fashioniq.service.turns import holding, understood, wishes_of


@dataclass(frozen=True)
class Wanted:
    """What a search is for: filters, number of products, what was heard of the last text, and all texts. It `began`
    at a time of the performance counter.
    """

    filters: FiltersBody
    k: int
    heard: HeardReply
    texts: Sequence[str] = ()
    notes: Sequence[str] = ()
    facets: bool = False
    explores: bool = False
    began: float = field(default_factory=time.perf_counter)


class Searches:
    """Searches of the models in their thread; nothing is stored. All methods raise Problem."""

    def __init__(self, models: Models, inference: Inference, states: DialogStates) -> None:
        self.models, self.inference, self.states = models, inference, states

    def search(self, category: str, request: SearchBody) -> RankingReply:
        """Products for a whole dialog, of which nothing is stored."""
        began, served = time.perf_counter(), self.models.active(category)
        heard, filters, notes, steps = HeardReply(), FiltersBody(), tuple[str, ...](), list[DialogStep]()
        for number, turn in enumerate(map(served.spelled, request.said)):
            at = f"/turns/{number}"
            named = {"about": turn.about, "like": turn.like, "less_like": turn.less_like}
            check_known(served, {f"{at}/{field}": name for field, name in named.items()})
            step, heard, filters, notes = understood(served, turn, turn.about, turn.question, filters, at=at)
            steps.append(step)
        texts = [turn.says or "" for turn in request.said]
        filters = over(filters, request.filters)
        wanted = Wanted(filters, request.k, heard, texts, notes, facets=request.facets, began=began)
        if not steps:
            return self.diverse(served, wanted)[1]
        steps = counting(served, steps)
        live, ranking = self.nearest(served, lambda: Dialog.start(served.system).replay(steps), wanted)
        if request.explain and not served.draws:
            self.explain(ranking, lambda: Dialog.start(served.system).replay(steps[:-1]), steps[-1], live)
        return ranking

    def similar(self, category: str, name: str, k: int) -> RankingReply:
        """Products like one product, without itself."""
        served = self.models.active(category)
        name = served.own(name)
        check_known(served, {"/product_id": name})
        wanted = Wanted(FiltersBody(), k + 1, HeardReply())
        ranking = self.nearest(served, lambda: Dialog.start(served.system).at(name), wanted)[1]
        others = [one for one in ranking.results if one.product_id != name][:k]
        ranking.results = [one.model_copy(update={"rank": rank}) for rank, one in enumerate(others, 1)]
        return ranking

    def first(self, category: str) -> RankingReply:
        """The products that a session without a start begins with; nothing is stored."""
        wanted = Wanted(FiltersBody(), SessionBody(category=category).k, HeardReply(), facets=True)
        return self.diverse(self.models.active(category), wanted)[1]

    def diverse(self, served: Served, wanted: Wanted) -> tuple[Dialog, RankingReply]:
        """The first products for someone who has not said anything: some that differ from each other."""
        mask_N, eligible = served.shelf.allowed(wanted.filters)

        def begin() -> tuple[Dialog, list[Product]]:
            live = _with_offer(served, Dialog.start(served.system))
            return live, [served.product(name, live) for name in served.first(mask_N, wanted.k)]

        live, products = self.inference.call(begin)
        return live, reply_of(served, live, products, wanted=wanted, eligible=eligible)

    def nearest(
        self, served: Served, live_of: Callable[[], Dialog], wanted: Wanted
    ) -> tuple[Dialog, RankingReply]:
        """The dialog that `live_of` returns, and the products nearest to its query."""
        mask_N, eligible = served.shelf.allowed(wanted.filters)
        try:
            count = max(wanted.k, DEEPEST) if wanted.explores else wanted.k
            with self.states.place(served):
                live, products = self.inference.search(
                    lambda: _with_offer(served, live_of()), count, None if eligible == len(mask_N) else mask_N
                )
        except NotFiniteError:
            raise Problem("unusable-run") from None
        # notices are about the nearest product, also where exploring puts another one first
        reply = reply_of(served, live, products, wanted=wanted, eligible=eligible)
        if wanted.explores:
            results, count = reply.results, len(products)
            ranks = explored_ranks(wanted.k, count)
            reply.results = [
                results[rank].model_copy(update={"rank": place}) for place, rank in enumerate(ranks, 1)
            ]
            reply.result_chances = [
                {"propensity": propensity(rank, wanted.k, count), "rank": rank} for rank in ranks
            ]
        return live, reply

    def explain(
        self, ranking: RankingReply, before: Callable[[], Dialog], step: DialogStep, live: Dialog
    ) -> None:
        """Add the parts of the scores after a step, and the effects of its words, to the results."""
        words = list(dict.fromkeys(ranking.heard.known))[:MOST_WORDS]
        ids = [one.product_id for one in ranking.results]
        if not ids:
            return
        found, scores = self.inference.call(
            lambda: (effects(before(), step, words, ids), [parts(live, name) for name in ids])
        )
        for one, places, of_score in zip(ranking.results, found, scores, strict=True):
            one.effects, one.parts = places, of_score


def _with_offer(served: Served, live: Dialog) -> Dialog:
    """A dialog whose offer of questions is made in the thread of the models; later it is only read."""
    if served.asks:
        _ = live.offer
    return live


def check_mentioned(request: TurnBody, turns: Sequence[TurnRow], linked: Served | None) -> None:
    """Raise Problem for a product that no turn showed or was about; words may be about any that `linked` serves."""
    mentioned = {one["id"] for turn in turns for one in turn.shown} | {turn.about for turn in turns}
    for key in ("about", "like", "less_like"):
        name = getattr(request, key)
        reached = key == "about" and (is_picture(name) or (linked is not None and name in linked))
        if name and name not in mentioned and not reached:
            raise wrong(f"/{key}", "not_shown", "not-shown")


def check_known(served: Served, names: dict[str, str | None]) -> None:
    """Raise Problem for a product that is not in the gallery; `names` are ids by the place where they were given."""
    for pointer, name in names.items():
        if name is not None and name not in served:
            raise wrong(pointer, "unknown_product", "unknown-product")


def reply_of(
    served: Served,
    live: Dialog,
    products: Sequence[Product],
    *,
    wanted: Wanted,
    eligible: int,
    shown: Sequence[Product] | None = None,
) -> RankingReply:
    """The reply with the nearest products, or with those `shown` in their place."""
    wishes = live.wishes
    codes = [*wanted.notes, *notice_codes(served, live, wanted.heard, products, width_of(live))]
    return RankingReply(
        query_id=f"q_{secrets.token_hex(16)}",
        turn=len(live.state.turns),
        model=served.version,
        question=live.question if served.asks else "",
        took_ms=round(1000 * (time.perf_counter() - wanted.began)),
        eligible=eligible,
        exact=served.system.gallery.index is None,
        heard=wanted.heard,
        filters=wanted.filters,
        holding=holding(wishes, wanted.filters),
        results=[
            result(served, one, rank, wanted.texts, wishes) for rank, one in enumerate(shown or products, 1)
        ],
        facets=facets(served, wishes, wanted.filters) if wanted.facets else None,
        notices=notices(served, codes, wanted.heard, wanted.filters),
    )


def row_of(
    session_id: str,
    n: int,
    live: Dialog,
    ranking: RankingReply,
    wanted: Wanted,
    *,
    step: dict[str, Any],
    **facts: Any,
) -> TurnRow:
    """Row of a turn with these facts; `heard` also has its stored step, the notices, what the system offers next, and
    of a picture its width.
    """
    assert ranking.query_id is not None
    ranking.turn = n
    width = width_of(live)
    ranking.picture = generated_picture(session_id, n, width, wanted.texts)
    vocabulary = live.system.vocabulary
    words = [word for word in tokenize(" ".join(ranking.heard.known)) if vocabulary and word in vocabulary]
    asks, shown = bool(ranking.question), len(ranking.results)
    chances = ranking.result_chances or [{"propensity": 1.0}] * shown
    return TurnRow(
        query_id=ranking.query_id,
        session_id=session_id,
        n=n,
        word_ids=vocabulary.ids(" ".join(words)) if vocabulary else [],
        filters=wanted.filters.model_dump(exclude_none=True),
        shown=[
            {"id": one.product_id, "score": one.score, **chance}
            for one, chance in zip(ranking.results, chances, strict=True)
        ],
        heard=ranking.heard.model_dump()
        | {"notices": [notice.code for notice in ranking.notices]}
        | ({"asks": ranking.question, "offers": live.offered} if asks else {})
        | ({} if width is None else {"picture": width})
        | step,
        eligible=ranking.eligible,
        took_ms=ranking.took_ms,
        **facts,
    )


def stored_reply(served: Served, turns: Sequence[TurnRow], with_facets: bool = False) -> RankingReply:
    """The answer to the last of the turns as it was given, with the facts of the products of today."""
    last, texts = turns[-1], [turn.says or "" for turn in turns]
    cards, filters = served.system.cards, FiltersBody.model_validate(last.filters)
    wishes = wishes_of(served, turns)
    results = [
        result(served, cards.product(one["id"], 0.0), rank, texts, wishes).model_copy(
            update={"score": one["score"]}
        )
        for rank, one in enumerate(last.shown, 1)
    ]
    heard = HeardReply(**{name: last.heard[name] for name in HeardReply.model_fields if name in last.heard})
    return RankingReply(
        query_id=last.query_id,
        turn=last.n,
        model=served.version,
        question=last.heard.get("asks", ""),
        picture=generated_picture(last.session_id, last.n, last.heard.get("picture"), texts),
        took_ms=last.took_ms,
        eligible=last.eligible,
        exact=served.system.gallery.index is None,
        heard=heard,
        filters=filters,
        holding=holding(wishes, filters),
        results=results,
        facets=facets(served, wishes, filters) if with_facets else None,
        notices=notices(served, last.heard.get("notices", ()), heard, filters),
    )
