"""Garments of the drawn sample: the data class and random generation."""

import math
import random
from dataclasses import dataclass

Rgb = tuple[int, int, int]

COLOURS: dict[str, Rgb] = {
    "black": (28, 28, 32), "white": (254, 254, 252), "grey": (142, 144, 150), "navy": (24, 36, 96),
    "blue": (96, 168, 236), "red": (206, 28, 40), "pink": (248, 150, 190), "green": (34, 136, 70),
    "yellow": (250, 214, 44), "orange": (242, 124, 28), "purple": (124, 52, 158), "brown": (116, 70, 36),
}  # fmt: skip
COVERED_BY_SECOND = {
    "striped": 0.45,
    "plaid": 0.4,
    "polka dot": 0.2,
    "floral": 0.25,
    "chevron": 0.4,
    "color block": 0.5,
}

_PATTERNS = {
    "dresses": {
        "solid": 42,
        "striped": 12,
        "floral": 17,
        "polka dot": 13,
        "plaid": 4,
        "chevron": 6,
        "color block": 6,
    },
    "shirts": {
        "solid": 42,
        "striped": 20,
        "floral": 5,
        "polka dot": 6,
        "plaid": 20,
        "chevron": 3,
        "color block": 4,
    },
    "tops": {
        "solid": 46,
        "striped": 16,
        "floral": 12,
        "polka dot": 10,
        "plaid": 4,
        "chevron": 6,
        "color block": 6,
    },
}
_SLEEVES = {
    "dresses": {"strapless": 8, "straps": 16, "sleeveless": 30, "short": 20, "three-quarter": 8, "long": 18},
    "shirts": {"sleeveless": 6, "short": 42, "three-quarter": 12, "long": 40},
    "tops": {"straps": 16, "sleeveless": 22, "short": 30, "three-quarter": 12, "long": 20},
}
_NECKLINES = {
    "dresses": {"round": 36, "v-neck": 32, "square": 15, "collar": 10, "turtleneck": 7},
    "shirts": {"collar": 66, "round": 18, "v-neck": 16},
    "tops": {"round": 44, "v-neck": 30, "square": 12, "turtleneck": 10, "collar": 4},
}
_LENGTHS = {
    "dresses": {"mini": 35, "knee": 38, "maxi": 27},
    "shirts": {"cropped": 12, "regular": 58, "long": 30},
    "tops": {"cropped": 24, "regular": 48, "long": 28},
}
_FITS = {
    "dresses": {"fitted": 34, "straight": 28, "flared": 38},
    "shirts": {"fitted": 48, "loose": 52},
    "tops": {"fitted": 36, "loose": 34, "flared": 30},
}
_FABRICS = {
    "dresses": ("cotton", "chiffon", "jersey", "linen", "satin", "lace", "knit"),
    "shirts": ("cotton", "linen", "denim", "flannel", "poplin"),
    "tops": ("cotton", "chiffon", "jersey", "satin", "lace", "knit"),
}
DETAILS = {
    "dresses": {"belt": 0.22, "pockets": 0.12, "bow": 0.12, "ruffles": 0.15},
    "shirts": {"pocket": 0.38},
    "tops": {"pocket": 0.14, "bow": 0.12, "ruffles": 0.16},
}
_MOTIFS = ("heart", "star", "diamond", "circle", "lettering")
_MOTIF_SHARE = {"dresses": 0.08, "shirts": 0.6, "tops": 0.36}


def names_of(category: str) -> dict[str, set[str]]:
    """Names that each attribute of a garment of this category can have, besides colors and details."""
    sleeves = {name for name in _SLEEVES[category] if name not in ("short", "three-quarter", "long")}
    return {
        "pattern": set(_PATTERNS[category]),
        "sleeves": sleeves | {f"{name} sleeves" for name in _SLEEVES[category].keys() - sleeves},
        "neckline": set(_NECKLINES[category]),
        "length": set(_LENGTHS[category]),
        "fit": set(_FITS[category]),
        "fabric": set(_FABRICS[category]),
        "closure": {"buttons", "half buttons", "zipper"},
        "motif": set(_MOTIFS),
        "style": {"office", "party", "boho", "vintage", "elegant", "beach", "sporty", "casual"},
    }


