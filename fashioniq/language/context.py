"""The context of a place in a text: pure functions of its units and the place."""

from collections.abc import Collection, Mapping, Sequence
from itertools import takewhile

from fashioniq.language.lexicon import Lexicon
from fashioniq.language.scan import Unit
from fashioniq.language.terms import COLOR, GARMENT, LENGTH
from fashioniq.language.tokens import Token

_SAYS_NOTHING = frozenset(["article", "filler", "shown"])
MODIFY = frozenset([COLOR, "pattern", "fabric"])  # families of words between "longer" or "my" and a noun
_TURNS = frozenset(["assert", "copula", "more", "no", "not", "less", "without"])


def place(units: Sequence[Unit], unit: Unit) -> int:
    """Place of a unit among others."""
    return next(number for number, one in enumerate(units) if one.start == unit.start)


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


def becomes(units: Sequence[Unit], at: int) -> bool:
    """Whether "to" follows a noun that is changed: "ändere die Farbe zu rot" is not too red."""
    return bool(at and units[at - 1].noun) and any(
        "swap" in unit.roles for unit in units[max(0, at - 3) : at]
    )


def listed(units: Sequence[Unit], at: int, families: Collection[str] = ()) -> bool:
    """Whether a list goes on after a comma until "or", or until "and" if all of it is of these families."""
    for number, unit in enumerate(units[at + 1 :], at + 1):
        if "or" in unit.roles:
            return "fallback" not in unit.roles
        if "and" in unit.roles and families:
            said = [one.term for one in units[at + 1 : number + 2] if not (one.mark or one is unit)]
            verb = any("copula" in one.roles for one in units[number + 2 : number + 3])
            return not verb and all(term is not None and term.family in families for term in said)
        if not (unit.term or unit.mark == "," or "article" in unit.roles):
            return False
    return False


def continues(units: Sequence[Unit], at: int, family: str, parts: Collection[str]) -> bool:
    """Whether a word of a family, or without an article one of some others, follows after "and", without a verb."""
    for number, unit in enumerate(units[at + 1 :], at + 1):
        if "article" not in unit.roles:
            verb = any("copula" in other.roles for other in units[number + 1 : number + 2])
            families = {family, *parts} if number == at + 1 else {family}
            return unit.term is not None and unit.step is None and unit.term.family in families and not verb
    return False


def before_verb(units: Sequence[Unit], at: int) -> int | None:
    """Place of what is before this place, or before a verb and an article or a question mark there: of red in "red is
    a no" and "red? no"."""
    number = at - 1
    if number >= 0 and units[number].mark == "?":
        number -= 1
    if number >= 0 and "article" in units[number].roles:
        number -= 1
    if number >= 0 and "copula" in units[number].roles:
        number -= 1
    return number if number >= 0 else None


def relative(units: Sequence[Unit], at: int) -> bool:
    """Whether a clause that ends with its verb follows a comma: "kein Kleid, das rot ist"."""
    clause = list(takewhile(lambda unit: not unit.mark, units[at + 1 :]))
    ends = bool(clause) and "relative" in clause[0].roles and "finite" in clause[-1].roles
    named = clause[1].term if ends and len(clause) > 1 else None
    return ends and not (named and named.family == GARMENT)  # "passt nicht, das Kleid soll Taschen haben"


def alone(units: Sequence[Unit], at: int) -> bool:
    """Whether nothing else is said, or this begins a text and a mark follows: "clear. I want a red dress"."""
    others = units if at else takewhile(lambda unit: not unit.mark, units)
    return all(unit.mark or "filler" in unit.roles for unit in others)


def joined(units: Sequence[Unit], at: int) -> bool:
    """Whether "and" is between the last thing said and this place."""
    for unit in reversed(units[:at]):
        if unit.says or unit.mark:
            return False
        if "and" in unit.roles:
            return True
    return False


def contrasts(units: Sequence[Unit], at: int) -> bool:
    """Whether "not" is between what was said and an unknown word: "cotton not polyester" denies no cotton."""
    return (
        at > 0
        and "apart" in units[at].roles
        and units[at - 1].says
        and any(unit.unknown for unit in units[at + 1 : at + 2])
    )


def unknown(units: Sequence[Unit], at: int) -> bool:
    """Whether an unknown word follows in the clause."""
    clause = takewhile(lambda unit: not unit.mark, units[at + 1 :])
    return any(unit.unknown for unit in clause)


def turns(units: Sequence[Unit], since: int, at: int, kind: str) -> bool:
    """Whether a denial, of something without labels, ends at "and", as a verb or a denying word follows."""
    between = [unit for unit in units[since + 1 : at] if "article" not in unit.roles]
    if kind == "not" and not any(unit.unknown or unit.says for unit in between):
        return False  # "stripes are not for me and …"
    after = next((unit for unit in units[at + 1 :] if not unit.roles or unit.roles - _SAYS_NOTHING), None)
    return bool(between) and after is not None and bool(after.roles & _TURNS)


def left_out(units: Sequence[Unit], at: int) -> bool:
    """Whether "leave" is followed by something and by "out" or "off"."""
    one = next_said(units, at)
    return one is not None and any("out" in unit.roles for unit in units[one + 1 : one + 2])


def another_color(units: Sequence[Unit], at: int) -> bool:
    """Whether "a black one" follows."""
    after = [unit for unit in units[at + 1 : at + 4] if "article" not in unit.roles][:2]
    color = bool(after) and after[0].term is not None and after[0].term.family == COLOR
    return color and not any(unit.says for unit in after[1:])


def goes_on(units: Sequence[Unit], at: int) -> bool:
    """Whether a clause goes on after a place."""
    return any(not (unit.mark or unit.roles & {"and", "but"}) for unit in units[at + 1 : at + 2])


def follows(units: Sequence[Unit], at: int, last: Unit) -> bool:
    """Whether only an article is between the last thing said and this place, and where that thing is."""
    between = units[place(units, last) + 1 : at - 1]
    return "article" in units[at - 1].roles and (not between or "where" in between[0].roles)


def denies_list(units: Sequence[Unit], at: int, roles: Mapping[str, frozenset[str]]) -> bool:
    """Whether the denial that a label has in its first word goes on after "or": "no sleeves or belt"."""
    unit, after = units[at], units[at + 1 :]
    denied = len(unit.tokens) > 1 and bool(roles.get(unit.tokens[0].key, frozenset()) & {"no", "without"})
    is_list = bool(after) and ("or" in after[0].roles or (after[0].mark == "," and listed(units, at + 1)))
    if not denied or not is_list or unit.term is None:
        return False
    other = next((one for one in after[1:] if "article" not in one.roles), None)
    term = other.term if other is not None and not other.noun else None
    return term is None or term.family != unit.term.family  # not "no sleeves or short sleeves"


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


def renames(unit: Unit) -> bool:
    """Whether a unit has other words than its labels: "baggy" for loose, "dark red" for red, not "navy"."""
    labels = unit.term.labels if unit.term else frozenset()
    return not any(all(token.key in label for token in unit.tokens) for label in labels)


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
