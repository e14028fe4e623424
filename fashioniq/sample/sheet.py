"""A sheet that garments are drawn on, shapes, and the outlines of garments."""

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

    def patch(self, points: Sequence[Point], colour: Rgb) -> None:
        """Sew a piece of another colour to the garment."""
        self.add(points)
        self.fill(points, colour)

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


@dataclass(frozen=True)
class Cut:
    """The outline of a garment's right half; the left half mirrors it."""

    top: float
    neck: float
    shoulder: Point
    armpit: Point
    waist: Point
    hem: Point
    side: tuple[Point, ...]  # from the armpit to the hem
    bare: bool  # nothing but straps above the chest


def cut_of(garment: Garment) -> Cut:
    dress = garment.category == "dresses"
    top, neck, chest = (7.0, 6.0, 12.5) if dress else (16.0, 8.0, 19.0)
    armpit = (chest, 21.0) if dress else (chest, 34.0)
    shoulder = (14.0, 10.0) if dress else (22.0, 20.0)
    if not has_sleeves(garment):
        shoulder = (shoulder[0] - 3, shoulder[1] - 1)
    if dress:
        hem_y = {"mini": 57.0, "knee": 75.0, "maxi": 95.0}[garment.length]
        waist = ({"fitted": 8.5, "straight": 12.5, "flared": 9.0}[garment.fit], 36.0)
        flare = {"mini": 24.0, "knee": 27.0, "maxi": 30.0}[garment.length]
        hem = ({"fitted": 11.0, "straight": 15.5, "flared": flare}[garment.fit], hem_y)
        bell = (waist[0] + (flare - waist[0]) * 0.42, waist[1] + (hem_y - waist[1]) * 0.32)
        side: tuple[Point, ...] = (
            waist,
            {"fitted": (13.0, 47.0), "straight": (14.0, 47.0), "flared": bell}[garment.fit],
            hem,
        )
    else:
        hem_y = {"cropped": 50.0, "regular": 69.0, "long": 89.0}[garment.length]
        waist_y = 44.0 if garment.length == "cropped" else 50.0
        waist = ({"fitted": 14.5, "loose": 22.0, "flared": 14.0}[garment.fit], waist_y)
        hem = (
            {"fitted": 17.0, "loose": 25.0, "flared": 22.0 if garment.length == "cropped" else 29.0}[
                garment.fit
            ],
            hem_y,
        )
        side = (waist, hem)
    return Cut(
        top,
        neck,
        shoulder,
        armpit,
        waist,
        hem=hem,
        side=side,
        bare=garment.sleeves in ("strapless", "straps"),
    )


def body_of(cut: Cut) -> list[Point]:
    above = [(cut.armpit[0] - 0.5, cut.armpit[1] - 2)] if cut.bare else [(cut.neck, cut.top), cut.shoulder]
    half = [*above, cut.armpit, *cut.side, (cut.hem[0] / 2, cut.hem[1] + 1.6)]
    return [*half, *mirror(reversed(half))]


def sleeve_of(garment: Garment, cut: Cut) -> list[Point]:
    """Right sleeve: shoulder, outer end, inner end, armpit."""
    unit = 1.0 if garment.category == "dresses" else 1.28
    length, (right, down), width = {
        "short": (13.0, (0.72, 0.69), 8.5),
        "three-quarter": (27.0, (0.5, 0.87), 6.5),
        "long": (42.0, (0.42, 0.91), 6.0),
    }[garment.sleeves]
    outer = (cut.shoulder[0] + right * length * unit, cut.shoulder[1] + down * length * unit)
    inner = (outer[0] - down * width * unit, outer[1] + right * width * unit)
    shape = [cut.shoulder, outer, inner, cut.armpit]
    if "bell sleeves" in garment.details:
        wide = 4.2 * unit
        wrist = (outer[0] - right * 11 * unit, outer[1] - down * 11 * unit)
        inner_wrist = (wrist[0] - down * width * unit, wrist[1] + right * width * unit)
        spread = [
            (outer[0] + down * wide, outer[1] - right * wide),
            (inner[0] - down * wide, inner[1] + right * wide),
        ]
        shape = [cut.shoulder, wrist, *spread, inner_wrist, cut.armpit]
    return shape


def has_sleeves(garment: Garment) -> bool:
    return garment.sleeves in ("short", "three-quarter", "long")
