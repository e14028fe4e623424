"""Differences between two garments, each with the clauses that say it."""

from dataclasses import dataclass

from fashioniq.sample.clauses import (
    BRIGHT,
    CLOSURE_CLAUSES,
    COLOUR_WORDS,
    DETAIL_CLAUSES,
    FIT_CLAUSES,
    FIT_ORDER,
    FORMAL,
    IN_SECOND_COLOUR,
    LENGTH_CLAUSES,
    LENGTH_ORDER,
    NECK_CLAUSES,
    NECK_DEPTH,
    PATTERN_CLAUSES,
    PATTERN_NOUNS,
    SLEEVE_CLAUSES,
    SLEEVE_ORDER,
    Clause,
    article,
    filled,
)
from fashioniq.sample.garments import COLOURS, COVERED_BY_SECOND, Garment


@dataclass(frozen=True)
class Difference:
    """A difference between target and candidate, and ways to express it. `weight` is its visual salience."""

    kind: str
    weight: float
    direct: tuple[Clause, ...] = ()
    comparing: tuple[Clause, ...] = ()
    negated: tuple[Clause, ...] = ()


def differences(target: Garment, candidate: Garment) -> list[Difference]:
    """All visible differences of the target from the candidate; empty if the two look the same."""
    found = [
        *_colour(target, candidate), *_pattern(target, candidate), *_sleeves(target, candidate),
        *_length(target, candidate), *_neckline(target, candidate), *_fit(target, candidate),
        *_closure(target, candidate), *_motif(target, candidate),
        *_details(target, candidate), *_fabric(target, candidate),
    ]  # fmt: skip
    if found and (more := FORMAL[target.style] - FORMAL[candidate.style]):
        said = (
            (("is", "dressier"), ("is", "more formal"))
            if more > 0
            else (("is", "more casual"), ("is", "less formal"))
        )
        found.append(Difference("style", 0.6, comparing=said))
    return found


def _colour(target: Garment, candidate: Garment) -> list[Difference]:
    comparing: list[Clause] = []
    lighter = _lightness(target) - _lightness(candidate)
    if abs(lighter) > 40:
        word = "lighter" if lighter > 0 else "darker"
        comparing += [("is", word), ("is", f"{word} in color"), ("is", f"a {word} color")]
    if target.colour == candidate.colour:
        return [Difference("colour", 1.2, comparing=tuple(comparing))] if comparing else []
    names = COLOUR_WORDS[target.colour]
    solid = target.pattern == "solid"
    direct = [
        *(("is", name) for name in names),
        ("is", f"{names[0]} in color"),
        *([("is", f"solid {names[0]}")] if solid else []),
    ]
    if (
        solid
        and target.colour in BRIGHT
        and candidate.pattern == "solid"
        and candidate.colour not in {*BRIGHT, "white"}
    ):
        comparing += [("is", "brighter"), ("is", "more colorful")]
    comparing += [
        ("is", f"{names[0]} instead of {candidate.colour}"),
        ("is", f"more {names[0]} than {candidate.colour}"),
    ]
    negated = (("is", f"not {candidate.colour}"),) if solid and target.second != candidate.colour else ()
    return [Difference("colour", 5.0, tuple(direct), tuple(comparing), negated)]


def _lightness(garment: Garment) -> float:
    main, second = (
        0.3 * red + 0.59 * green + 0.11 * blue
        for red, green, blue in (COLOURS[garment.colour], COLOURS[garment.second])
    )
    covered = COVERED_BY_SECOND.get(garment.pattern, 0.0)
    return main * (1 - covered) + second * covered


