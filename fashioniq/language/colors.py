"""Colors by their names: the nearest of a catalog's colors in Lab."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import hypot
from typing import NamedTuple


class Lab(NamedTuple):
    """A color in CIE L*a*b* under D65."""

    lightness: float
    a: float
    b: float


@lru_cache
def named_colors() -> Mapping[str, Lab]:
    """Lab values of the names of XKCD's survey and of CSS, without spaces. XKCD's are preferred."""
    from matplotlib.colors import CSS4_COLORS, XKCD_COLORS  # takes a quarter of a second

    named = {name.replace(" ", ""): value for name, value in CSS4_COLORS.items()}
    named |= {name.removeprefix("xkcd:").replace(" ", ""): value for name, value in XKCD_COLORS.items()}
    return {name.replace("'", "").replace("/", ""): lab_of(str(value)) for name, value in named.items()}


def lab_of(hexadecimal: str) -> Lab:
    """Lab value of an sRGB color such as "#ff0000" (IEC 61966-2-1, then CIE 15)."""
    channels = [int(hexadecimal[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    x = (0.4124564 * red + 0.3575761 * green + 0.1804375 * blue) / 0.95047
    y = 0.2126729 * red + 0.7151522 * green + 0.0721750 * blue
    z = (0.0193339 * red + 0.1191920 * green + 0.9503041 * blue) / 1.08883
    fx, fy, fz = (v ** (1 / 3) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z))
    return Lab(116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz))


def difference(one: Lab, other: Lab) -> float:
    """CIE94 color difference with the weights for textiles, symmetric in the chroma."""
    chroma, other_chroma = hypot(one.a, one.b), hypot(other.a, other.b)
    mean = (chroma * other_chroma) ** 0.5
    hue_squared = max((one.a - other.a) ** 2 + (one.b - other.b) ** 2 - (chroma - other_chroma) ** 2, 0.0)
    return hypot(
        (one.lightness - other.lightness) / 2,
        (chroma - other_chroma) / (1 + 0.048 * mean),
        hue_squared**0.5 / (1 + 0.014 * mean),
    )


def nearest_color(color: Lab, candidates: Mapping[str, Lab]) -> tuple[str, float]:
    """Name and distance of the nearest candidate, the first by name among equals."""
    return min(
        ((name, difference(color, lab)) for name, lab in sorted(candidates.items())), key=lambda x: x[1]
    )


def with_colors(words: Iterable[str], english: Mapping[str, str]) -> dict[str, Lab]:
    """Lab values of those words whose names, translated to English by their keys, are colors."""
    from fashioniq.language.tokens import key_of

    named = named_colors()
    found = {}
    for word in words:
        name = english.get(key_of(word), word).replace(" ", "").replace("-", "")
        lab = named.get(name) or named.get(name.replace("gray", "grey"))
        if lab is not None:
            found[word] = lab
    return found
