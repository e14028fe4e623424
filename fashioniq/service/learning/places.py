"""How much shoppers look at each place of an answer, from the conversations of a log that explored."""

from collections import Counter
from collections.abc import Sequence

from fashioniq.metrics.examination import counted, examination
from fashioniq.service.exploring import DRAWN
from fashioniq.service.learning.rules import Logged
from fashioniq.service.learning.signals import CHOICES, WEIGHTS
from fashioniq.service.store import TurnRow


def has_explored(turn: TurnRow) -> bool:
    """Whether products of this answer were drawn."""
    return bool(turn.shown) and "rank" in turn.shown[0]


def examined_places(log: Sequence[Logged]) -> list[float]:
    """Examination of the places of an answer of the usual length, relative to the first; empty with too few choices.

    A product counts as chosen once per answer. Tests and bots do not count.
    """
    answers = [
        (
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
        return []
    usual = Counter(len(ranks) for ranks, *_ in answers).most_common(1)[0][0]
    rank_NK, chosen_NK, final_NK = zip(*(one for one in answers if len(one[0]) == usual), strict=True)
    found_K = examination(*counted(rank_NK, chosen_NK, max(0, usual - DRAWN), final_NK))
    return [] if found_K is None else found_K.tolist()
