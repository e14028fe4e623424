"""Attachment: the noun or the part of a garment that a comparative, a color or a denied kind of garment belongs to."""

from collections.abc import Sequence

from fashioniq.language.context import MODIFY, asserts, next_said, relative
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.scan import Unit
from fashioniq.language.terms import COLOR, GARMENT, NAME

_PARTS = frozenset(["detail", "neck", "sleeves"])
_ENDS = frozenset(["and", "or", "but", "assert"])
_PLACES = frozenset([GARMENT, "neck", "sleeves"])
_WITHIN = frozenset(["article", "filler"])  # roles of words between "on" and a place


def noun_beside(units: Sequence[Unit], at: int) -> str:
    """Family of a noun that follows closely, such as "sleeves" after "longer", or ""."""
    modified = False  # "longer red sleeves", but no "brighter patterned fabric"
    for unit in units[at + 1 : at + 4]:
        if unit.noun and unit.noun != NAME:  # no scale has names
            return unit.noun if unit.noun == "sleeves" or not modified else ""
        modifies = unit.term is not None and unit.term.family in MODIFY
        if unit.mark or unit.step or (unit.term and not modifies) or unit.roles & _ENDS:
            break
        modified = modified or modifies
    return ""


def part_beside(units: Sequence[Unit], at: int, lexicon: Lexicon) -> Unit | None:
    """The part of a garment that a comparative is about: "a wider red collar", "the collar is much wider"."""
    parts, number = lexicon.grammar.parts, at + 1
    while number < len(units) and _goes_on(units[number]):
        number += 1
    for unit in units[number : number + 1]:
        modifies = any(
            other.unknown or (other.term and not (other.roles or other.step))
            for other in units[number + 1 : number + 2]
        )
        if unit.tokens[-1].key in parts and not modifies and not asserts(unit, lexicon):
            return unit
    number = at - 1
    while number > 0 and not _ends_subject(units[number]):
        number -= 1
    if number < 1 or "copula" not in units[number].roles or noun_beside(units, at):
        return None
    subject: list[Unit] = []
    for unit in reversed(units[:number]):
        if unit.mark or unit.roles & {"and", "but"}:
            break
        subject += () if "article" in unit.roles else (unit,)
    return subject[0] if len(subject) == 1 and subject[0].tokens[-1].key in parts else None


def _ends_subject(unit: Unit) -> bool:
    """Whether no verb of a comparative can stand before this unit, or it is one itself."""
    return unit.says or bool(unit.mark or unit.roles & {"copula", "assert", "and", "but"})


def _goes_on(unit: Unit) -> bool:
    """Whether a comparative goes on to a noun after this: "wider red straps", "wider and longer straps"."""
    is_color = unit.term is not None and unit.term.family == COLOR
    return is_color or unit.step is not None or "and" in unit.roles


def is_subject(units: Sequence[Unit], at: int) -> bool:
    """Whether the noun before this place is what the comparative here is about: "the neckline is longer"."""
    for unit in reversed(units[:at]):
        if unit.noun:
            return True
        if unit.mark or (unit.roles & {"assert", "and", "but"} and "copula" not in unit.roles):
            return False
    return False


def colors_part(units: Sequence[Unit], at: int, lexicon: Lexicon) -> bool:
    """Whether a color is that of a part named next: "black belt"."""
    return any(_is_part(unit, lexicon) for unit in units[at + 1 : at + 2])


def shapes_part(units: Sequence[Unit], at: int, lexicon: Lexicon) -> bool:
    """Whether a length or fit is that of a part named next: "long belt", but not "short sleeveless dress"."""
    part = any(unit.noun or unit.tokens[-1].key in lexicon.grammar.parts for unit in units[at + 1 : at + 2])
    return part and not any(unit.term and unit.term.family == GARMENT for unit in units[at + 2 : at + 3])


def _is_part(unit: Unit, lexicon: Lexicon) -> bool:
    return unit.tokens[-1].key in lexicon.grammar.parts or (
        unit.term is not None and unit.term.family in _PARTS
    )


def tells_where(units: Sequence[Unit], since: int, at: int, lexicon: Lexicon) -> bool:
    """Whether a word after `since` tells where something else is: "red" and "sleeves" of "no lace on red sleeves"."""
    if not any(_is_place(unit) or _is_part(unit, lexicon) for unit in units[at : at + 2]):
        return False
    term, before = units[at].term, [one.term.family for one in units[max(0, at - 2) : at - 1] if one.term]
    kind = term is not None and term.family in ("neck", "sleeves") and term.family not in before
    adjective = kind and not (units[at].noun or units[at].tokens[-1].key in lexicon.grammar.parts)
    within = _WITHIN if adjective or not _is_place(units[at]) else _WITHIN | {"or"}  # "or long sleeves"
    for number in range(at - 1, since, -1):
        unit = units[number]
        if "where" in unit.roles:
            if "kind" in unit.roles:  # "pockets in the dress", but not "good in the dress"
                return _is_part(units[number - 1], lexicon)
            said = units[since + 1 : number]
            if any(one.says for one in said):  # "no bows on dresses"
                return True
            # "no tassels on the dress", but not "not big on dresses"
            definite = "there" in unit.roles or "article" in units[number + 1].roles
            return definite and (any(one.unknown for one in said) or not units[since].roles & {"not", "less"})
        ends = "article" in units[number + 1].roles and "kind" not in unit.roles  # not "of the"
        if ends or not (unit.says or unit.unknown or unit.roles & within):
            return False
    return False


def _is_place(unit: Unit) -> bool:
    return bool(unit.noun) or (unit.term is not None and unit.term.family in _PLACES)


def inflected(units: Sequence[Unit], at: int) -> bool:
    """Whether a comparative is none: "ein enger Rock" and "kein enger Rock" have the form of "enger"."""
    if units[at].term is None or not at or at + 1 == len(units):
        return False
    following = units[at + 1].term
    before = bool(units[at - 1].roles & {"article", "no"})
    return before and following is not None and following.family == GARMENT


def is_kind(units: Sequence[Unit], at: int, lexicon: Lexicon) -> bool:
    """Whether a garment is of some kind: "short dresses", "a dress with lace"."""
    said = next_said(units, at)
    after = relative(units, at + 1) or (
        said is not None
        and ("kind" in units[at + 1].roles or (said == at + 1 and asserts(units[said], lexicon)))
    )
    return after or modified(units, at)


def modified(units: Sequence[Unit], at: int) -> bool:
    """Whether the word before a garment or its sleeves tells their kind: "short dresses", "puffy sleeves"."""
    return any(
        unit.unknown or (unit.says and not unit.noun and not (unit.term and unit.term.family == GARMENT))
        for unit in units[max(0, at - 1) : at]
    )