def _pattern(target: Garment, candidate: Garment) -> list[Difference]:
    plain, was_plain = target.pattern == "solid", candidate.pattern == "solid"
    if target.pattern == candidate.pattern:
        if plain or target.second == candidate.second:
            return []
        said = f"{target.second} {PATTERN_NOUNS[target.pattern]}"
        if target.pattern == "color block":
            said = f"{article(target.second)} {target.second} bottom"
        return [
            Difference("pattern", 3.0, (("has", said),), (("has", f"{said} instead of {candidate.second}"),))
        ]
    noun = PATTERN_NOUNS.get(candidate.pattern, "")
    negated = (
        (("has", f"no {noun}"), ("is", f"not {candidate.pattern.replace('block', 'blocked')}"))
        if noun
        else (("is", "not plain"),)
    )
    if plain and (target.motif or target.details & IN_SECOND_COLOUR):
        return [
            Difference(
                "pattern", 2.6, (("is", "mostly one color"),), (("has", "less of a pattern"),), negated
            )
        ]
    if plain:
        simpler = (
            ("is", "plainer"),
            ("is", "simpler"),
            ("has", "a simpler design"),
            ("is", "plain instead of patterned"),
        )
        return [
            Difference(
                "pattern",
                3.6,
                (("is", "a solid color"), ("is", "plain"), ("is", "one color")),
                simpler,
                negated,
            )
        ]
    direct = filled(PATTERN_CLAUSES[target.pattern], target)
    if was_plain:
        comparing: tuple[Clause, ...] = (
            ("is", "more patterned"),
            ("has", "a busier pattern"),
            ("has", f"{PATTERN_NOUNS[target.pattern]} instead of a solid"),
        )
    else:
        comparing = (("has", f"{PATTERN_NOUNS[target.pattern]} instead of {noun}"),)
    return [Difference("pattern", 4.2, direct, comparing, negated)]


def _sleeves(target: Garment, candidate: Garment) -> list[Difference]:
    if target.sleeves == candidate.sleeves:
        return []
    order, before = SLEEVE_ORDER[target.sleeves], SLEEVE_ORDER[candidate.sleeves]
    comparing: tuple[Clause, ...] = ()
    if before:
        negated: tuple[Clause, ...] = (("has", f"no {candidate.sleeves} sleeves" if order else "no sleeves"),)
    else:
        negated = (
            (("has", "no straps"),)
            if candidate.sleeves == "straps"
            else (("is", f"not {candidate.sleeves}"),)
        )
    if order > before:
        comparing = (("has", "longer sleeves"), ("has", "more sleeve"), ("is", "less revealing"))
    elif 0 < order < before:
        comparing = (("has", "shorter sleeves"),)
    elif order < before:
        comparing = (("has", "less sleeve"), ("has", "barer arms"), ("is", "more revealing"))
    if order and before:
        comparing += (("has", f"{target.sleeves} sleeves instead of {candidate.sleeves}"),)
    return [Difference("sleeves", 4.0, SLEEVE_CLAUSES[target.sleeves], comparing, negated)]


def _length(target: Garment, candidate: Garment) -> list[Difference]:
    longer = LENGTH_ORDER[target.length] - LENGTH_ORDER[candidate.length]
    if not longer:
        return []
    word, what = "longer" if longer > 0 else "shorter", "skirt" if target.category == "dresses" else "body"
    comparing = (
        ("is", word),
        ("is", f"much {word}" if abs(longer) > 1 else word),
        ("has", f"a {word} {what}"),
    )
    negated = {"maxi": "long", "long": "long", "mini": "short", "cropped": "cropped"}.get(candidate.length)
    return [
        Difference(
            "length",
            3.2,
            LENGTH_CLAUSES[target.length],
            comparing,
            (("is", f"not as {negated}"),) if negated else (),
        )
    ]


def _neckline(target: Garment, candidate: Garment) -> list[Difference]:
    if target.neckline == candidate.neckline or target.neckline == "straight":
        return []
    comparing: tuple[Clause, ...] = ()
    if candidate.neckline in NECK_DEPTH:
        lower = NECK_DEPTH[target.neckline] > NECK_DEPTH[candidate.neckline]
        words = ("lower", "deeper") if lower else ("higher", "higher")
        comparing = (("has", f"a {words[0]} neckline"), ("has", f"a {words[1]} neck"))
    negated = (
        (("has", f"no {candidate.neckline}"),)
        if candidate.neckline in ("collar", "turtleneck", "v-neck")
        else ()
    )
    return [Difference("neckline", 2.0, NECK_CLAUSES[target.neckline], comparing, negated)]


