"""What is around a place in a text: pure functions of its units and the place."""

from collections.abc import Sequence

from fashioniq.language.lexicon import Lexicon
from fashioniq.language.scan import Unit
from fashioniq.language.terms import COLOR, GARMENT, LENGTH, NAME
from fashioniq.language.tokens import Token


def next_said(units: Sequence[Unit], at: int) -> int | None:
    """The next unit that says something about a product, in the same part of the clause."""
    for number in range(at + 1, len(units)):
        unit = units[number]
        if unit.mark or unit.roles & {"and", "or", "but"}:
            return None
        if unit.says:
            return number
    return None


def swaps(units: Sequence[Unit], at: int) -> bool:
    """Whether something is given, and then something in exchange for it."""
    found = False
    for unit in units[at + 1 :]:
        if unit.mark and unit.mark != ",":
            return False
        if found and unit.roles & {"becomes"}:
            return True
        found = found or unit.term is not None
    return False


def moves(units: Sequence[Unit], at: int) -> bool:
    """Whether "from" is followed by a label, and that by "to" and another label of the family."""
    one = next_said(units, at)
    toward = one + 1 if one is not None else len(units)
    if one is None or toward >= len(units) or "toward" not in units[toward].roles:
        return False
    other = next_said(units, toward)
    before, after = units[one].term, units[other].term if other is not None else None
    return bool(before and after and before.labels and before.family == after.family)


def listed(units: Sequence[Unit], at: int) -> bool:
    """Whether a list goes on after a comma until "or"."""
    for unit in units[at + 1 :]:
        if "or" in unit.roles:
            return True
        if not (unit.term or unit.mark == "," or "article" in unit.roles):
            return False
    return False


def continues(units: Sequence[Unit], at: int, family: str) -> bool:
    """Whether a word of the same family follows after "and", without a verb."""
    for unit in units[at + 1 :]:
        if "article" not in unit.roles:
            return unit.term is not None and unit.step is None and unit.term.family == family
    return False


def noun_beside(units: Sequence[Unit], at: int) -> str:
    """Family of a noun that follows closely, such as "sleeves" after "longer", or ""."""
    for unit in units[at + 1 : at + 4]:
        if unit.noun and unit.noun != NAME:  # no scale has names
            return unit.noun
        if unit.mark or unit.term or unit.step or unit.roles & {"and", "or", "but"}:
            break
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


def goes_with(units: Sequence[Unit], at: int, before: Sequence[Unit]) -> bool:
    """Whether a noun such as "pattern" belongs to a word of its family or to a step in the same part, of which `before`
    are the words that said something so far."""
    unit = units[at]
    family = unit.noun or (unit.term.family if unit.term else "")
    near = list(before)
    for other in units[at + 1 :]:
        if other.mark or other.roles & {"and", "but"}:
            break
        near.append(other)
    same = {family, "print"} if family == "pattern" else {family}
    return any(
        (other.step is not None and other.step[0] in (family, LENGTH))
        or (other is not unit and other.term is not None and not other.noun and other.term.family in same)
        or bool(other.roles & {"irrelevant"})
        for other in near
    )


def scale_of(unit: Unit, lexicon: Lexicon) -> tuple[str, int] | None:
    """The scale that an adjective or label is on, and whether it is in the upper half."""
    if unit.scaled or unit.term is None or unit.term.family == COLOR:
        return unit.scaled
    levels = lexicon.levels(unit.term.family)
    at = [number for number, level in enumerate(levels) if level & unit.term.labels]
    if not at or 2 * at[0] == len(levels) - 1:
        return None
    return unit.term.family, 1 if 2 * at[0] > len(levels) - 1 else -1


def asserts(unit: Unit, lexicon: Lexicon) -> bool:
    """Whether a phrase begins with a word that ends a denial, such as "with sleeves"."""
    return "assert" in lexicon.grammar.roles.get(unit.tokens[0].key, ())


def common(unit: Unit, lexicon: Lexicon) -> bool:
    """Whether most products are so, which says nothing."""
    return unit.term is not None and bool(unit.term.labels) and unit.term.labels <= lexicon.common


def about_shown(units: Sequence[Unit], at: int, following: int, lexicon: Lexicon) -> bool:
    """Whether "than" is followed by the product shown, and by what it shall have: "than this one with" sleeves."""
    unit, between = units[following], units[at + 1 : following]
    asserted = asserts(unit, lexicon) or any("assert" in one.roles for one in between)
    garment = unit.term is not None and unit.term.family == GARMENT
    shown = any("shown" in one.roles for one in between)
    return common(unit, lexicon) or (shown and (asserted or garment))


def equal(units: Sequence[Unit], at: int, lexicon: Lexicon) -> tuple[Token, ...]:
    """The words of a scale in which the product shown, at a place, is equalled: "as long as this one"."""
    before = units[max(0, at - 3) : at]
    if before and "so" in before[-1].roles and not before[-1].says:
        before = before[:-1]
    is_equal = len(before) > 1 and "so" in before[-2].roles and scale_of(before[-1], lexicon)
    return before[-1].tokens if is_equal else ()


def among(unit: Unit, others: Sequence[Unit]) -> bool:
    """Whether one of the others stands for the same labels."""
    labels = unit.term.labels if unit.term else frozenset()
    return bool(labels) and any(other.term is not None and other.term.labels == labels for other in others)


def names(unit: Unit) -> set[str]:
    """Family, labels or free word that a unit names."""
    if unit.noun:
        return {unit.noun}
    return set(unit.term.labels or {unit.written.lower()}) if unit.term else set()


def listed_nouns(units: Sequence[Unit], at: int) -> list[Unit]:
    """Nouns of a list before a place that is all of its clause so far: "the brand and the color"."""
    found: list[Unit] = []
    for unit in reversed(units[:at]):
        if unit.mark and unit.mark != ",":
            break
        if unit.noun:
            found.append(unit)
        elif not (unit.mark or unit.roles & {"and", "or", "article"}):
            return []
    return found


def inflected(units: Sequence[Unit], at: int) -> bool:
    """Whether a comparative is none: "ein enger Rock" has the form of "enger"."""
    if units[at].term is None or not at or at + 1 == len(units):
        return False
    following = units[at + 1].term
    return "article" in units[at - 1].roles and following is not None and following.family == GARMENT
