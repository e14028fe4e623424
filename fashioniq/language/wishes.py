"""What was understood of requests: wishes and limits of one text, and what holds after several."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from fashioniq.language.terms import COLOR, NAME, PERSON

if TYPE_CHECKING:
    from fashioniq.language.lexicon import Lexicon

EVERYTHING = "*"
PRICE, SIZE, STOCK = "price", "size", "stock"  # what can be taken back besides families and labels


class Wish(NamedTuple):
    """An attribute or free words, wanted or denied, or a step on a scale."""

    labels: frozenset[str]  # labels of the catalog, any of which satisfies the wish; empty for free words
    text: str  # the words that said so, as written
    place: tuple[int, int]  # their place in the text, in characters
    family: str = (
        ""  # family of the labels, such as "colour", or of free words (PERSON, NAME); "" if there is none
    )
    denied: bool = False
    step: int = 0  # -1 or 1: less or more on the family's scale than the product talked about
    against: frozenset[str] = (
        frozenset()
    )  # of a step: labels on the wrong side, which count as denied; of "not so short", the short ones
    turn: int = 0  # of the dialog in which it was said
    alone: bool = False  # said about no product
    interpreted: bool = False  # a step, "less", or another name of the labels, such as "crimson"
    corrected: str = ""  # free words without their spelling mistake

    @property
    def words(self) -> str:
        """The words that said so, after correction."""
        return self.corrected or self.text


class OfferLimits(NamedTuple):
    """Limits of price, size and stock. Prices are in minor units with two decimals, such as cents."""

    least_minor: int | None = None
    most_minor: int | None = None
    currency: str | None = None  # ISO 4217; None if it was not said
    sizes: tuple[str, ...] = ()
    in_stock: bool = False
    cheaper: int = 0  # -1 cheaper, 1 dearer than the product talked about

    def after(self, new: OfferLimits, price_minor: int | None) -> OfferLimits:
        """Limits after new ones, about a product of this price."""
        least, most = new.least_minor, new.most_minor
        if new.cheaper and price_minor is not None:
            if new.cheaper < 0:
                most = max(price_minor - 1, 0) if most is None else most
            else:
                least = price_minor + 1 if least is None else least
        if least is None and (most is None or (self.least_minor or 0) <= most):
            least = self.least_minor
        if most is None and (least is None or self.most_minor is None or least <= self.most_minor):
            most = self.most_minor
        return OfferLimits(
            least,
            most,
            new.currency or self.currency,
            sizes=new.sizes or self.sizes,
            in_stock=new.in_stock or self.in_stock,
            cheaper=new.cheaper if price_minor is None else 0,
        )

    def within(self, least: int | None, most: int | None, currency: str) -> OfferLimits:
        """Limits in which what is cheap, or expensive, is a range of prices; amounts that were said count more."""
        return self._replace(
            least_minor=least if self.least_minor is None else self.least_minor,
            most_minor=most if self.most_minor is None else self.most_minor,
            currency=self.currency or currency,
            cheaper=0,
        )

    def without(self, taken_back: Collection[str]) -> OfferLimits:
        """Limits without those that no longer matter."""
        kept = self
        if PRICE in taken_back:
            kept = kept._replace(least_minor=None, most_minor=None, currency=None, cheaper=0)
        if SIZE in taken_back:
            kept = kept._replace(sizes=())
        return kept._replace(in_stock=False) if STOCK in taken_back else kept


class ParsedRequest(NamedTuple):
    """What was understood of one text."""

    text: str
    wishes: tuple[Wish, ...] = ()
    limits: OfferLimits = OfferLimits()
    taken_back: frozenset[str] = frozenset()  # families and labels that no longer matter; "*" for everything
    unlike: frozenset[str] = frozenset()  # families of which the product should have others: "another color"
    known: tuple[str, ...] = ()  # understood content words, after correction
    unknown: tuple[str, ...] = ()  # content words that were not understood
    changed: tuple[tuple[str, str], ...] = ()  # as written, and what was searched for instead
    asserted: str = ""  # words for lexical search: what is wanted, garments and free words
    corrected: str = ""  # whole text after spelling correction, for the vector model
    like_shown: bool = False  # "like this but …": the product talked about may come back
    others: bool = False  # "show me others": none of those that are shown, and nothing else
    place: int | None = (
        None  # among those shown, of the product that it is about: 0 in "longer than the first"
    )

    @property
    def understood(self) -> bool:
        """Whether the text said anything that a search can use."""
        return bool(
            self.wishes or self.known or self.taken_back or self.unlike or self.limits != OfferLimits()
        )


class Wishes(NamedTuple):
    """What holds after some turns."""

    held: tuple[Wish, ...] = ()  # steps are resolved into the labels above or below the product's
    limits: OfferLimits = OfferLimits()
    asserted: tuple[str, ...] = ()  # per turn, newest last

    def after(
        self,
        request: ParsedRequest,
        labels: Collection[str] | None,
        lexicon: Lexicon,
        price_minor: int | None = None,
    ) -> Wishes:
        """Wishes after one more request about a product with these labels (None: no product named).

        With the price of the product, "cheaper" becomes a limit; otherwise `limits.cheaper` says so for this turn.
        """
        if EVERYTHING in request.taken_back:
            return Wishes().after(request._replace(taken_back=frozenset()), labels, lexicon, price_minor)
        before = [_taken_back(wish, request.taken_back) for wish in self.held]
        held = [wish for wish in before if wish and (wish.denied or wish.family not in request.unlike)]
        fresh: list[Wish] = []
        unlike = tuple(_unlike(request.unlike, labels, self.held, lexicon))
        had = frozenset[str]().union(*(wish.labels for wish in unlike))
        besides = (  # "another pattern" is none of the product, "another color, red" is red
            wish if wish.denied or wish.family == COLOR else _without(wish, had) for wish in request.wishes
        )
        said = (*unlike, *_between(tuple(wish for wish in besides if wish is not None)))
        for wish in sorted(said, key=lambda wish: not wish.step):  # so that denials narrow steps
            if wish.step:
                wish = _resolved(wish, frozenset(labels or ()), lexicon, held)
                if not wish.labels:
                    continue
            held = [kept for old in held if (kept := _contradicted(old, wish, lexicon)) is not None]
            fresh = [kept for old in fresh if (kept := _narrowed(old, wish)) is not None]
            fresh.append(wish._replace(turn=len(self.asserted), alone=labels is None))
        said_now = {(wish.labels, wish.denied) for wish in fresh if wish.labels}
        after = (*(wish for wish in held if (wish.labels, wish.denied) not in said_now), *fresh)
        gone = _wanted(self.held) - _wanted(after)
        return Wishes(
            after,
            self.limits.without(request.taken_back | request.unlike).after(request.limits, price_minor),
            (*(_left_out(text, gone) for text in self.asserted), request.asserted),
        )


def _unlike(
    families: Iterable[str], labels: Collection[str] | None, held: Iterable[Wish], lexicon: Lexicon
) -> Iterator[Wish]:
    """Denials of what the product has of these families, or without one, of what was wanted."""
    for family in sorted(families):
        if labels is None:
            labels = {label for wish in held if not wish.denied for label in wish.labels}
        if found := lexicon.of_family(family).intersection(labels):
            yield Wish(found, " or ".join(sorted(found)), (0, 0), family, denied=True)


def _between(wishes: Collection[Wish]) -> Iterator[Wish]:
    """Wishes; of "not too short, not too long" and "longer, but not too long", what is neither, whatever the product
    is."""
    steps = {(wish.family, wish.step) for wish in wishes if wish.step}
    for wish in wishes:
        both = wish.step and wish.against and (wish.family, -wish.step) in steps
        yield _only_denied(wish) if both else wish


def _only_denied(wish: Wish) -> Wish:
    """Of a step that was denied, such as "not so short", the denial of what is short."""
    return wish._replace(labels=wish.against, denied=True, step=0, against=frozenset())


def _wanted(wishes: Iterable[Wish]) -> set[str]:
    return {word for wish in wishes if not wish.denied for word in (*wish.labels, wish.text.lower())}


def _left_out(text: str, gone: Collection[str]) -> str:
    """A text without some words and phrases, longest first."""
    for words in sorted(gone, key=len, reverse=True):
        if words and words in text:
            text = re.sub(rf"(?<!\w){re.escape(words)}(?!\w)", " ", text)
    return " ".join(text.split())


def _taken_back(wish: Wish, taken_back: Collection[str]) -> Wish | None:
    if {wish.family, wish.text.lower(), wish.words.lower()} & set(taken_back):
        return None
    return _without(wish, frozenset(taken_back))


def _without(wish: Wish, labels: frozenset[str]) -> Wish | None:
    """A wish without some labels, or None if no label is left."""
    if not wish.labels & labels:
        return wish
    left = wish.labels - labels
    return wish._replace(labels=left) if left else None


def _narrowed(old: Wish, new: Wish) -> Wish | None:
    """An earlier wish of the same text: without the labels that the new one contradicts or repeats."""
    if not old.labels and not new.labels:
        return None if old.text.lower() == new.text.lower() else old
    if old.denied == new.denied:
        return None if old.labels and old.labels == new.labels else old
    return _without(old, new.labels)


def _contradicted(old: Wish, new: Wish, lexicon: Lexicon) -> Wish | None:
    """What is left of a wish of an earlier turn."""
    wanted = not old.denied and not new.denied and old.family == new.family
    if wanted and new.family in (PERSON, NAME):
        return None
    if wanted and old.labels and new.labels:
        if old.step or new.step:
            return None
        if lexicon.alternatives(old.labels, new.labels, new.family):
            return None
    return _narrowed(old, new)


def _resolved(wish: Wish, product: frozenset[str], lexicon: Lexicon, held: Iterable[Wish]) -> Wish:
    """A step as the labels above or below the product's; the end of the scale if there are none.

    Of a product without a level, the upper or lower half of the scale, or what is not short of "not so short". Labels
    that an earlier turn denied are left out. Without a scale, there are no labels.
    """
    if wish.labels:
        return wish
    levels = lexicon.levels(wish.family)
    zero = lexicon.lowest(wish.family)  # below the first level, such as "sleeveless"
    at = lexicon.places(wish.family, product)
    chosen: tuple[frozenset[str], ...]
    if not at and wish.against:
        return _only_denied(wish)
    if not at:
        chosen = (lexicon.half(wish.family, wish.step),) if levels else ()
    else:
        chosen = levels[max(at) + 1 :] if wish.step > 0 else levels[: max(min(at), 0)]
    if not chosen:
        chosen = levels[-1:] if wish.step > 0 else (zero,) if zero else levels[:1]
    labels = frozenset().union(*chosen) if chosen else frozenset[str]()
    denied = frozenset().union(*(old.labels for old in held if old.denied))
    against = zero.union(*levels) - labels
    return wish._replace(labels=(labels - denied) or labels, against=against)
