"""Relative captions of drawn garments: how a target differs from a candidate."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from fashioniq.sample.garments import COLOURS, COVERED_BY_SECOND, Garment

MOST_WORDS = 12
USUAL_WORDS = 8
SINGLE_SHARE = 0.38  # share of captions with one attribute; Fashion IQ, Table 2

Clause = tuple[str, str]  # a verb ("is" or "has") and what follows it


@dataclass(frozen=True)
class Difference:
    """A difference between target and candidate, and ways to express it. `weight` is its visual salience."""

    kind: str
    weight: float
    direct: tuple[Clause, ...] = ()
    comparing: tuple[Clause, ...] = ()
    negated: tuple[Clause, ...] = ()


@dataclass(frozen=True)
class SpeakerStyle:
    """Style of a speaker: probabilities of the forms, preferred synonym, and opening before the verb."""

    direct: float
    comparing: float
    negated: float
    word: int
    opening: str  # text before the verb, or ""; "-" omits the verb of the first clause


SPEAKERS = (
    SpeakerStyle(direct=0.72, comparing=0.22, negated=0.06, word=0, opening=""),
    SpeakerStyle(direct=0.42, comparing=0.52, negated=0.06, word=1, opening=""),
    SpeakerStyle(direct=0.50, comparing=0.36, negated=0.14, word=2, opening=""),
    SpeakerStyle(direct=0.48, comparing=0.46, negated=0.06, word=1, opening="-"),
    SpeakerStyle(direct=0.50, comparing=0.42, negated=0.08, word=0, opening="it"),
)

COLOUR_WORDS = {
    "navy": ("navy", "navy blue", "dark blue"), "blue": ("light blue", "blue", "sky blue"),
    "grey": ("grey", "gray"), "red": ("red", "bright red"), "pink": ("pink", "light pink"),
}  # fmt: skip
_BRIGHT = {"blue", "red", "pink", "yellow", "orange"}
PATTERN_CLAUSES: dict[str, tuple[Clause, ...]] = {
    "striped": (("is", "striped"), ("has", "stripes"), ("has", "{second} stripes")),
    "plaid": (("is", "plaid"), ("is", "checked"), ("has", "a checked pattern")),
    "polka dot": (("has", "polka dots"), ("has", "{second} polka dots"), ("is", "dotted")),
    "floral": (("is", "floral"), ("has", "a floral print"), ("has", "{second} flowers")),
    "chevron": (("has", "a chevron pattern"), ("has", "a zigzag pattern"), ("has", "{second} zigzags")),
    "color block": (("is", "color blocked"), ("has", "a {second} bottom half"), ("is", "half {second}")),
}
PATTERN_NOUNS = {
    "striped": "stripes", "plaid": "checks", "polka dot": "dots", "floral": "flowers", "chevron": "zigzags",
    "color block": "color blocks",
}  # fmt: skip
SLEEVE_CLAUSES: dict[str, tuple[Clause, ...]] = {
    "strapless": (("is", "strapless"),),
    "straps": (("has", "thin straps"), ("has", "spaghetti straps"), ("is", "strappy")),
    "sleeveless": (("is", "sleeveless"), ("is", "a sleeveless style")),
    "short": (("has", "short sleeves"), ("is", "short sleeved")),
    "three-quarter": (("has", "three-quarter sleeves"), ("has", "mid-length sleeves")),
    "long": (("has", "long sleeves"), ("is", "long sleeved")),
}
SLEEVE_ORDER = {"strapless": 0, "straps": 0, "sleeveless": 0, "short": 1, "three-quarter": 2, "long": 3}
NECK_CLAUSES: dict[str, tuple[Clause, ...]] = {
    "round": (("has", "a round neck"), ("has", "a crew neck"), ("has", "a round neckline")),
    "v-neck": (("has", "a v-neck"), ("is", "v-necked"), ("has", "a v-neck front")),
    "square": (("has", "a square neck"), ("has", "a square neckline")),
    "collar": (("has", "a collar"), ("is", "collared")),
    "turtleneck": (("has", "a turtleneck"), ("has", "a high neck")),
}
_NECK_DEPTH = {"turtleneck": 0, "collar": 1, "round": 2, "square": 3, "v-neck": 4}
_LENGTH_ORDER = {"mini": 0, "knee": 1, "maxi": 2, "cropped": 0, "regular": 1, "long": 2}
LENGTH_CLAUSES: dict[str, tuple[Clause, ...]] = {
    "mini": (("is", "short"), ("is", "a mini dress"), ("is", "mini length")),
    "knee": (("is", "knee length"), ("has", "a knee-length skirt")),
    "maxi": (("is", "long"), ("is", "a maxi dress"), ("is", "floor length")),
    "cropped": (("is", "cropped"), ("is", "short in the body")),
    "regular": (("is", "hip length"), ("is", "regular length")),
    "long": (("is", "long"), ("is", "tunic length")),
}
FIT_CLAUSES: dict[str, tuple[Clause, ...]] = {
    "fitted": (("is", "fitted"), ("is", "tight"), ("is", "close fitting")),
    "straight": (("is", "straight"), ("has", "a straight cut")),
    "loose": (("is", "loose"), ("is", "baggy"), ("has", "a loose fit")),
    "flared": (("is", "flared"), ("is", "flowy"), ("has", "a flared shape")),
}
_FIT_ORDER = {"fitted": 0, "straight": 1, "loose": 1, "flared": 2}
CLOSURE_CLAUSES: dict[str, tuple[Clause, ...]] = {
    "buttons": (("has", "buttons"), ("has", "buttons down the front"), ("is", "buttoned")),
    "half buttons": (("has", "a half placket"), ("has", "a few buttons")),
    "zipper": (("has", "a zipper"), ("has", "a zip front")),
}
_DETAIL_CLAUSES: dict[str, tuple[tuple[Clause, ...], Clause, str]] = {  # present, more of it, absent
    "belt": (
        (("has", "a belt"), ("has", "a {second} belt"), ("is", "belted")),
        ("has", "a more defined waist"),
        "no belt",
    ),
    "pocket": ((("has", "a pocket"), ("has", "a chest pocket")), ("has", "more pockets"), "no pocket"),
    "pockets": ((("has", "pockets"), ("has", "two pockets")), ("has", "more pockets"), "no pockets"),
    "bow": ((("has", "a bow"), ("has", "a {second} bow")), ("is", "more girly"), "no bow"),
    "ruffles": ((("has", "ruffles"), ("has", "a ruffled hem")), ("has", "more ruffles"), "no ruffles"),
    "trim": ((("has", "{second} trim"), ("has", "contrast trim")), ("has", "more contrast"), "no trim"),
    "bell sleeves": (
        (("has", "bell sleeves"), ("has", "wide cuffs")),
        ("has", "wider sleeves"),
        "no bell sleeves",
    ),
}
_IN_SECOND_COLOUR = {"belt", "bow", "trim"}
_FORMAL = {
    "sporty": 0,
    "beach": 0,
    "casual": 1,
    "boho": 1,
    "vintage": 1,
    "office": 2,
    "party": 2,
    "elegant": 2,
}
_SAME = ("has the same look", "looks the same", "is the same style and color")


def differences(target: Garment, candidate: Garment) -> list[Difference]:
    """All visible differences of the target from the candidate; empty if the two look the same."""
    found = [
        *_colour(target, candidate), *_pattern(target, candidate), *_sleeves(target, candidate),
        *_length(target, candidate), *_neckline(target, candidate), *_fit(target, candidate),
        *_closure(target, candidate), *_motif(target, candidate),
        *_details(target, candidate), *_fabric(target, candidate),
    ]  # fmt: skip
    if found and (more := _FORMAL[target.style] - _FORMAL[candidate.style]):
        said = (
            (("is", "dressier"), ("is", "more formal"))
            if more > 0
            else (("is", "more casual"), ("is", "less formal"))
        )
        found.append(Difference("style", 0.6, comparing=said))
    return found


def two_captions(target: Garment, candidate: Garment, rng: random.Random) -> list[str]:
    """Captions of the differences by two speakers, at most 12 words each."""
    found = differences(target, candidate)
    first, second = rng.sample(SPEAKERS, 2)
    captions = [_caption(found, first, rng), _caption(found, second, rng)]
    if captions[0] == captions[1]:
        captions[1] = _caption(found, second, rng)
    return captions


def _caption(found: Sequence[Difference], speaker: SpeakerStyle, rng: random.Random) -> str:
    if not found:
        return rng.choice(_SAME)
    wanted = 1 if rng.random() < SINGLE_SHARE else 2 if rng.random() < 0.85 else 3
    chosen = _chosen(found, wanted, rng)
    for _ in range(6):
        text = _joined([_said(difference, speaker, rng) for difference in chosen], speaker, rng)
        if len(text.split()) <= USUAL_WORDS:
            return text
    while len(text.split()) > MOST_WORDS:
        chosen = chosen[:-1]
        text = _joined([_said(difference, speaker, rng) for difference in chosen], speaker, rng)
    return text


def _chosen(found: Sequence[Difference], wanted: int, rng: random.Random) -> list[Difference]:
    """Sample of the differences by weight; usually in decreasing order of weight."""
    left = list(found)
    chosen: list[Difference] = []
    while left and len(chosen) < wanted:
        pick = rng.choices(left, [difference.weight for difference in left])[0]
        left = [difference for difference in left if difference.kind != pick.kind]
        chosen.append(pick)
    return sorted(chosen, key=lambda difference: -difference.weight) if rng.random() < 0.7 else chosen


def _said(difference: Difference, speaker: SpeakerStyle, rng: random.Random) -> Clause:
    forms = {
        difference.direct: speaker.direct,
        difference.comparing: speaker.comparing,
        difference.negated: speaker.negated,
    }
    forms = {clauses: share for clauses, share in forms.items() if clauses}
    clauses = rng.choices(list(forms), list(forms.values()))[0]
    return clauses[speaker.word % len(clauses)] if rng.random() < 0.6 else rng.choice(clauses)


def _joined(clauses: list[Clause], speaker: SpeakerStyle, rng: random.Random) -> str:
    """Join the clauses into one sentence.

    Clauses that mention the candidate come last, so that later words cannot be read as describing it.
    """
    clauses = [
        clause
        for number, clause in enumerate(clauses)
        if not _negates(clause) or not any(map(_negates, clauses[:number]))
    ]
    clauses = sorted(clauses, key=lambda clause: " instead of " in clause[1] or " than " in clause[1])
    (verb, first), *others = clauses
    opening = "" if speaker.opening == "-" else speaker.opening
    verbless = speaker.opening == "-" and not _negates((verb, first))
    text = first if verbless else f"{opening} {verb} {first}".strip()
    for number, (next_verb, said) in enumerate(others):
        if next_verb == verb:
            text += f" and {said}"
        elif (
            verb == "is"
            and number == 0
            and not _negates(clauses[0])
            and not _negates((next_verb, said))
            and rng.random() < 0.65
        ):
            text += f" with {said}"
        else:
            text += f" and {next_verb} {said}"
        verb = next_verb
    return text


def _negates(clause: Clause) -> bool:
    return clause[1].startswith(("no ", "not "))


def _colour(target: Garment, candidate: Garment) -> list[Difference]:
    comparing: list[Clause] = []
    lighter = _lightness(target) - _lightness(candidate)
    if abs(lighter) > 40:
        word = "lighter" if lighter > 0 else "darker"
        comparing += [("is", word), ("is", f"{word} in color"), ("is", f"a {word} color")]
    if target.colour == candidate.colour:
        return [Difference("colour", 1.2, comparing=tuple(comparing))] if comparing else []
    names = COLOUR_WORDS.get(target.colour, (target.colour,))
    solid = target.pattern == "solid"
    direct = [
        *(("is", name) for name in names),
        ("is", f"{names[0]} in color"),
        *([("is", f"solid {names[0]}")] if solid else []),
    ]
    if (
        solid
        and target.colour in _BRIGHT
        and candidate.pattern == "solid"
        and candidate.colour not in {*_BRIGHT, "white"}
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
    if plain and (target.motif or target.details & _IN_SECOND_COLOUR):
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


def filled(clauses: Sequence[Clause], garment: Garment) -> tuple[Clause, ...]:
    """Clauses with the second colour filled in."""
    filled = (
        (verb, said.replace("a {second}", f"{article(garment.second)} {garment.second}"))
        for verb, said in clauses
    )
    return tuple((verb, said.replace("{second}", garment.second)) for verb, said in filled)


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
    longer = _LENGTH_ORDER[target.length] - _LENGTH_ORDER[candidate.length]
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
    if candidate.neckline in _NECK_DEPTH:
        lower = _NECK_DEPTH[target.neckline] > _NECK_DEPTH[candidate.neckline]
        words = ("lower", "deeper") if lower else ("higher", "higher")
        comparing = (("has", f"a {words[0]} neckline"), ("has", f"a {words[1]} neck"))
    negated = (
        (("has", f"no {candidate.neckline}"),)
        if candidate.neckline in ("collar", "turtleneck", "v-neck")
        else ()
    )
    return [Difference("neckline", 2.0, NECK_CLAUSES[target.neckline], comparing, negated)]


def _fit(target: Garment, candidate: Garment) -> list[Difference]:
    looser = _FIT_ORDER[target.fit] - _FIT_ORDER[candidate.fit]
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


def article(words: str) -> str:
    """Indefinite article for the words that follow."""
    return "an" if words[0] in "aeiou" else "a"


def _details(target: Garment, candidate: Garment) -> list[Difference]:
    found = []
    for name, (there, more, absent) in _DETAIL_CLAUSES.items():
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
