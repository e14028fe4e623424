"""What is understood of a turn: its step in the dialog, the filters after it, and what the person is told about it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rapidfuzz.fuzz import ratio
from rapidfuzz.process import extract

from fashioniq.data.clauses import shortened
from fashioniq.data.words import tokenize
from fashioniq.language.wishes import ParsedRequest, Wishes
from fashioniq.loop.dialog import ChosenLabel, DialogStep
from fashioniq.loop.wording import key_of
from fashioniq.service.problems import wrong
from fashioniq.service.reply_schemas import Changed, HeardReply, Held, WishHeard
from fashioniq.service.schemas import FiltersBody, SaidBody
from fashioniq.service.served_model import Served
from fashioniq.service.stated_limits import filters_after, text_of
from fashioniq.service.store import scrub

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
    step = DialogStep(parts, about, question, text=text)
    return Understood(step, _heard(served, request), filters, notes)


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
            id=key_of(wish),
            kind="wish",
            text=wish.text,
            labels=sorted(wish.labels),
            family=wish.family,
            denied=wish.denied,
        )
        for wish in wishes.held
    ]
    limits = [(name, text_of(filters, name)) for name in filters.given]
    return [*found, *(Held(id=name, kind=name, text=text) for name, text in limits)]  # type: ignore[arg-type]


def without(filters: FiltersBody, wishes: Wishes, id: str) -> tuple[FiltersBody, DialogStep]:
    """Filters after something was taken back, and the step that takes it back. Raises Problem if it does not hold."""
    if id in filters.given:
        return filters.model_copy(update={id: None}), DialogStep()
    if id not in {key_of(wish) for wish in wishes.held}:
        raise wrong("/drop", "not_held", "not-held")
    return filters, DialogStep(dropped=id)
