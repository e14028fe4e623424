"""Reads a sentence from left to right: denying words, their scope, steps, and what is taken back."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fashioniq.language import clauses, context
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.scan import Unit
from fashioniq.language.scope import SLEEVES, Scope, ScopedUnit, is_garment
from fashioniq.language.shades import shaded
from fashioniq.language.terms import GARMENT, LENGTH

_PARTS = ("detail", "trim")  # families with which a denied list goes on after "and"
_BEFORE_PARTS = (*_PARTS, "fabric", "neck")  # of what such a list goes on from: "without lace and bows"
_DENYING = ("instead", "except", "without", "less", "no", "not")


class Sentence(Scope):
    """Reads the units of a text."""

    def __init__(self, units: Sequence[Unit], lexicon: Lexicon) -> None:
        super().__init__(units, lexicon)
        for at, unit in enumerate(units):
            if at not in self._used:
                self._read(at, unit)
        self._border()
        self.items = shaded(self.items, self.units, lexicon)

    def _read(self, at: int, unit: Unit) -> None:
        if unit.mark:
            if any("that" in other.roles for other in self.units[at + 1 : at + 2]) or (
                self._denial in ("no", "not") and not self._seen and context.relative(self.units, at)
            ):
                return  # "schade, dass es keine Taschen hat", "kein Kleid, das rot ist"
            if unit.mark == ",":
                self._joint = ","
                if not (self._denial and context.listed(self.units, at, self._parts_listed())):
                    self._border(comma=True)
            else:
                self._border()
        elif unit.roles and self._role(at, unit):
            return
        elif unit.says or (unit.unknown and (unit := self._of_noun(at)).term):
            self._item(at, unit)
        elif self._less and (unit.unknown or "bad" in unit.roles):
            self._seen += 1  # "less frumpy with a belt"

    # roles

    def _role(self, at: int, unit: Unit) -> bool:
        """Apply the roles of a unit; whether it is nothing else."""
        roles = unit.roles
        if "denied" in roles:
            self._add(ScopedUnit(unit, True, joint=self._joint))
        elif "restart" in roles and (
            "filler" not in roles or context.alone(self.units, at)
        ):  # "clear", but not "a clear logo"
            self.taken_back.add("*")
        elif "like" in roles:
            if self._denial and not self._seen:
                if context.next_said(self.units, at) != at + 1:  # but "don't like this red"
                    self._denial = ""
            else:
                self.like_shown = True
                equal = () if self._denial else context.equal(self.units, at, self.lexicon)
                self.items = [item for item in self.items if item.unit.tokens != equal]
                if self._less:  # "not as short as this dress" denies no dress
                    self._denial, self._less = "", False
        elif "complaint" in roles and (kind := clauses.complaint(self.units, at)):
            self._deny(kind)
            self._complains = True
        elif (
            ("why" in roles and not clauses.asks_for(self.units, at, self.rules.roles))
            or ("pity" in roles and not clauses.about_person(self.units, at, self.rules.roles))
            or ("that" in roles and self._denial and not self._seen)
        ):
            self._deny("not", at)
            self._complains = True
        elif "owns" in roles and (owned := clauses.owned(self.units, at)):
            self._used.update(owned)
        elif self._takes_back(at, roles) or (roles & {"most", "least"} and self._limits(at)):
            return True
        elif "corrects" in roles or ("wants" in roles and clauses.described(self.units, at, self.rules.whom)):
            self._border()
            self._corrected = 0 if clauses.also(self.units, at) else len(self.items)
        elif "leave" in roles and context.left_out(self.units, at):
            self._deny("no", at)
        elif (self._denial == "swap" and roles & {"becomes", "toward"} and (self._seen or self._nouns)) or (
            "out" in roles
            and self._denial == "no"
            and self._seen
            and "leave" in self.units[self._denied_at].roles
        ):
            self._denial = ""
        elif "arrow" in roles:
            self._deny_back(self._clause)
            self._denial = ""
        elif ("swap" in roles and context.swaps(self.units, at)) or (
            "away" in roles and context.moves(self.units, at)
        ):
            self._deny("swap")
        elif not self._denial and clauses.opinion(self.units, at):
            self._refuse((GARMENT,) if "bad" in roles else (GARMENT, *_PARTS))
        elif "refused" in roles and not ("not" in roles and context.goes_on(self.units, at)):
            if "removed" in roles and self._denial and not self._seen:
                self._denial = ""  # "I love the lace, don't remove it"
            else:
                since = self._part if len(self.items) > self._part else self._last_part
                self._deny_back(self._removed(unit) if "removed" in roles else since)  # "leave it out"
        elif "granted" in roles and not context.goes_on(self.units, at):
            self.items[-1:] = [item._replace(denied=False) for item in self.items[-1:]]
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
        elif self._less and (
            ("as" in roles and self._seen and "contrast" in self.units[self._denied_at].roles)
            or (self._family and unit.key in self.rules.whom)
        ):
            self._denial, self._less = (
                "",
                False,
            )  # "not so much elegant as casual", "too formal for the beach"
        elif "but" in roles and not (self._denial and self._seen == 0 and "filler" in roles):
            if self._of_color is not None and context.another_color(self.units, at):
                self.items = [  # "not a red belt but a black one"
                    item._replace(denied=False) if item.unit is self._of_color else item
                    for item in self.items
                ]
            self._border(comma=True)
            self._rather = "prefer" in roles and not self._preferred
            self._preferred = self._preferred or "prefer" in roles
        elif (
            "too" in roles
            and not (self._denial or context.becomes(self.units, at))
            and context.next_said(self.units, at) == at + 1
        ):
            self._deny("less", at)
        elif "so" in roles and self._denial in ("not", "except") and (not self._seen or self._named(at)):
            self._less = True
        elif roles & {"assert", "more"}:
            if self._seen:
                self._denial, self._less = "", False
            self._preferred = self._preferred or "prefer" in roles
        elif "and" in roles:
            self._joint = "and"
            self._nouns.clear()
            denies_nothing = self._denial and not self._seen
            if denies_nothing and context.turns(self.units, self._denied_at, at, self._denial):
                # "has no print and is black", where prints have no labels
                self._denial, self._less = "", False
                self._part = len(self.items)
            parts = self._parts_listed() if self._family in _BEFORE_PARTS else ()
            goes_on = context.continues(self.units, at, self._family, parts)
            if self._denial and self._seen and not goes_on:
                # "too tight and short" are two steps, "less floral and short" has none
                self._denial, self._less = "", self._less and bool(self.items and self.items[-1].step)
                self._part = len(self.items)
        elif "or" in roles:
            if "fallback" in roles and self._seen:
                self._border(comma=True)  # "no red, otherwise pink"
            self._joint = "or"
        elif "prefer" in roles:
            self._preferred = True
        elif roles & {"shade", "bad"} or unit.term is not None or unit.step or unit.noun:
            return False
        return True

    def _named(self, at: int) -> bool:
        """Deny how something is, not the thing: "I don't want the dress so short"."""
        if not self.items:
            return False  # "not white sleeves so short"
        last = self.items[-1]
        about = (
            (last.unit.noun or is_garment(last))
            and last.unit is self.units[at - 1]
            and context.next_said(self.units, at) == at + 1
        )
        if not about or context.scale_of(self.units[at + 1], self.lexicon) is None:
            return False
        self.items[-1] = last._replace(denied=False)
        return True

    def _parts_listed(self) -> Collection[str]:
        """Families of parts, with which a denial such as "without" goes on after "and": "without lace and bows"."""
        return _PARTS if "list" in self.units[self._denied_at].roles else ()

    def _refuse(self, kept: Collection[str]) -> None:
        """Deny what the clause is about, but no families that are kept; another pattern, if the pattern is ugly."""
        said = [item for item in self.items[self._part :] if not self._tells_where(item.unit)]
        self.unlike |= (nouns := {item.unit.noun for item in said} & self.rules.alternatives)
        self.items[self._part :] = [
            item._replace(
                denied=not item.step and item.unit.term is not None and item.unit.term.family not in kept
            )
            for item in said
            if item.unit.noun not in nouns
        ]

    def _removed(self, unit: Unit) -> int:
        """First item that "it" stands for, or "them" after a list: "a belt and a bow on the back, remove them"."""
        several = any("several" in self.rules.roles.get(token.key, ()) for token in unit.tokens)
        for number in range(len(self.items) - 1, 0, -1):
            item, last = self.items[number], self.items[number - 1]
            between = self.units[context.place(self.units, last.unit) : context.place(self.units, item.unit)]
            listed = item.joint and not any(one.roles & {"but", "assert"} for one in between[1:])
            part = last.unit.term is not None and last.unit.term.family in _BEFORE_PARTS
            alike = several and listed and part and last.denied == item.denied  # not "lace, it has bows"
            if not (alike or self._tells_where(item.unit)):
                return number
        return 0

    def _denying(self, at: int, kind: str) -> None:
        following = (unit.term for unit in self.units[at + 1 : at + 3])
        if "few" in self.units[at].roles and any(term and term.family == GARMENT for term in following):
            return  # "there are hardly any red dresses"
        ends = at + 1 == len(self.units) or self.units[at + 1].mark
        goes_on = "answer" not in self.units[at].roles and context.relative(self.units, at + 1)
        if kind == "no" and ends and not goes_on:  # but "nichts, was rot ist"
            said = context.before_verb(self.units, at)
            if said is not None and self.items and self.items[-1].unit is self.units[said]:
                self._deny_back(self._removed(self.units[at]))  # "red no", "red is a no"
            elif at and self.units[at - 1].mark == ",":
                self._corrected = len(self.items)  # "red, no, blue"
            return  # an answer: "no, red"
        roles, denied = self.units[at].roles, bool(self._denial) and not self._seen
        again = kind in ("without", "less", "except") or (self._complains and "list" in roles)
        wants = any("assert" in unit.roles and len(unit.tokens) > 1 for unit in self.units[at + 1 : at + 2])
        if denied and ((again and self._denial != "less") or (self._denial == "not" and "removed" in roles)):
            self._denial = ""  # "not without pockets", "why does it have no pockets", "don't lose the belt"
        elif not (denied and kind == "not") and not ("answer" in roles and wants):  # "no I want red"
            self._deny(kind, at)

    # what is taken back

    def _takes_back(self, at: int, roles: frozenset[str]) -> bool:
        return (
            ("forget" in roles and self._forget(at))
            or (roles & {"any", "other"} and self._any(at))
            or ("irrelevant" in roles and self._irrelevant(at))
        )

    def _forget(self, at: int) -> bool:
        number = context.next_said(self.units, at)
        found = False
        while number is not None and context.names(self.units[number]):
            self.taken_back |= context.names(self.units[number])
            self._used.add(number)
            found = True
            goes_on = any(unit.roles & {"and", "or"} for unit in self.units[number + 1 : number + 2])
            number = context.next_said(self.units, number + 1) if goes_on else None
        return found

    def _any(self, at: int) -> bool:
        number, other = context.next_said(self.units, at), "other" in self.units[at].roles
        if other and number is None and "copula" in self.units[at - 1].roles:
            number = context.before_verb(self.units, at)  # "the color is wrong"
        if self._denial or number is None or not self.units[number].noun:
            return False
        if "swap" in self.units[at].roles and any(
            unit.roles & {"away", "toward"} for unit in self.units[number + 1 : number + 2]
        ):
            return False  # "change the color to red"
        noun = self.units[number].noun
        if other and noun == LENGTH and any(unit.noun == SLEEVES for unit in self._nouns):
            noun = SLEEVES  # "the sleeves are the wrong length"
            self._leave_out(noun)
        (self.unlike if other else self.taken_back).add(noun)
        if other and self.units[number].term is not None:
            return False  # "another pattern" is a pattern
        self._used.add(number)
        but = [
            unit.term for unit in self.units[number + 2 : number + 3] if "but" in self.units[number + 1].roles
        ]
        if "any" in self.units[at].roles and any(term and term.family == noun for term in but):
            self._used.add(number + 1)
            self._deny("except")  # "any color but red"
        return True

    def _irrelevant(self, at: int) -> bool:
        """Take back what the clause named: "the color doesn't matter"."""
        nouns = [*self._nouns, *context.listed_nouns(self.units, at)]
        named = [*(item.unit for item in self.items[self._part :]), *nouns]
        self.taken_back.update(*map(context.names, named))
        del self.items[self._part :]
        self._nouns.clear()
        return bool(named)
