"""Steps of lightness beside a wanted color, which are shades of it: "green but darker"."""

from collections.abc import Iterable, Sequence

from fashioniq.language import attachment
from fashioniq.language.context import place
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.scan import Unit
from fashioniq.language.scope import ScopedUnit
from fashioniq.language.terms import COLOR


def shaded(items: Iterable[ScopedUnit], units: Sequence[Unit], lexicon: Lexicon) -> list[ScopedUnit]:
    """Items of a sentence where a color and a step beside it are one."""
    merged: list[ScopedUnit] = []
    for item in items:
        shade = _shade(merged[-1], item, units, lexicon) if merged else None
        merged[len(merged) - bool(shade) :] = [shade or item]
    return merged


def _shade(one: ScopedUnit, other: ScopedUnit, units: Sequence[Unit], lexicon: Lexicon) -> ScopedUnit | None:
    said, step = (other, one) if one.step else (one, other)
    unit, (family, direction) = said.unit, step.step or ("", 0)
    between = units[place(units, one.unit) + 1 : place(units, other.unit)]
    ends = {"and"} if said is one else {"and", "but", "assert"}  # "darker with a red print"
    if (
        any(part.roles & ends or (part.mark and said is other) for part in between)
        or (said.step or said.denied or step.denied or family != COLOR or not direction)
        or (unit.term is None or unit.term.family != COLOR or unit.scaled)
        or unit.tokens[0].key in lexicon.grammar.shades  # "light grey, not dark"
        or attachment.part_beside(units, place(units, step.unit), lexicon)
        or attachment.colors_part(units, place(units, unit), lexicon)
    ):
        return None
    name = "light" if direction > 0 else "dark"
    shade = next(word for word, english in lexicon.grammar.shades.items() if english == name)
    words = (shade, *(token.key for token in unit.tokens))
    terms = (lexicon.find(words), lexicon.color_of(words))
    term = next((term for term in terms if term is not None and term.labels), unit.term)
    if said is one and other.joint == "or":  # "red or darker"
        return said._replace(
            unit=unit._replace(term=unit.term._replace(labels=unit.term.labels | term.labels))
        )
    if term.labels == unit.term.labels <= lexicon.half(COLOR, -direction):
        return step  # "the black is too dark"
    return said._replace(unit=unit._replace(term=term))