def _fit(target: Garment, candidate: Garment) -> list[Difference]:
    looser = FIT_ORDER[target.fit] - FIT_ORDER[candidate.fit]
    if not looser:
        return []
    if looser < 0:
        said = (
            (("is", "more fitted"), ("is", "tighter"))
            if target.fit == "fitted"
            else (("is", "less flowy"), ("is", "less flared"))
        )
    else:
        said = (
            (("is", "more flared"), ("is", "more flowy"))
            if target.fit == "flared"
            else (("is", "looser"), ("is", "less fitted"))
        )
    negated = (
        (("is", f"not as {candidate.fit}"),)
        if (looser < 0 and candidate.fit != "straight") or candidate.fit == "fitted"
        else ()
    )
    return [Difference("fit", 1.7, FIT_CLAUSES[target.fit], said, negated)]


def _closure(target: Garment, candidate: Garment) -> list[Difference]:
    if target.closure == candidate.closure:
        return []
    negated: tuple[Clause, ...] = ()
    if candidate.closure and not (
        target.closure and "buttons" in candidate.closure and "buttons" in target.closure
    ):
        negated = (("has", "no zipper" if candidate.closure == "zipper" else "no buttons"),)
    if not target.closure:
        return [Difference("closure", 0.35, negated=negated)]
    comparing: tuple[Clause, ...] = ()
    if "buttons" in target.closure and candidate.closure != "zipper":
        comparing = (("has", "fewer buttons" if candidate.closure == "buttons" else "more buttons"),)
    return [Difference("closure", 1.8, CLOSURE_CLAUSES[target.closure], comparing, negated)]


def _motif(target: Garment, candidate: Garment) -> list[Difference]:
    if target.motif == candidate.motif:
        return []
    if not target.motif:
        plain = target.pattern == "solid"
        said = ("has", f"no {candidate.motif}" + " print" * (candidate.motif != "lettering"))
        return [
            Difference(
                "motif",
                0.7,
                comparing=(("is", "less graphic"),) if plain else (),
                negated=(said, ("has", "no graphic")),
            )
        ]
    direct = [("has", "lettering"), ("has", "writing on the front"), ("has", f"{target.second} letters")]
    if target.motif != "lettering":
        thing = f"{target.second} {target.motif}"
        direct = [
            ("has", f"a {target.motif} on the front"),
            ("has", f"{article(thing)} {thing}"),
            ("has", f"a {target.motif} print"),
        ]
    comparing: tuple[Clause, ...] = (("is", "more graphic"), ("has", "more of a graphic"))
    if candidate.motif:
        comparing = (("has", f"{target.motif} print instead of {candidate.motif}"),)
    return [Difference("motif", 3.4, tuple(direct), comparing)]


def _details(target: Garment, candidate: Garment) -> list[Difference]:
    found = []
    for name, (there, more, absent) in DETAIL_CLAUSES.items():
        if name in target.details and name not in candidate.details:
            found.append(Difference(name, 1.6, filled(there, target), (more,)))
        elif name in candidate.details and name not in target.details:
            found.append(Difference(name, 0.28, negated=(("has", absent),)))
    return found


def _fabric(target: Garment, candidate: Garment) -> list[Difference]:
    """Difference in fabric, for fabrics that are visible in a picture."""
    seen: dict[str, tuple[tuple[Clause, ...], Clause]] = {
        "satin": ((("is", "shiny"), ("is", "satin")), ("is", "shinier")),
        "lace": ((("has", "a lace hem"), ("has", "lace")), ("is", "lacier")),
        "knit": ((("is", "ribbed"), ("is", "knit")), ("is", "more textured")),
    }
    if target.fabric == candidate.fabric or target.fabric not in seen:
        return []
    direct, comparing = seen[target.fabric]
    return [Difference("fabric", 1.0, direct, (comparing,))]
