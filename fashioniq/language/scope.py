"""What of a text is wanted, denied or taken back: denying words, their scope, and steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fashioniq.language import ahead
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.scan import Unit
from fashioniq.language.terms import COLOR, GARMENT, LENGTH, NAME, Term

_DENYING = ("instead", "except", "without", "less", "no", "not")


class ScopedUnit(NamedTuple):
    """A unit that says something about the product."""

    unit: Unit
    denied: bool = False
    step: tuple[str, int] | None = None
    than: Unit | None = None  # what a step compares with, in place of the product
    joint: str = ""  # "or", "and" or "," before it
    softly: bool = False  # denied by "less", "too" or "not so"


class Sentence:
    """Reads the units of a text from left to right."""

    def __init__(self, units: Sequence[Unit], lexicon: Lexicon) -> None:
        self.units, self.lexicon, self.rules = units, lexicon, lexicon.grammar
        self.items: list[ScopedUnit] = []
        self.taken_back: set[str] = set()
        self.like_shown = False
        self._denial, self._seen, self._family = "", 0, ""  # kind, items in its scope, family of the last one
        self._clause, self._part, self._last_part = 0, 0, 0  # first items of the clause and its parts
        self._less, self._joint = False, ""  # "not so", "too"; "or", "and" or "," before a unit
        self._complains = False
        self._preferred = self._rather = False  # "than" denies what follows; and "over" and "to" do not
        self._nouns: list[Unit] = []  # of the part
        self._used: set[int] = set()  # units that belong to another one
        for at, unit in enumerate(units):
            if at not in self._used:
                self._read(at, unit)
        self._border()

    def _read(self, at: int, unit: Unit) -> None:
        if unit.mark:
            if unit.mark == ",":
                self._joint = ","
                if not (self._denial and ahead.listed(self.units, at)):
                    self._border(comma=True)
            else:
                self._border()
        elif unit.roles and self._role(at, unit):
            return
        elif unit.says:
            self._item(at, unit)
        elif self._less and unit.unknown:
            self._seen += 1  # "less frumpy with a belt"

    # roles

    def _role(self, at: int, unit: Unit) -> bool:
        """Apply the roles of a unit; whether it is nothing else."""
        roles = unit.roles
        if "denied" in roles:
            self._add(ScopedUnit(unit, True, joint=self._joint))
        elif "restart" in roles:
            self.taken_back.add("*")
        elif "like" in roles:
            if self._denial and not self._seen:
                self._denial = ""
            else:
                self.like_shown = True
                equal = () if self._denial else ahead.equal(self.units, at, self.lexicon)
                self.items = [item for item in self.items if item.unit.tokens != equal]
        elif "complaint" in roles and (kind := ahead.complaint(self.units, at)):
            self._deny(kind)
            self._complains = True
        elif "why" in roles:
            self._complains = True
        elif self._takes_back(at, roles):
            return True
        elif "arrow" in roles:
            self._deny_back(self._clause)
            self._denial = ""
        elif ("swap" in roles and ahead.swaps(self.units, at)) or (
            "away" in roles and ahead.moves(self.units, at)
        ):
            self._deny("swap")
        elif self._denial == "swap" and roles & {"becomes", "toward"} and (self._seen or self._nouns):
            self._denial = ""
        elif "refused" in roles:
            self._deny_back(self._part if len(self.items) > self._part else self._last_part)
        elif any(kind in roles for kind in _DENYING):
            self._denying(at, next(kind for kind in _DENYING if kind in roles))
        elif "free" in roles and at and self.items and self.items[-1].unit is self.units[at - 1]:
            self.items[-1] = self.items[-1]._replace(denied=True)
        elif "enough" in roles and self.items and self.items[-1].unit is self.units[at - 1]:
            self._enough(at)
        else:
            return self._joining(at, unit)
        return True

    def _joining(self, at: int, unit: Unit) -> bool:
        roles = unit.roles
        over = self._preferred and not self._rather and len(self.items) > self._part
        if "than" in roles or ("over" in roles and over):
            self._than(at)
        elif self._less and self._family and unit.key in self.rules.whom:
            self._denial, self._less = "", False  # "too formal for the beach"
        elif "but" in roles and not (self._denial and self._seen == 0 and "filler" in roles):
            self._border(comma=True)
            self._rather = "prefer" in roles and not self._preferred
            self._preferred = self._preferred or "prefer" in roles
        elif "too" in roles and not self._denial and ahead.next_said(self.units, at) == at + 1:
            self._deny("less")
        elif "so" in roles and self._denial == "not" and not self._seen:
            self._less = True
        elif "so" in roles and self._complains and not self._denial:
            self._deny("less")  # "why so short?"
        elif roles & {"assert", "more"}:
            if self._seen:
                self._denial, self._less = "", False
            self._preferred = self._preferred or "prefer" in roles
        elif "and" in roles:
            self._joint = "and"
            self._nouns.clear()
            if self._denial and self._seen and not ahead.continues(self.units, at, self._family):
                # "too tight and short" are two steps, "less floral and short" has none
                self._denial, self._less = "", self._less and bool(self.items and self.items[-1].step)
                self._part = len(self.items)
        elif "or" in roles:
            self._joint = "or"
        elif "prefer" in roles:
            self._preferred = True
        elif "shade" in roles or unit.term is not None or unit.step or unit.noun:
            return False
        return True

    def _denying(self, at: int, kind: str) -> None:
        if kind == "no" and (at + 1 == len(self.units) or self.units[at + 1].mark):
            if at and self.items and self.items[-1].unit is self.units[at - 1]:
                self._deny_back(len(self.items) - 1)  # "red no"
            return  # an answer: "no, red"
        if self._denial and not self._seen and kind in ("without", "less") and self._denial != "less":
            self._denial = ""  # "not without pockets"
            return
        if kind == "not" and self._denial and not self._seen:
            return
        self._deny(kind)

    def _deny(self, kind: str) -> None:
        self._denial, self._seen, self._family, self._less = kind, 0, "", kind == "less"

    def _deny_back(self, since: int) -> None:
        self.items[since:] = [
            item if item.step else item._replace(denied=True) for item in self.items[since:]
        ]

    def _border(self, comma: bool = False) -> None:
        """End of a clause, or of a part of it."""
        if self._denial == "not" and not self._seen:
            self._deny_back(self._part)  # "stripes are not for me"
        self._denial, self._seen, self._less, self._complains = "", 0, False, False
        self._preferred = self._preferred and comma
        self._rather = self._rather and self._preferred
        self._last_part = self._part
        self._part = len(self.items)
        self._nouns.clear()
        if not comma:
            self._clause, self._joint = len(self.items), ""

    def _than(self, at: int) -> None:
        following = ahead.next_said(self.units, at)
        if following is None or not self.items:
            return
        last, term = self.items[-1], self.units[following].term
        if self._less and not last.step:
            self._denial, self._less = "", False  # "less red than orange"
        elif last.step and term and term.family == last.step[0] and term.family != COLOR:
            self.items[-1] = last._replace(than=self.units[following])
            self._used.add(following)
        elif (self._preferred or last.step) and not ahead.about_shown(
            self.units, at, following, self.lexicon
        ):
            self._deny("than")

    def _enough(self, at: int) -> None:
        """Turn "not long enough" into a step, "not red enough" into a wish."""
        last = self.items[-1]
        if self._denial or last.denied:
            scale = ahead.scale_of(self.items.pop().unit, self.lexicon)  # a step may take it out, as its noun
            step = self._placed(at, scale) if scale else None
            self.items.append(last._replace(denied=False, step=step))
            self._denial, self._less = "", False

    # items

    def _item(self, at: int, unit: Unit) -> None:
        if self._seen and ahead.asserts(unit, self.lexicon):
            self._denial, self._less = "", False
        if unit.noun:
            self._nouns.append(unit)
            said = [item.unit for item in self.items[self._part :]]
            if unit.term is None or ahead.goes_with(self.units, at, said):
                return
        if unit.step and not ahead.inflected(self.units, at):
            family, sign = self._placed(at, unit.step)
            denied = self._denial not in ("", "less")
            self._add(ScopedUnit(unit, denied, (family, -sign if self._denial else sign), joint=self._joint))
            return
        scale = ahead.scale_of(unit, self.lexicon)
        if scale and (self._less or (unit.term is None and self._denial)):
            family, sign = self._placed(at, scale)
            self._add(ScopedUnit(unit, step=(family, -sign), joint=self._joint))
            return
        if unit.term is None:
            if scale is None or not self.lexicon.levels(scale[0]):
                return
            unit = unit._replace(term=Term(self.lexicon.half(*scale), scale[0]))
        family = unit.term.family if unit.term else ""
        alone = self._denial == "instead" and self._seen == 1 and not self._joint
        if alone and family == self._family and family in self.rules.alternatives:
            self._denial = ""  # "instead of red blue"
        kept = ahead.common(unit, self.lexicon) or (self._complains and family == GARMENT)
        denied = bool(self._denial) and not kept
        self._add(ScopedUnit(unit, denied, joint=self._joint, softly=denied and self._less))

    def _add(self, item: ScopedUnit) -> None:
        if item.step and not item.step[1]:
            self._seen += 1  # of "not wide enough", about a collar
            return
        said = self.items[self._clause :]
        wanted = [one.unit for one in said if not (one.denied or one.step)]
        if not (self._denial in ("instead", "than") and ahead.among(item.unit, wanted)):
            self.items.append(item)  # but not black of "black instead of black and white"
        self._joint = ""
        if self._denial and not ahead.common(item.unit, self.lexicon):
            self._seen += 1
            self._family = item.unit.term.family if item.unit.term else ""

    def _placed(self, at: int, step: tuple[str, int]) -> tuple[str, int]:
        """A step on the scale of the noun beside it: "longer" sleeves. 0 if it has none: "wider" sleeves or belts."""
        part = ahead.part_beside(self.units, at, self.lexicon)
        if part and not (step[0] == COLOR and part.term and part.term.family == "pattern"):
            return step[0], 0  # but "darker stripes" are those of a darker product
        noun = ahead.noun_beside(self.units, at) or next(
            (n.noun for n in self._nouns[::-1] if n.noun != NAME), ""
        )
        if not noun:
            return step
        if step[0] not in (noun, LENGTH):
            return noun, 0
        # "sleeves" says nothing else then
        self.items[self._part :] = [item for item in self.items[self._part :] if item.unit.noun != noun]
        return noun, step[1]

    # what is taken back

    def _takes_back(self, at: int, roles: frozenset[str]) -> bool:
        return (
            ("forget" in roles and self._forget(at))
            or ("any" in roles and self._any(at))
            or ("irrelevant" in roles and self._irrelevant(at))
        )

    def _forget(self, at: int) -> bool:
        number = ahead.next_said(self.units, at)
        found = False
        while number is not None and ahead.names(self.units[number]):
            self.taken_back |= ahead.names(self.units[number])
            self._used.add(number)
            found = True
            goes_on = any(unit.roles & {"and", "or"} for unit in self.units[number + 1 : number + 2])
            number = ahead.next_said(self.units, number + 1) if goes_on else None
        return found

    def _any(self, at: int) -> bool:
        number = ahead.next_said(self.units, at)
        if self._denial or number is None or not self.units[number].noun:
            return False
        self.taken_back.add(self.units[number].noun)
        self._used.add(number)
        if any("but" in unit.roles for unit in self.units[number + 1 : number + 2]):
            self._used.add(number + 1)
            self._deny("except")
        return True

    def _irrelevant(self, at: int) -> bool:
        """Take back what the clause named: "the color doesn't matter"."""
        nouns = [*self._nouns, *ahead.listed_nouns(self.units, at)]
        named = [*(item.unit for item in self.items[self._part :]), *nouns]
        self.taken_back.update(*map(ahead.names, named))
        del self.items[self._part :]
        self._nouns.clear()
        return bool(named)
