"""Colors of garments by the pixels of their pictures: what teaches labels of colors where the catalog has none.

A garment has the colors that are more frequent in the middle of its picture than at the border.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import hypot
from pathlib import Path

import numpy as np

from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.data.languages import language
from fashioniq.language.colors import Lab, difference, lab_of, named_colors
from fashioniq.language.grammar import grammar
from fashioniq.language.terms import COLOR
from fashioniq.language.tokens import phrase_key

SIDE = 64  # pixels
DISTINCT = 16  # colors that a picture is reduced to
MIDDLE, BORDER = 0.18, 0.44  # up to, and from this distance from the center, as shares of the width
GREY = 10.0  # chroma below which a color is black, grey or white
BLACK, WHITE = 35.0, 80.0  # lightness up to, and from which it is
DARK = 14.0  # lightness below which any color is black
EXPOSED, BRIGHTEN = (
    95.0,
    1.35,
)  # lightness of the lightest part of a well exposed photo, and the largest correction
HUES = ("red", "pink", "blue", "green", "yellow", "orange", "purple", "brown", "beige")


def color_words(code: str) -> dict[str, str]:
    """The word for each basic color in a language, by its English name; colors without one are left out."""
    speech, english = language(code), grammar(code).colors
    found: dict[str, str] = {}
    for word, group in speech.group_of.items():
        if group.family == COLOR:
            found.setdefault(english.get(phrase_key(word), word), word)
    return {color: found[color] for color in ("black", "white", "grey", *HUES) if color in found}


def shares_of_colors(path: Path) -> Mapping[str, float]:
    """Share of each basic color, by its English name, in the garment of a picture; empty if it is unreadable."""
    try:
        image = load_image(path)
    except UnreadableImage:
        return {}
    small = image.resize((SIDE, SIDE)).quantize(DISTINCT)
    color_HW = np.asarray(small)
    rgb_C3 = np.array(small.getpalette(), int).reshape(-1, 3)[: color_HW.max() + 1]
    down_HW, across_HW = np.abs((np.mgrid[:SIDE, :SIDE] + 0.5) / SIDE - 0.5)
    middle_HW = (across_HW < MIDDLE) & (down_HW < MIDDLE)
    border_HW = (across_HW > BORDER) | (down_HW > BORDER)
    middle_C, border_C = (
        np.bincount(color_HW[part_HW], minlength=len(rgb_C3)) / part_HW.sum()
        for part_HW in (middle_HW, border_HW)
    )
    garment_C = np.maximum(middle_C - border_C, 0)
    if garment_C.sum() < 0.25:  # as in close-ups
        garment_C = middle_C
    labs = [lab_of(f"#{red:02x}{green:02x}{blue:02x}") for red, green, blue in rgb_C3]
    brighter = min(BRIGHTEN, EXPOSED / max(1.0, *(lab.lightness for lab in labs)))
    found: dict[str, float] = {}
    for lab, share in zip(labs, garment_C / garment_C.sum(), strict=True):
        if share:
            name = _name(lab._replace(lightness=lab.lightness * brighter))
            found[name] = found.get(name, 0.0) + float(share)
    return found


def _name(lab: Lab) -> str:
    if hypot(lab.a, lab.b) < GREY or lab.lightness < DARK:
        return "black" if lab.lightness < BLACK else "white" if lab.lightness > WHITE else "grey"
    return min((difference(lab, named), hue) for hue, named in _hues())[1]


@lru_cache
def _hues() -> tuple[tuple[str, Lab], ...]:
    """The named colors that end with a basic one, such as forest green."""
    return tuple((hue, lab) for name, lab in named_colors().items() for hue in HUES if name.endswith(hue))