@dataclass(frozen=True)
class Garment:
    """Attributes of a drawn product.

    `second` is the colour of the pattern, or of the belt, bow, print and trim of a plain garment.
    """

    category: str
    colour: str
    second: str
    pattern: str
    sleeves: str
    neckline: str  # "straight" if there is nothing above the chest
    length: str
    fit: str
    closure: str  # "", "buttons", "half buttons" or "zipper"
    motif: str  # print on the chest, or ""
    details: frozenset[str]
    fabric: str
    style: str


def random_garment(category: str, rng: random.Random) -> Garment:
    """Random dress, shirt or top with compatible attributes."""
    colour = rng.choice(list(COLOURS))
    second = rng.choice([name for name in COLOURS if math.dist(COLOURS[name], COLOURS[colour]) > 150])
    pattern, sleeves = _pick(_PATTERNS[category], rng), _pick(_SLEEVES[category], rng)
    neckline = _pick(_NECKLINES[category], rng)
    if sleeves in ("strapless", "straps"):
        neckline = "straight" if sleeves == "strapless" or rng.random() < 0.5 else "v-neck"
    length, fit = _pick(_LENGTHS[category], rng), _pick(_FITS[category], rng)
    if category == "tops" and (length, fit) == ("long", "flared"):
        length = "regular"  # it would look like a dress
    closure = _random_closure(category, neckline, rng)
    room = neckline != "v-neck" or length != "cropped"
    printed = pattern == "solid" and not closure and room and rng.random() < _MOTIF_SHARE[category]
    motif = rng.choice(_MOTIFS) if printed else ""
    details = {name for name, share in DETAILS[category].items() if rng.random() < share}
    if pattern == "solid" and sleeves not in ("strapless", "straps") and rng.random() < 0.25:
        details.add("trim")
    if category != "shirts" and sleeves in ("three-quarter", "long") and rng.random() < 0.3:
        details.add("bell sleeves")
    if neckline == "collar" or closure or motif or pattern != "solid":
        details.discard("bow")
    if motif:
        details.discard("pocket")
    fabric = rng.choice(_FABRICS[category])
    if fabric == "lace":
        details.discard("ruffles")
    styles = _fitting_styles(
        pattern, sleeves, neckline, length, fabric, closed=bool(closure), printed=bool(motif)
    )
    return Garment(
        category,
        colour,
        second,
        pattern,
        sleeves,
        neckline=neckline,
        length=length,
        fit=fit,
        closure=closure,
        motif=motif,
        details=frozenset(details),
        fabric=fabric,
        style=rng.choice(styles),
    )


def _pick(weights: dict[str, int], rng: random.Random) -> str:
    return rng.choices(list(weights), list(weights.values()))[0]


def _random_closure(category: str, neckline: str, rng: random.Random) -> str:
    if category == "shirts":
        shares = {
            "collar": {"buttons": 68, "half buttons": 22, "zipper": 10},
            "round": {"half buttons": 40, "": 60},
        }.get(neckline, {"": 1})
    elif neckline == "turtleneck":
        shares = {"": 1}
    else:
        shares = {"": 80, "buttons": 14, "zipper": 6}
    return _pick(shares, rng)


def _fitting_styles(
    pattern: str, sleeves: str, neckline: str, length: str, fabric: str, closed: bool, printed: bool
) -> list[str]:
    fitting = {
        "office": neckline == "collar" and not printed,
        "party": fabric == "satin" or sleeves == "strapless",
        "boho": pattern == "floral",
        "vintage": pattern in ("polka dot", "plaid"),
        "elegant": length == "maxi" or fabric in ("satin", "lace"),
        "beach": sleeves == "straps",
        "sporty": printed or (closed and pattern == "color block"),
    }
    return [style for style, fits in fitting.items() if fits] or ["casual"]
