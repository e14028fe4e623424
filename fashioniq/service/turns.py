"""Turns of a session: what is understood of one, the filters after it, what the person is told about it, how it is
stored, and the dialog that stored turns make.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

from rapidfuzz.fuzz import ratio
from rapidfuzz.process import extract

from fashioniq.data.clauses import shortened
from fashioniq.data.words import tokenize
from fashioniq.language.wishes import ParsedRequest, Wishes
from fashioniq.loop.dialog import ChosenLabel, DialogStep, wishes_after
from fashioniq.loop.wording import wish_key
from fashioniq.service.problems import wrong
from fashioniq.service.reply_schemas import Changed, HeardReply, Held, TurnReply, WishHeard
from fashioniq.service.schemas import FiltersBody, LabelWishBody, SaidBody, TurnBody
from fashioniq.service.served_model import Served
from fashioniq.service.stated_limits import filters_after, over, text_of
from fashioniq.service.store import TurnRow, scrub

NEAR_WORDS = 5  # suggestions for unknown words
ALIKE = 70  # percent of the letters of an unknown word and a suggestion: "zorgle" is not "orange"


class Understood(NamedTuple):
    """A turn as it was understood. `notes` are codes of notices."""

    step: DialogStep
    heard: HeardReply
    filters: FiltersBody
    notes: tuple[str, ...] = ()


def understood(
    served: Served,
    given: SaidBody,
    about: str | None,
    question: str,
    filters: FiltersBody,
    *,
    at: str = "",
    shown: Sequence[str] | None = None,
) -> Understood:
    """What is understood of a turn about a product, or none, in which these filters held; `shown` are the products
    of the last answer, None where it is not known.

    Raises Problem for words of which nothing is understood and for unknown labels; `at` is the place of the turn in
    the request.
    """
    for name in ("like", "less_like"):
        if getattr(given, name) is not None and served.asks:
            raise wrong(f"{at}/{name}", "questions_only", "questions-only")
    if given.says is not None:
        return said(served, given.says, about, question, filters, at=f"{at}/says", shown=shown)
    wish = ChosenLabel(given.wish.label, given.wish.denied) if given.wish else None
    wording = served.system.wording
    if wish and (wording is None or wording.family_of(wish.label) is None):
        raise wrong(f"{at}/wish/label", "unknown_label", "unknown-label")
    step = DialogStep(like=given.like, less_like=given.less_like, wish=wish)
    return Understood(step, HeardReply(), filters)


def said(
    served: Served,
    text: str,
    about: str | None,
    question: str,
    filters: FiltersBody,
    *,
    at: str,
    shown: Sequence[str] | None = None,
) -> Understood:
    """What is understood of words; `at` is their place in the request. Raises Problem if it is nothing."""
    text = scrub(text)
    system = served.system
    request = system.read(text)
    if not request.understood and request.like_shown and about in system.gallery.items.positions:
        return Understood(DialogStep(like=about), HeardReply(), filters)
    if request.others and shown is not None and system.shows_items:
        return Understood(DialogStep(passed=tuple(shown)), HeardReply(), filters)
    if not request.understood:
        raise wrong(at, "no_known_word", "nothing-understood", near=_near(served, request.unknown))
    clauses, cut = shortened(text, served.max_words)
    parts = tuple(clause for clause in clauses if system.read(clause).known)
    if system.wording is None:
        heard_words = tokenize(" ".join(clauses))
        heard = HeardReply(
            known=[word for word in heard_words if word not in request.unknown],
            unknown=list(request.unknown),
            near=_near(served, request.unknown),
            cut_after=heard_words[-1] if cut else None,
        )
        if not parts:  # all words that are known are beyond the limit
            raise wrong(at, "no_known_word", "nothing-understood", near=heard.near)
        return Understood(DialogStep(parts, about, question), heard, filters)
    filters, notes = filters_after(served, filters, request, about)
    return Understood(DialogStep(parts, about, question, text=text), _heard(served, request), filters, notes)


def _heard(served: Served, request: ParsedRequest) -> HeardReply:
    return HeardReply(
        known=list(request.known),
        unknown=list(request.unknown),
        near=_near(served, request.unknown),
        changed=[Changed(said=said, meant=meant) for said, meant in request.changed],
        wishes=[
            WishHeard(
                text=wish.text,
                labels=sorted(wish.labels),
                family=wish.family,
                denied=wish.denied,
                step=wish.step,
                start=wish.place[0],
                end=wish.place[1],
            )
            for wish in request.wishes
        ],
    )


def _near(served: Served, unknown: Iterable[str]) -> list[str]:
    """Known words that are spelled like unknown ones."""
    system, found = served.system, list[str]()
    words = list(system.vocabulary.words) if system.vocabulary else []
    if system.wording is not None:
        words = list(dict.fromkeys([*system.wording.labels, *words]))
    for one in list(unknown)[:NEAR_WORDS]:
        near = extract(one.lower(), words, scorer=ratio, score_cutoff=ALIKE, limit=2)
        found += [word for word, _, _ in near if word not in found]
    return found[:NEAR_WORDS]


def holding(wishes: Wishes, filters: FiltersBody) -> list[Held]:
    """What holds: wishes, then filters."""
    found = [
        Held(
            id=wish_key(wish),
            kind="wish",
            text=wish.text,
            labels=sorted(wish.labels),
            family=wish.family,
            denied=wish.denied,
        )
        for wish in wishes.held
    ]
    limits = [Held(id=name, kind=name, text=text_of(filters, name)) for name in filters.given]  # type: ignore[arg-type]
    return [*found, *limits]


def without(filters: FiltersBody, wishes: Wishes, id: str) -> tuple[FiltersBody, DialogStep]:
    """Filters after something was taken back, and the step that takes it back. Raises Problem if it does not hold."""
    if id in filters.given:
        return filters.model_copy(update={id: None}), DialogStep()
    if id not in {wish_key(wish) for wish in wishes.held}:
        raise wrong("/drop", "not_held", "not-held")
    return filters, DialogStep(dropped=id)


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
    heard = turn.heard
    if passed := heard.get("passed"):
        return DialogStep(passed=tuple(passed))
    return DialogStep(
        tuple(heard.get("clauses", ())),
        turn.about if turn.kind == "says" else None,
        turn.question or "",
        like=turn.about if turn.kind == "like" else None,
        text=(turn.says or "") if heard.get("whole") else "",
        less_like=turn.about if turn.kind == "less_like" else None,
        wish=ChosenLabel(**heard["wish"]) if heard.get("wish") else None,
        dropped=heard.get("dropped"),
    )


def steps_of(turns: Sequence[TurnRow]) -> list[DialogStep]:
    """The steps of stored turns, without those that changed filters only."""
    return [step for turn in turns if (step := step_of(turn)) != DialogStep()]


def wishes_of(served: Served, turns: Sequence[TurnRow]) -> Wishes:
    """What holds after stored turns."""
    return reduce(lambda wishes, step: wishes_after(served.system, wishes, step), steps_of(turns), Wishes())


def understood_after(
    served: Served, turns: Sequence[TurnRow], request: TurnBody, about: str | None, question: str
) -> Understood:
    """A turn after stored ones; filters of the request replace those of before, also what is said of them."""
    filters = FiltersBody.model_validate(turns[-1].filters) if request.filters is None else request.filters
    if request.drop is not None:
        filters, step = without(filters, wishes_of(served, turns), request.drop)
        return Understood(step, HeardReply(), filters)
    shown = [str(one["id"]) for one in turns[-1].shown]
    found = understood(served, request, about, question, filters, shown=shown)
    return found if request.filters is None else found._replace(filters=over(found.filters, filters))


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
