"""The turns of a session as they are stored, and the dialog that they make."""

from collections.abc import Sequence
from functools import reduce
from typing import Any

from fashioniq.language.wishes import Wishes
from fashioniq.loop.dialog import ChosenLabel, DialogStep, wishes_after
from fashioniq.service.reply_schemas import TurnReply
from fashioniq.service.schemas import LabelWishBody, TurnBody
from fashioniq.service.served_model import Served
from fashioniq.service.store import TurnRow, scrub
from fashioniq.service.understanding import Understood


def stored_step(understood: Understood) -> dict[str, Any]:
    """What is stored in `TurnRow.heard`, besides what the person is told, to replay a step."""
    step = understood.step
    more = {
        "whole": bool(step.text),
        "wish": step.wish and step.wish._asdict(),
        "passed": list(step.passed),
        "dropped": step.dropped,
    }
    return {"clauses": list(step.says)} | {name: value for name, value in more.items() if value}


def kind_of(step: DialogStep) -> str:
    """Kind of the turn of a step; filters alone count as said."""
    chosen = {"like": step.like, "less_like": step.less_like, "wish": step.wish}
    return next((kind for kind, one in chosen.items() if one is not None), "says")


def step_of(turn: TurnRow) -> DialogStep:
    """The step of a stored turn."""
    if turn.kind in ("like", "less_like"):
        return DialogStep(**{turn.kind: turn.about})
    if (wish := turn.heard.get("wish")) is not None:
        return DialogStep(wish=ChosenLabel(**wish))
    if (dropped := turn.heard.get("dropped")) is not None:
        return DialogStep(dropped=dropped)
    if passed := turn.heard.get("passed"):
        return DialogStep(passed=tuple(passed))
    about = turn.about if turn.kind == "says" else None
    text = (turn.says or "") if turn.heard.get("whole") else ""
    return DialogStep(tuple(turn.heard.get("clauses", ())), about, turn.question or "", text=text)


def steps_of(turns: Sequence[TurnRow]) -> list[DialogStep]:
    """The steps of stored turns, without those that changed filters only."""
    return [step for turn in turns if (step := step_of(turn)) != DialogStep()]


def wishes_of(served: Served, turns: Sequence[TurnRow]) -> Wishes:
    """What holds after stored turns."""
    return reduce(lambda wishes, step: wishes_after(served.system, wishes, step), steps_of(turns), Wishes())


def subject(turns: Sequence[TurnRow]) -> str | None:
    """Product that the next request is about: the one liked or started from last, or the first one shown last.

    None as long as nothing was said and no product was chosen.
    """
    if not any(_names(turn) for turn in turns):
        return None
    for turn in reversed(turns):
        if turn.kind in ("like", "start") and turn.about:
            return turn.about
        if turn.shown:
            return str(turn.shown[0]["id"])
    return None


def named(served: Served, turns: Sequence[TurnRow], request: TurnBody) -> str | None:
    """Product that the words of a request are about: the one given, one of the last answer by its place ("shorter than
    the second one"), or by default that of `subject`.
    """
    if request.says and not request.about:
        by_place = served.system.named(scrub(request.says), [str(one["id"]) for one in turns[-1].shown])
        if by_place is not None:
            return by_place
    return subject(turns) if request.about is None else request.about or None


def _names(turn: TurnRow) -> bool:
    """Whether a turn has words, also if they are no longer stored, or a product."""
    if turn.heard.get("passed"):  # "show me others"
        return False
    return bool(turn.about or turn.says or turn.word_ids or turn.heard.get("clauses"))


def unsaid(turns: Sequence[TurnRow]) -> bool:
    """Whether nothing was said or chosen in these turns but filters."""
    return not any(_names(turn) or turn.heard.get("wish") for turn in turns)


def shown(turn: TurnRow) -> TurnReply:
    """A turn as it was shown."""
    wish = turn.heard.get("wish")
    return TurnReply(
        turn=turn.n,
        query_id=turn.query_id,
        kind=turn.kind,
        about=turn.about,
        question=turn.question or "",
        says=turn.says,
        wish=None if wish is None else LabelWishBody(**wish),
        shown=[one["id"] for one in turn.shown],
        created_at=turn.created_at,
    )
