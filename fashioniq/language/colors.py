"""Colors by their names: the nearest of a catalog's colors in Lab."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import hypot
from typing import NamedTuple

from fashioniq.language.grammar import Grammar
from fashioniq.language.tokens import phrase_key

_NEAR = 14.0  # difference up to which another color is nearer to "dark red" than red is
_FAR = 28.0  # difference from which on a color of the catalog is none for a name: navy is not pink


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
    return {phrase_key(name.replace("/", " ")): lab_of(str(value)) for name, value in named.items()}


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


class Palette:
    """The colors of a catalog, and the color names of a language."""

    def __init__(self, rules: Grammar, stem: Callable[[str], str]) -> None:
        self._shades, self._stem = rules.shades, stem
        self._english = {stem(word): name for word, name in rules.colors.items()} | dict(rules.colors)
        self.colors: dict[str, Lab] = {}

    def fill(self, labels: Iterable[str]) -> None:
        """Add those labels whose names are known."""
        found = ((label, self.named(label.split())) for label in labels)
        self.colors |= {label: lab for label, lab in found if lab is not None}

    def is_name(self, key: str) -> bool:
        """Whether a key is the name of a color."""
        return key in named_colors() or key in self._english

    def named(self, words: Sequence[str]) -> Lab | None:
        """The color of a name such as "dusty rose" or "dunkelrotes"."""
        key = phrase_key(" ".join(words))
        names = named_colors()
        for name in (
            self._english.get(key),
            self._english.get(self._stem(key)),
            *self._split(key),
            " ".join(self._translated(phrase_key(word)) for word in words),
        ):
            if name and (
                found := names.get(phrase_key(name)) or names.get(phrase_key(name.replace("gray", "grey")))
            ):
                return found
        return None

    def nearest(self, lab: Lab | None, heads: Iterable[str]) -> str:
        """The nearest color of the catalog; one of `heads` unless another is much nearer. "" if there is none."""
        if lab is None or not self.colors:
            return ""
        label, distance = _nearest(lab, self.colors)
        head = self.among(lab, heads) if distance > _NEAR else ""
        return head or (label if distance < _FAR else "")

    def similar(self, label: str) -> list[str]:
        """Colors of the catalog that are similar to one of them, the nearest first."""
        if (own := self.colors.get(label)) is None:
            return []
        near = sorted((difference(own, lab), name) for name, lab in self.colors.items() if name != label)
        return [name for distance, name in near if distance < _FAR]

    def among(self, lab: Lab | None, labels: Iterable[str]) -> str:
        """The nearest of some colors of the catalog, or ""."""
        near = {label: self.colors[label] for label in labels if label in self.colors}
        return _nearest(lab, near)[0] if lab is not None and near else ""

    def shaded(self, key: str) -> str:
        """The color word in a compound such as "dunkelrotes", or ""."""
        return next((rest for _, rest in self._shade_and_rest(key)), "")

    def _split(self, key: str) -> Iterable[str]:
        return (f"{shade} {self._translated(rest)}" for shade, rest in self._shade_and_rest(key))

    def _shade_and_rest(self, key: str) -> Iterable[tuple[str, str]]:
        for word, shade in self._shades.items():
            rest = key.removeprefix(word)
            if rest != key and (rest in self._english or self._stem(rest) in self._english):
                yield shade, rest

    def _translated(self, key: str) -> str:
        return self._english.get(key) or self._english.get(self._stem(key)) or self._shades.get(key) or key


def _nearest(color: Lab, candidates: Mapping[str, Lab]) -> tuple[str, float]:
    """Name and distance of the nearest candidate, the first by name among equals."""
    distance, label = min((difference(color, lab), name) for name, lab in candidates.items())
    return label, distance
