"""What of a sentence is said, denied or a step: the state of a reading, and what its words do to it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from fashioniq.language import attachment, context
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.scan import Unit
from fashioniq.language.terms import COLOR, GARMENT, LENGTH, NAME, Term

_NECK, SLEEVES = "neck", "sleeves"
_OF_PARTS = frozenset([COLOR, LENGTH, "fit"])  # families that may be about a part: "no tight sleeves"


class ScopedUnit(NamedTuple):
    """A unit that says something about the product."""

    unit: Unit
    denied: bool = False
    step: tuple[str, int] | None = None
    than: Unit | None = None  # what a step compares with, in place of the product
    joint: str = ""  # "or", "and" or "," before it
    softly: bool = False  # denied by "less", "too" or "not so"; a step that only denies: "not so"


def is_garment(item: ScopedUnit) -> bool:
    """Whether a kind of garment is said."""
    return item.unit.term is not None and item.unit.term.family == GARMENT


class Scope:
    """What was said so far, and what is denied at this place of the sentence."""

    def __init__(self, units: Sequence[Unit], lexicon: Lexicon) -> None:
        self.units, self.lexicon, self.rules = list(units), lexicon, lexicon.grammar
        self.items: list[ScopedUnit] = []
        self.taken_back: set[str] = set()
        self.unlike: set[str] = set()
        self.like_shown = False
        self._denial, self._seen, self._family = "", 0, ""  # kind, items in its scope, family of the last one
        self._denied_at = 0  # place of the denying word
        self._of_color: Unit | None = None  # part of a color that is denied
        self._clause, self._part, self._last_part = 0, 0, 0  # first items of the clause and its parts
        self._less, self._joint = False, ""  # "not so", "too"; "or", "and" or "," before a unit
        self._complains = False
        self._corrected = 0  # items before this one are corrected by later ones of their family
        self._preferred = self._rather = False  # "than" denies what follows; and "over" and "to" do not
        self._nouns: list[Unit] = []  # of the part
        self._used: set[int] = set()  # units that belong to another one

    def _deny(self, kind: str, at: int = 0) -> None:
        self._denial, self._seen, self._family, self._less = kind, 0, "", kind == "less"
        self._denied_at = at

    def _deny_back(self, since: int) -> None:
        """Deny what was said, but no garment beside something else: "red dresses are not for me"."""
        said = [item for item in self.items[since:] if not self._tells_where(item.unit)]
        kept = any(  # but both of "dresses and lace are not for me"
            not item.joint and is_garment(last) != is_garment(item) for last, item in pairwise(said)
        )
        self.items[since:] = [
            item if item.step or (kept and is_garment(item)) else item._replace(denied=True) for item in said
        ]

    def _border(self, comma: bool = False) -> None:
        """End of a clause, or of a part of it."""
        if self._denial == "not" and not self._seen and not context.joined(self.units, self._denied_at):
            # "stripes are not for me", but not "is grey and does not have a print"
            if len(self.items) == self._part and not context.unknown(self.units, self._denied_at):
                self.unlike |= {unit.noun for unit in self._nouns}.intersection(self.rules.alternatives)
            if not context.contrasts(self.units, self._denied_at):
                self._deny_back(self._part)
        if self._denial == "except" and not self._seen:  # "I like it, but not the color"
            since = self.units[self._denied_at].start
            self.unlike |= {unit.noun for unit in self._nouns if unit.start > since} & self.rules.alternatives
        self._denial, self._seen, self._less, self._complains = "", 0, False, False
        self._preferred = self._preferred and comma
        self._rather = self._rather and self._preferred
        self._last_part = self._part
        self._part = len(self.items)
        self._nouns.clear()
        if not comma:
            self._clause, self._joint = len(self.items), ""

    def _item(self, at: int, unit: Unit) -> None:
        if self._seen and context.asserts(unit, self.lexicon):
            self._denial, self._less = "", False
        if self._denial and (
            (unit.noun == SLEEVES and attachment.modified(self.units, at))  # "no puffy sleeves"
            or attachment.tells_where(self.units, self._denied_at, at, self.lexicon)
        ):
            self._seen = max(self._seen, 1)
            named = unit.noun or unit.tokens[-1].key in self.rules.parts
            if unit.term and unit.term.family != GARMENT and not named:
                self._add(ScopedUnit(unit, joint=self._joint))
            return  # "no lace on the sleeves" says nothing against sleeves
        if unit.noun:
            self._nouns.append(unit)
            said = [item.unit for item in self.items[self._part :] if self._seen or not self._denial]
            if unit.term is None or context.goes_with(self.units, at, said):
                return
        if unit.step and not attachment.inflected(self.units, at):
            family, sign = self._placed(at, unit.step)
            denied = self._denial not in ("", "less")
            self._add(ScopedUnit(unit, denied, (family, -sign if self._denial else sign), joint=self._joint))
            return
        scale = context.scale_of(unit, self.lexicon)
        if scale and (self._less or (unit.term is None and self._denial)):
            family, sign = self._placed(at, scale)
            words = self.units[self._denied_at].tokens
            mild = any("not" in self.rules.roles.get(word.key, ()) for word in words)
            self._add(ScopedUnit(unit, step=(family, -sign), joint=self._joint, softly=mild))
            return
        if not self._denial or self._seen == 0:
            unit = self._of_noun(at)
        if unit.term is None:
            if scale is None or not self.lexicon.levels(scale[0]):
                return
            unit = unit._replace(term=Term(self.lexicon.half(*scale), scale[0]))
        family = unit.term.family if unit.term else ""
        instead = self._denial == "instead"
        one_by_one = instead or (self._denial == "not" and "article" in self.units[at - 1].roles)
        other = one_by_one and family == self._family and family in self.rules.alternatives
        last = self.items[-1].unit if self.items else None
        follows = instead and last is not None and context.follows(self.units, at, last)
        if self._seen == 1 and not self._joint and (other or follows):
            # "instead of red blue", "instead of the belt a bow", "not the red one the green one"
            self._denial = ""
        kept = context.common(unit, self.lexicon) or (self._complains and family == GARMENT)
        denied = bool(self._denial) and not kept
        if denied and family == GARMENT and attachment.is_kind(self.units, at, self.lexicon):
            if not self._less:
                return  # "no short dresses" says nothing against dresses
            denied = False
        of_part = attachment.colors_part if family == COLOR else attachment.shapes_part
        about = denied and family in _OF_PARTS and not self._less
        if about and of_part(self.units, at, self.lexicon):
            self._of_color = self.units[at + 1]  # "no black belt" says nothing against black
            return
        self._add(ScopedUnit(unit, denied, joint=self._joint, softly=denied and self._less))
        if not self._denial and context.denies_list(self.units, at, self.rules.roles):
            self._deny("no", at)
            self._seen, self._family = 1, family

    def _of_noun(self, at: int) -> Unit:
        """A word with the noun before it: "make the sleeves short" asks for short sleeves."""
        unit, before = self.units[at], self.units[at - 1]
        near = unit.scaled or before.noun == _NECK or before.roles & {"copula", "toward"}
        for noun in self._nouns[-1:] if near else ():
            words = tuple(token.key for token in (*unit.tokens, *noun.tokens))
            term = self.lexicon.find(words)
            if term is not None and term.labels and term.family == noun.noun:
                if not self._denial:
                    self._leave_out(noun.noun)
                self.units[at] = unit._replace(term=term)
        return self.units[at]

    def _add(self, item: ScopedUnit) -> None:
        if item.step and not item.step[1]:
            self._seen += self._denial != "instead"  # of "not wide enough", about a collar
            return
        wished = [one.unit for one in self.items[self._clause :] if not (one.denied or one.step)]
        same = self.lexicon.stem(item.unit.key) in [self.lexicon.stem(unit.key) for unit in wished]
        if item.softly and same:
            self._seen += 1
            return  # "long but not too long"
        self._correct(item)
        # not black of "black instead of black and white", nor loose of "loose but not baggy"
        again = self._denial in ("instead", "than") or (
            item.denied and not same and context.renames(item.unit)
        )
        if not (again and context.among(item.unit, wished)):
            self.items.append(item)
        self._joint = ""
        if self._denial and not context.common(item.unit, self.lexicon):
            self._seen += 1
            self._family = item.unit.term.family if item.unit.term else ""

    def _correct(self, item: ScopedUnit) -> None:
        """Leave out what a wish after "no wait" takes the place of: "red, no wait, green"."""
        family = item.unit.term.family if item.unit.term else ""
        if item.denied or item.step or family not in self.rules.alternatives:
            return
        beside_others = self._colors_part(item.unit)  # "a red dress, but I want a black belt"
        before = [
            one
            for one in self.items[: self._corrected]
            if one.denied
            or one.step
            or not one.unit.term
            or one.unit.term.family != family
            or (beside_others and not self._colors_part(one.unit))
        ]
        gone = self._corrected - len(before)
        self.items[: self._corrected] = before
        self._corrected -= gone
        self._clause, self._part, self._last_part = (
            max(0, place - gone) for place in (self._clause, self._part, self._last_part)
        )

    def _colors_part(self, unit: Unit) -> bool:
        is_color = unit.term is not None and unit.term.family == COLOR
        return is_color and attachment.colors_part(self.units, context.place(self.units, unit), self.lexicon)

    def _tells_where(self, unit: Unit) -> bool:
        return attachment.tells_where(self.units, -1, context.place(self.units, unit), self.lexicon)

    def _placed(self, at: int, step: tuple[str, int]) -> tuple[str, int]:
        """A step on the scale of the noun beside it: "longer" sleeves. 0 if it has none: "wider" sleeves or belts."""
        part = attachment.part_beside(self.units, at, self.lexicon)
        if part and not (step[0] == COLOR and part.term and part.term.family == "pattern"):
            return step[0], 0  # but "darker stripes" are those of a darker product
        last = self.items[-1].unit.term if self.items else None
        if "depth" in self.units[at].roles and last is not None and last.family == _NECK:
            return _NECK, 0  # "a v-neck, but not too deep"
        near = attachment.noun_beside(self.units, at)
        noun = near or next((n.noun for n in self._nouns[::-1] if n.noun != NAME), "")
        if not noun:
            return step
        of_neck = noun == _NECK and (bool(near) or attachment.is_subject(self.units, at))
        if step[0] == LENGTH and noun not in (LENGTH, SLEEVES) and not of_neck:
            return step  # "is longer with a different color", "a shorter style"
        if step[0] not in (noun, LENGTH) or of_neck:
            return noun, 0
        self._leave_out(noun)
        return noun, step[1]

    def _limits(self, at: int) -> bool:
        """Compare with a level, and keep it: "at most knee length", "knee length at most"."""
        following = context.next_said(self.units, at)
        unit = self.units[max(0, at - 1) if following is None else following]
        family, labels = (unit.term.family, unit.term.labels) if unit.term else ("", frozenset[str]())
        if family == COLOR or self._denial or max(self.lexicon.places(family, labels), default=-1) < 0:
            return False
        self._used.add(at if following is None else following)
        self.items = [item for item in self.items if item.unit is not unit]
        direction = 1 if "least" in self.units[at].roles else -1
        self._add(ScopedUnit(unit, True, (family, direction), unit, self._joint))
        return True

    def _leave_out(self, noun: str) -> None:
        """Leave out a noun of the part that says nothing else: "sleeves" of "the sleeves are shorter"."""
        self.items[self._part :] = [item for item in self.items[self._part :] if item.unit.noun != noun]

    def _than(self, at: int) -> None:
        following = context.next_said(self.units, at)
        term = self.units[following].term if following is not None else None
        if term and term.family in self.unlike:  # "another color than red"
            self.unlike.discard(term.family)
            self._deny("than")
            return
        if following is None or not self.items:
            return
        last = self.items[-1]
        if self._less and not last.step:
            self._denial, self._less = "", False  # "less red than orange"
        elif last.step and term and term.family == last.step[0] and term.family != COLOR:
            self.items[-1] = last._replace(than=self.units[following])
            self._used.add(following)
        elif (self._preferred or last.step) and not context.about_shown(
            self.units, at, following, self.lexicon
        ):
            self._deny("than")

    def _enough(self, at: int) -> None:
        """Turn "not long enough" into a step, "not red enough" into a wish."""
        last = self.items[-1]
        if self._denial or last.denied:
            # the item is taken out first: a step may do it, too, as its noun
            scale = context.scale_of(self.items.pop().unit, self.lexicon)
            step = self._placed(at, scale) if scale else None
            self.items.append(last._replace(denied=False, step=step))
            self._denial, self._less = "", False
