"""A sheet that garments are drawn on, and shapes."""

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from fashioniq.sample.garments import COLOURS, Garment, Rgb

Point = tuple[float, float]
OVERSAMPLING = 3  # drawn larger, then reduced, because Pillow does not smooth the edges of polygons
BLACK, WHITE = (0, 0, 0), (255, 255, 255)
_HEY = (  # strokes of the three letters of the lettering motif: start x, y, end x, y
    ((0, 0, 0, 2), (1, 0, 1, 2), (0, 1, 1, 1)),
    ((0, 0, 0, 2), (0, 0, 1, 0), (0, 1, 1, 1), (0, 2, 1, 2)),
    ((0, 0, 0.5, 1), (1, 0, 0.5, 1), (0.5, 1, 0.5, 2)),
)


@dataclass(frozen=True)
class GarmentLook:
    """Colours of a picture."""

    main: Rgb
    second: Rgb
    line: Rgb  # seams and edges
    shine: Rgb

    @classmethod
    def of(cls, garment: Garment, rng: random.Random) -> "GarmentLook":
        shade = rng.uniform(-0.07, 0.04)
        towards = WHITE if shade > 0 else BLACK
        main, second = (
            blend(COLOURS[name], towards, abs(shade)) for name in (garment.colour, garment.second)
        )
        return cls(
            main, second, blend(main, WHITE if sum(main) < 240 else BLACK, 0.42), blend(main, WHITE, 0.45)
        )


class Sheet:
    """Drawing surface: the painted cloth, and the mask of the garment."""

    def __init__(self, side: int, look: GarmentLook, zoom: float, shift: Point) -> None:
        self.look = look
        self._scale = side / 100 * zoom
        self._origin = (side * (0.5 + shift[0] / 100), side * ((1 - zoom) / 2 + shift[1] / 100))
        self.cloth = Image.new("RGB", (side, side), look.main)
        self.mask = Image.new("L", (side, side), 0)
        self._paint = ImageDraw.Draw(self.cloth)
        self._shape = ImageDraw.Draw(self.mask)

    def _at(self, points: Iterable[Point]) -> list[Point]:
        return [(self._origin[0] + x * self._scale, self._origin[1] + y * self._scale) for x, y in points]

    def add(self, points: Iterable[Point]) -> None:
        self._shape.polygon(self._at(points), fill=255)

    def remove(self, points: Iterable[Point]) -> None:
        self._shape.polygon(self._at(points), fill=0)

    def fill(self, points: Iterable[Point], colour: Rgb) -> None:
        self._paint.polygon(self._at(points), fill=colour)

    def dot(self, x: float, y: float, radius: float, colour: Rgb) -> None:
        self._paint.ellipse(self._at([(x - radius, y - radius), (x + radius, y + radius)]), fill=colour)

    def line(
        self, points: Iterable[Point], colour: Rgb | None = None, width: float = 1.0, close: bool = False
    ) -> None:
        places = self._at(points)
        thick = max(1, round(width * self._scale))
        self._paint.line(
            places + places[:1] * close, fill=colour or self.look.line, width=thick, joint="curve"
        )


def both_sides(half: Sequence[Point]) -> list[Point]:
    """Closed outline from its right half."""
    return [*half, *((-x, y) for x, y in reversed(half))]


def mirror(points: Iterable[Point]) -> list[Point]:
    return [(-x, y) for x, y in points]


def half_ellipse(x: float, y: float, wide: float, deep: float) -> list[Point]:
    """Lower half of an ellipse, from right to left."""
    return [
        (x + wide * math.cos(step / 12 * math.pi), y + deep * math.sin(step / 12 * math.pi))
        for step in range(13)
    ]


def box(left: float, top: float, right: float, bottom: float) -> list[Point]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def draw_motif(sheet: Sheet, motif: str, y: float, radius: float) -> None:
    colour, main = sheet.look.second, sheet.look.main
    if motif == "heart":
        for x in (-radius * 0.48, radius * 0.48):
            sheet.dot(x, y - radius * 0.3, radius * 0.54, colour)
        sheet.fill(
            [(-radius * 0.97, y - 0.08 * radius), (radius * 0.97, y - 0.08 * radius), (0, y + radius)], colour
        )
    elif motif == "star":
        corners = [
            (radius * (1.1 if corner % 2 == 0 else 0.45), math.tau * corner / 10 - math.pi / 2)
            for corner in range(10)
        ]
        sheet.fill(
            [(reach * math.cos(angle), y + reach * math.sin(angle)) for reach, angle in corners], colour
        )
    elif motif == "diamond":
        sheet.fill(
            [(0, y - radius * 1.2), (radius * 0.8, y), (0, y + radius * 1.2), (-radius * 0.8, y)], colour
        )
    elif motif == "circle":
        sheet.dot(0, y, radius, colour)
        sheet.dot(0, y, radius * 0.55, main)
    else:
        for left, strokes in zip((-1.45, -0.45, 0.55), _HEY, strict=True):
            for x, down, to_x, to_down in strokes:
                places = [(left + 0.8 * x, down - 1), (left + 0.8 * to_x, to_down - 1)]
                sheet.line(
                    [(radius * 0.8 * across, y + radius * 0.6 * row) for across, row in places], colour, 1.9
                )


def blend(colour: Rgb, other: Rgb, share: float) -> Rgb:
    mixed = [round(one * (1 - share) + two * share) for one, two in zip(colour, other, strict=True)]
    return (mixed[0], mixed[1], mixed[2])
