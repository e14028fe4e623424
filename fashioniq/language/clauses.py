"""What a clause is about: the product shown, another thing, or the person who speaks."""

from collections.abc import Container, Mapping, Sequence
from itertools import takewhile

from fashioniq.language.context import MODIFY, next_said
from fashioniq.language.scan import Unit
from fashioniq.language.terms import GARMENT


def opinion(units: Sequence[Unit], at: int) -> bool:
    """Whether what is before a place is bad or too much of something: "red is ugly", "black is too sad"."""
    return next_said(units, at) is None and (
        "bad" in units[at].roles
        or ("too" in units[at].roles and any(unit.unknown for unit in units[at + 1 : at + 2]))
    )


def asks_for(units: Sequence[Unit], at: int, roles: Mapping[str, frozenset[str]]) -> bool:
    """Whether a phrase that asks for products follows, with a denial that means nothing: "why don't you have"."""
    phrases = [
        unit.tokens for unit in units[at + 1 : at + 2] if "filler" in unit.roles and len(unit.tokens) > 1
    ]
    return any(roles.get(token.key, frozenset()) & {"no", "not"} for tokens in phrases for token in tokens)


def about_person(units: Sequence[Unit], at: int, roles: Mapping[str, frozenset[str]]) -> bool:
    """Whether the part of the clause is about the person who speaks: "ich mag leider keine Wolle"."""
    clause = [
        one for part in (units[at::-1], units[at:]) for one in takewhile(lambda unit: not unit.mark, part)
    ]
    return any("myself" in roles.get(token.key, ()) for unit in clause for token in unit.tokens)


def described(units: Sequence[Unit], at: int, whom: Container[str]) -> bool:
    """Whether the clause before says how the product shown is: "this one is green, I want blue"; not what it is for."""
    clause = list(takewhile(lambda unit: not unit.mark, units[at - 2 :: -1]))[::-1] if at > 1 else []
    says = any("is" in unit.roles for unit in clause[:3])
    purpose = any(token.key in whom for unit in clause for token in unit.tokens)
    shown = says and units[at - 1].mark and clause[0].roles & {"shown", "is", "article"}
    return bool(shown) and not purpose


def also(units: Sequence[Unit], at: int) -> bool:
    """Whether the clause adds to what was said: "but I want it elegant too"."""
    marked = any(unit.mark for unit in units[at + 1 : at + 2])  # "sorry, I also want navy"
    clause = list(takewhile(lambda unit: not unit.mark, units[at + 1 + marked :]))
    return any("also" in one.roles and ("too" not in one.roles or one is clause[-1]) for one in clause)


def owned(units: Sequence[Unit], at: int) -> list[int]:
    """Places of what tells which other thing is meant: "my brown boots", "a black bag and black shoes". There is none
    in "I have a red dress in mind".
    """
    found, near = list[int](), list[int]()
    for number, unit in enumerate(units[at + 1 :], at + 1):
        garment = unit.term is not None and unit.term.family == GARMENT
        if garment or (unit.term is not None and unit.term.family in MODIFY and not unit.noun):
            near.append(number)
        if unit.unknown or garment:
            found, near = found + near, []
        elif number not in near and not unit.roles & {"article", "and"}:
            return [] if "sought" in unit.roles else found
    return found


def complaint(units: Sequence[Unit], at: int) -> str:
    """Kind of the denial that a complaint begins: "less" before "too short", "complaint" before "black", or ""."""
    if at and not (units[at - 1].mark or units[at - 1].roles & {"but", "and"}):
        return ""
    for number, unit in enumerate(units[at + 1 :], at + 1):
        if "article" in unit.roles:
            continue
        if unit.step or unit.roles & {"too", "so"}:
            return "less"
        enough = any("enough" in other.roles for other in units[number + 1 : number + 2])
        said = unit.scaled or (unit.term and unit.term.labels and not unit.roles)
        return "complaint" if said and not enough else ""
    return ""
