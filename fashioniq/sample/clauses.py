"""Clauses that say what a garment is like, by its attributes."""

from collections.abc import Sequence

from fashioniq.sample.garments import COLOURS, Garment

Clause = tuple[str, str]  # a verb ("is" or "has") and what follows it
COLOUR_WORDS = {colour: (colour,) for colour in COLOURS} | {
    "navy": ("navy", "navy blue", "dark blue"), "blue": ("light blue", "blue", "sky blue"),
    "grey": ("grey", "gray"), "red": ("red", "bright red"), "pink": ("pink", "light pink"),
}  # fmt: skip
BRIGHT = {"blue", "red", "pink", "yellow", "orange"}
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
NECK_DEPTH = {"turtleneck": 0, "collar": 1, "round": 2, "square": 3, "v-neck": 4}
LENGTH_ORDER = {"mini": 0, "knee": 1, "maxi": 2, "cropped": 0, "regular": 1, "long": 2}
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
FIT_ORDER = {"fitted": 0, "straight": 1, "loose": 1, "flared": 2}
CLOSURE_CLAUSES: dict[str, tuple[Clause, ...]] = {
    "buttons": (("has", "buttons"), ("has", "buttons down the front"), ("is", "buttoned")),
    "half buttons": (("has", "a half placket"), ("has", "a few buttons")),
    "zipper": (("has", "a zipper"), ("has", "a zip front")),
}
DETAIL_CLAUSES: dict[str, tuple[tuple[Clause, ...], Clause, str]] = {  # present, more of it, absent
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
# details of a plain garment in its second colour, besides the print
IN_SECOND_COLOUR = {"belt", "bow", "trim"}
FORMAL = {
    "sporty": 0,
    "beach": 0,
    "casual": 1,
    "boho": 1,
    "vintage": 1,
    "office": 2,
    "party": 2,
    "elegant": 2,
}


def filled(clauses: Sequence[Clause], garment: Garment) -> tuple[Clause, ...]:
    """Clauses with the second colour filled in."""
    filled = (
        (verb, said.replace("a {second}", f"{article(garment.second)} {garment.second}"))
        for verb, said in clauses
    )
    return tuple((verb, said.replace("{second}", garment.second)) for verb, said in filled)


def article(words: str) -> str:
    """Indefinite article for the words that follow."""
    return "an" if words[0] in "aeiou" else "a"
