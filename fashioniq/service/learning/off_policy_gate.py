"""What conversations that explored tell: how much shoppers look at each place of an answer, and, of later ones, what
they would have chosen of the new model.

All explored answers count, also those of conversations in which nothing was chosen: without them, the value would be
that of successful conversations. Both models replay a conversation up to an answer. If the replay of the running model
does not give the products that it always showed, in order (the model, filters or catalog were others), the answer is
left out: this does not depend on what was drawn.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from fashioniq.files import UserError
from fashioniq.loop.dialog import Dialog, DialogStep
from fashioniq.loop.rollout import System
from fashioniq.metrics.examination import PositionBias, position_bias
from fashioniq.metrics.off_policy import LoggedAnswers, doubly_robust, support
from fashioniq.service.exploring import DEEPEST, DRAWN, place_probabilities
from fashioniq.service.learning.export import MeasureComparison
from fashioniq.service.learning.rules import CHOICES, WEIGHTS, Logged, client_of, target_of
from fashioniq.service.store import TurnRow
from fashioniq.service.turns import step_of

LEAST_EFFECTIVE = 300  # answers
MEASURE = "choices per 100 answers, doubly robust"
NOTHING = (
    "no later conversation explored: what shoppers would have chosen of the new model is not known, as the log has no "
    "propensities; start the service with `serve --explore 0.02`"
)


@dataclass(frozen=True)
class OffPolicy:
    """Row of the gate, the conditions that were not met, and what a reader should know of the estimate."""

    rows: list[MeasureComparison]
    reasons: list[str]
    notes: list[str]


class ExploredAnswer(NamedTuple):
    """An answer of K products: their ranks and propensities, whether they were chosen as the target, and the first
    products of both models in order.
    """

    client: str
    ids: list[str]
    ranks: list[int]
    propensities: list[float]
    chosen: list[bool]
    running: list[str]
    new: list[str]


def judge_off_policy(
    sessions: Sequence[Logged], running: System, new: System, bias: PositionBias | None = None
) -> OffPolicy:
    """Estimate how much oftener shoppers would have chosen a product if the new model had answered.

    `bias` is that of an answer of the usual length; without it, all places count as examined.
    """
    answers, left_out = _explored_answers(sessions, running, new)
    if not answers and not left_out:
        return OffPolicy([], [], [NOTHING])
    usual = Counter(len(one.ids) for one in answers).most_common(1)[0][0] if answers else 0
    same = [one for one in answers if len(one.ids) == usual]
    left_out["of another number of products"] += len(answers) - len(same)
    notes = [f"{count:,} explored answers left out: {why}" for why, count in left_out.items() if count]
    if not same:
        return OffPolicy(
            [], [], [*notes, "no explored answer is left: what shoppers would have chosen is not known"]
        )
    if len({one.client for one in same}) < 2:
        return OffPolicy([], ["a replay gives the explored answers of fewer than two clients again"], notes)
    if bias is None or len(bias.examination_P) != usual:
        notes.append("nothing was chosen: all places count as examined alike")
        bias = PositionBias.known([1.0] * usual)
    log = _logged(same, bias)
    found, can = doubly_robust(log), support(log)
    row = MeasureComparison(
        name=MEASURE,
        running=100 * found.running,
        new=100 * found.new,
        low=100 * found.low,
        high=100 * found.high,
        count=len(same),
        passed=found.low > 0,
    )
    reasons = []
    if can.effective < LEAST_EFFECTIVE:
        reasons.append(
            f"the explored answers are worth {can.effective:.0f} of the new model's own, fewer than {LEAST_EFFECTIVE}; "
            "learn again when shoppers have had more, or explore more (serve --explore)"
        )
    if not row.passed:
        reasons.append(
            f"{MEASURE}, are {row.new:.2f}, with the running model {row.running:.2f}, which chance may explain"
        )
    notes.append(
        f"the explored answers are worth {can.effective:.0f} of the new model's own; {can.unsupported:.0%} of what it "
        "would show is never explored and counts as never chosen; the interval of a model that is not better is above "
        "zero in about 2.5 % of the cases at most"
    )
    return OffPolicy([row], reasons, notes)


def has_explored(turn: TurnRow) -> bool:
    """Whether products of this answer were drawn."""
    return bool(turn.shown) and "rank" in turn.shown[0]


def logged_position_bias(log: Sequence[Logged]) -> PositionBias | None:
    """The position bias of an answer of the usual length, by clients; None with too few choices.

    A product counts as chosen once per answer. Tests and bots do not count.
    """
    answers = [
        (
            client_of(session),
            [one["rank"] for one in turn.shown],
            *([(turn.query_id, one["id"]) in some for one in turn.shown] for some in (chosen, final)),
        )
        for session, turns, events in log
        if session.origin not in ("test", "bot")
        for chosen, final in [
            [
                {(one.query_id, one.product_id) for one in events if one.action in actions}
                for actions in (CHOICES, WEIGHTS)
            ]
        ]
        for turn in turns
        if has_explored(turn)
    ]
    if not answers:
        return None
    usual = Counter(len(ranks) for _, ranks, *_ in answers).most_common(1)[0][0]
    client_N, *same = zip(*(one for one in answers if len(one[1]) == usual), strict=True)
    rank_NP, chosen_NP, final_NP = same
    return position_bias(rank_NP, chosen_NP, max(0, usual - DRAWN), final_NP, client_N)


@torch.inference_mode()
def first_products(system: System, turns: Sequence[TurnRow]) -> list[list[str]]:
    """The first DEEPEST products after each turn, without filters; up to a turn that cannot be replayed."""
    live, found = Dialog.start(replace(system, offers=None)), list[list[str]]()
    with suppress(UserError):  # about an uploaded picture, or a product that the catalog lost
        for turn in turns:
            if turn.kind == "start" and turn.about:
                live = live.at(turn.about)
            if (step := step_of(turn)) != DialogStep():
                live = live.after(step)
            found.append([one.id for one in live.nearest(DEEPEST)] if has_explored(turn) else [])
    return found


def _explored_answers(
    sessions: Sequence[Logged], running: System, new: System
) -> tuple[list[ExploredAnswer], Counter[str]]:
    """Answers that can be judged, and the numbers of others by the reason."""
    answers, left_out = list[ExploredAnswer](), Counter[str]()
    for session, turns, events in sessions:
        target = target_of(events, {turn.query_id: turn.created_at for turn in turns})
        wanted = [
            one for one in events if target and one.product_id == target.product and one.action in WEIGHTS
        ]
        chosen = {(one.query_id, one.product_id) for one in wanted[:1]}  # a product is chosen once
        of_running, of_new = first_products(running, turns), first_products(new, turns)
        for number, turn in enumerate(turns):
            if not has_explored(turn):
                continue
            ids, ranks = [one["id"] for one in turn.shown], [one["rank"] for one in turn.shown]
            always = [name for rank, name in sorted(zip(ranks, ids, strict=True))][:-DRAWN]
            if turn.filters:
                left_out["with filters"] += 1
            elif number >= min(len(of_running), len(of_new)) or always != of_running[number][: len(always)]:
                left_out["that the running model no longer gives"] += 1
            else:
                answers.append(
                    ExploredAnswer(
                        client=client_of(session),
                        ids=ids,
                        ranks=ranks,
                        propensities=[one["propensity"] for one in turn.shown],
                        chosen=[(turn.query_id, name) in chosen for name in ids],
                        running=of_running[number],
                        new=of_new[number],
                    )
                )
    return answers, left_out


def _logged(answers: Sequence[ExploredAnswer], bias: PositionBias) -> LoggedAnswers:
    """The answers as arrays; a rank below the first DEEPEST is written as DEEPEST."""
    places = len(bias.examination_P)

    def ranked(names: list[str], order: list[str]) -> list[int]:
        ranks = {name: rank for rank, name in enumerate(order)}
        return [ranks.get(name, DEEPEST) for name in names[:places]] + [-1] * (places - len(names))

    return LoggedAnswers(
        reward_NK=np.array([one.chosen for one in answers], dtype=float),
        propensity_NK=np.array([one.propensities for one in answers]),
        # a rank that is always shown has the same places for any number of products, and all drawn ones are alike
        place_RK=np.array([place_probabilities(rank, places, places) for rank in range(places)]),
        running_rank_NK=np.array([one.ranks for one in answers]),
        new_rank_NK=np.array([ranked(one.ids, one.new) for one in answers]),
        new_list_NK=np.array([ranked(one.new, one.running) for one in answers]),
        running_list_NK=np.array([ranked(one.running, one.new) for one in answers]),
        bias=bias,
        session_N=np.array([one.client for one in answers]),
        deepest=DEEPEST,
    )
