"""A dialect of the drawn sample's grammar: other words, and another word order, for the same differences."""

import re

_WORDS = {
    "navy blue": "midnight", "dark blue": "midnight", "navy": "midnight", "light blue": "azure", "sky blue": "azure",
    "blue": "azure", "bright red": "crimson", "red": "crimson", "light pink": "blush", "pink": "blush", "grey": "ashen",
    "gray": "ashen", "black": "jet", "white": "ivory", "yellow": "lemon", "orange": "tangerine", "green": "emerald",
    "purple": "violet", "brown": "chocolate",
    "long sleeves": "sleeves down to the wrist", "long sleeved": "covered to the wrist",
    "short sleeves": "sleeves above the elbow", "short sleeved": "covered above the elbow",
    "three-quarter sleeves": "sleeves past the elbow", "mid-length sleeves": "sleeves past the elbow",
    "a sleeveless style": "armless", "sleeveless": "armless", "strapless": "off shoulder",
    "thin straps": "strings", "spaghetti straps": "strings", "strappy": "on strings",
    "a mini dress": "thigh high", "mini length": "thigh high", "knee length": "mid leg", "knee-length": "mid leg",
    "a maxi dress": "ankle grazing", "floor length": "ankle grazing",
    "floral": "blossomed", "a floral print": "blossoms", "flowers": "blossoms", "striped": "banded", "stripes": "bands",
    "plaid": "tartan", "a checked pattern": "tartan", "checked": "tartan", "checks": "tartan", "polka dots": "spots",
    "dots": "spots", "dotted": "spotted", "a chevron pattern": "peaks", "a zigzag pattern": "peaks", "zigzags": "peaks",
    "plain": "unadorned", "a solid color": "unadorned", "one color": "unadorned", "solid": "unadorned",
    "v-neck": "plunge", "v-necked": "plunging", "collared": "shirt style",
    "a turtleneck": "a funnel", "a high neck": "a funnel",
    "fitted": "snug", "tight": "snug", "close fitting": "snug", "flared": "swingy", "flowy": "swingy", "loose": "roomy",
    "baggy": "roomy", "a belt": "a sash", "belted": "sashed", "belt": "sash", "pockets": "pouches", "pocket": "pouch",
    "ruffles": "frills", "ruffled": "frilly", "a zipper": "a zip up", "lighter": "paler", "darker": "deeper toned",
    "dressier": "fancier", "more formal": "fancier", "shiny": "glossy", "lace": "crochet",
}  # fmt: skip
_KNOWN = re.compile(
    rf"(?<![\w-])(?:{'|'.join(sorted(map(re.escape, _WORDS), key=len, reverse=True))})(?![\w-])"
)
_VERB = re.compile(r"^(?:it )?(is|has) (.+)$")


def in_dialect(text: str) -> str:
    """The same caption in the dialect: its words, and the verb at the end of each clause."""
    clauses = [_KNOWN.sub(lambda found: _WORDS[found[0]], clause) for clause in text.split(" and ")]
    return " plus ".join(_VERB.sub(r"\2 it \1", clause) for clause in clauses)
