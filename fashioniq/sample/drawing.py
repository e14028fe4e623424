"""Drawing of a garment.

Coordinates are in hundredths of the side of the picture: x from the vertical middle line, y from the top.
"""

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
class _Cut:
    """The outline of a garment's right half; the left half mirrors it."""

    top: float
    neck: float
    shoulder: Point
    armpit: Point
    waist: Point
    hem: Point
    side: tuple[Point, ...]  # from the armpit to the hem
    bare: bool  # nothing but straps above the chest


def draw_garment(garment: Garment, size: int, rng: random.Random) -> Image.Image:
    """Draw a garment on a light background, `size`×`size` pixels; position, scale and shade vary slightly."""
    side = size * OVERSAMPLING
    grey = rng.randint(226, 243)
    ground = (grey + rng.randint(-3, 3), grey + rng.randint(-3, 3), grey + rng.randint(-3, 3))
    sheet = _Sheet(
        side,
        _Look.of(garment, rng),
        zoom=rng.uniform(0.94, 1.02),
        shift=(rng.uniform(-2.5, 2.5), rng.uniform(-1.5, 1.5)),
    )
    cut = _cut_of(garment)
    _draw_cloth(sheet, garment, cut, rng)
    _draw_outline(sheet, garment, cut)
    _draw_neckline(sheet, garment, cut)
    _draw_front(sheet, garment, cut)
    picture = Image.new("RGB", (side, side), ground)
    picture.paste(sheet.cloth, mask=sheet.mask)
    return picture.resize((size, size), Image.Resampling.BOX)


@dataclass(frozen=True)
class _Look:
    """Colours of a picture."""

    main: Rgb
    second: Rgb
    line: Rgb  # seams and edges
    shine: Rgb

    @classmethod
    def of(cls, garment: Garment, rng: random.Random) -> "_Look":
        shade = rng.uniform(-0.07, 0.04)
        towards = WHITE if shade > 0 else BLACK
        main, second = (
            _blend(COLOURS[name], towards, abs(shade)) for name in (garment.colour, garment.second)
        )
        return cls(
            main, second, _blend(main, WHITE if sum(main) < 240 else BLACK, 0.42), _blend(main, WHITE, 0.45)
        )


class _Sheet:
    """Drawing surface: the painted cloth, and the mask of the garment."""

    def __init__(self, side: int, look: _Look, zoom: float, shift: Point) -> None:
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


def _cut_of(garment: Garment) -> _Cut:
    dress = garment.category == "dresses"
    top, neck, chest = (7.0, 6.0, 12.5) if dress else (16.0, 8.0, 19.0)
    armpit = (chest, 21.0) if dress else (chest, 34.0)
    covered = garment.sleeves in ("short", "three-quarter", "long")
    shoulder = (14.0, 10.0) if dress else (22.0, 20.0)
    if not covered:
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
    return _Cut(
        top,
        neck,
        shoulder,
        armpit,
        waist,
        hem=hem,
        side=side,
        bare=garment.sleeves in ("strapless", "straps"),
    )


def _both(half: Sequence[Point]) -> list[Point]:
    """Closed outline from its right half."""
    return [*half, *((-x, y) for x, y in reversed(half))]


def _mirror(points: Iterable[Point]) -> list[Point]:
    return [(-x, y) for x, y in points]


def _half_ellipse(x: float, y: float, wide: float, deep: float) -> list[Point]:
    """Lower half of an ellipse, from right to left."""
    return [
        (x + wide * math.cos(step / 12 * math.pi), y + deep * math.sin(step / 12 * math.pi))
        for step in range(13)
    ]


def _box(left: float, top: float, right: float, bottom: float) -> list[Point]:
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def _body(cut: _Cut) -> list[Point]:
    above = [(cut.armpit[0] - 0.5, cut.armpit[1] - 2)] if cut.bare else [(cut.neck, cut.top), cut.shoulder]
    return _both([*above, cut.armpit, *cut.side, (cut.hem[0] / 2, cut.hem[1] + 1.6)])


def _sleeve(garment: Garment, cut: _Cut) -> list[Point]:
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


def _has_sleeves(garment: Garment) -> bool:
    return garment.sleeves in ("short", "three-quarter", "long")


def _draw_cloth(sheet: _Sheet, garment: Garment, cut: _Cut, rng: random.Random) -> None:
    look, second = sheet.look, sheet.look.second
    grid = [(x + 4.0 * (row % 2), y) for row, y in enumerate(range(0, 104, 8)) for x in range(-60, 62, 8)]
    if garment.pattern == "striped":
        step = rng.choice((6.0, 8.0))
        for row in range(int(110 / step)):
            sheet.fill(_box(-60, row * step, 60, row * step + step * 0.45), second)
    elif garment.pattern == "plaid":
        between = _blend(look.main, second, 0.55)
        for band in range(-6, 12):
            sheet.fill(_box(-60, band * 10, 60, band * 10 + 4.5), between)
        for band in range(-6, 7):
            sheet.fill(_box(band * 10 - 2.2, -5, band * 10 + 2.2, 105), between)
            for row in range(-1, 12):
                sheet.fill(_box(band * 10 - 2.2, row * 10, band * 10 + 2.2, row * 10 + 4.5), second)
    elif garment.pattern == "polka dot":
        for x, y in grid:
            sheet.dot(x, y, 2.1, second)
    elif garment.pattern == "floral":
        heart = COLOURS["yellow"] if garment.second != "yellow" else COLOURS["red"]
        leaf = COLOURS["green"] if garment.colour != "green" else COLOURS["white"]
        for x, y in grid:
            if (x // 8 + y // 8) % 3:
                _draw_flower(
                    sheet,
                    x * 1.3 + rng.uniform(-1, 1),
                    y * 1.3 + rng.uniform(-1, 1),
                    2.0,
                    second,
                    heart=heart,
                    leaf=leaf,
                )
    elif garment.pattern == "chevron":
        for row in range(-1, 12):
            sheet.line([(x, row * 10 + (5.0 if x % 10 else 0.0)) for x in range(-60, 61, 5)], second, 3.4)
    elif garment.pattern == "color block":
        sheet.fill(_box(-60, cut.waist[1], 60, 105), second)
    if garment.fabric == "knit":
        for x in range(-60, 61, 3):
            sheet.line([(x, 0), (x, 105)], _blend(look.main, look.line, 0.45), 0.7)
    elif garment.fabric == "satin":
        for x in (-0.45, 0.1, 0.5):
            middle = (x * cut.waist[0], cut.waist[1] + 4)
            above, below = (
                (x * cut.armpit[0] - 1.2, cut.armpit[1] - 3),
                (x * cut.hem[0] * 1.1, cut.hem[1] - 5),
            )
            sheet.fill([above, middle, below, (middle[0] - 2.6, middle[1])], look.shine)


def _draw_flower(sheet: _Sheet, x: float, y: float, petal: float, colour: Rgb, heart: Rgb, leaf: Rgb) -> None:
    sheet.fill(
        [(x + petal, y + petal), (x + petal * 2.9, y + petal * 1.2), (x + petal * 1.9, y + petal * 2.5)], leaf
    )
    for number in range(5):
        angle = math.tau * number / 5 - math.pi / 2
        sheet.dot(x + petal * 1.15 * math.cos(angle), y + petal * 1.15 * math.sin(angle), petal, colour)
    sheet.dot(x, y, petal * 0.75, heart)


def _draw_outline(sheet: _Sheet, garment: Garment, cut: _Cut) -> None:
    look, hem = sheet.look, cut.hem
    if _has_sleeves(garment):
        right = _sleeve(garment, cut)
        for sleeve in (right, _mirror(right)):
            sheet.add(sleeve)
            sheet.line(sleeve, width=1.1, close=True)
            if "trim" in garment.details:
                sheet.line(sleeve[-3:-1] if len(sleeve) == 4 else sleeve[2:4], look.second, 5.0)
    body = _body(cut)
    sheet.add(body)
    if garment.fit == "flared":
        for x in (-0.6, -0.2, 0.2, 0.6):
            sheet.line([(x * cut.waist[0], cut.waist[1] + 2), (x * hem[0], hem[1])], width=0.8)
    if "trim" in garment.details:
        sheet.line([(-hem[0], hem[1] - 0.6), (0, hem[1] + 0.8), (hem[0], hem[1] - 0.6)], look.second, 5.0)
    if "ruffles" in garment.details or garment.fabric == "lace":
        _draw_hem(sheet, cut, lace=garment.fabric == "lace")
    sheet.line(body, width=1.1, close=True)
    if garment.sleeves == "straps":
        for x in (cut.neck + 1, -cut.neck - 1):
            strap = _box(x - 1, cut.top, x + 1, cut.armpit[1])
            sheet.add(strap)
            sheet.fill(strap, _blend(look.main, look.line, 0.35))


def _draw_hem(sheet: _Sheet, cut: _Cut, lace: bool) -> None:
    """Draw a frill of wide scallops in the garment's colour, or a lace border of small light scallops."""
    step = 3.2 if lace else 5.6
    depth = 3.0 if lace else 6.0
    number = max(2, round(2 * cut.hem[0] / step))
    step = 2 * cut.hem[0] / number
    colour = _blend(
        sheet.look.main, WHITE if sum(sheet.look.main) < 620 else (150, 120, 110), 0.6 if lace else 0.2
    )
    band = _box(-cut.hem[0], cut.hem[1] - depth, cut.hem[0], cut.hem[1] + 2)
    sheet.fill(band, colour)
    sheet.line(band[:2], width=0.8)
    for place in range(number):
        x = -cut.hem[0] + step * (place + 0.5)
        ring = _half_ellipse(x, cut.hem[1] + 0.5, step / 2, step * 0.6)
        sheet.add(ring)
        sheet.fill(ring, colour)
        sheet.line(ring, width=0.8)
        if lace:
            sheet.dot(x, cut.hem[1] - 0.4, 0.9, sheet.look.line)
        else:
            sheet.line([(x + step / 2, cut.hem[1] - depth), (x + step / 2, cut.hem[1] + 1)], width=0.8)


def _draw_neckline(sheet: _Sheet, garment: Garment, cut: _Cut) -> None:
    look, top, neck = sheet.look, cut.top, cut.neck
    edge = look.second if "trim" in garment.details else look.line
    width = 3.6 if "trim" in garment.details else 1.2
    dress = garment.category == "dresses"
    if cut.bare:
        top, neck = cut.armpit[1] - 2.4, cut.neck + 1
    if garment.neckline == "round":
        hole = _half_ellipse(0, top - 0.5, neck, neck * 0.95)
    elif garment.neckline == "v-neck":
        hole = [(neck, top - 0.6), (0, top + (9 if cut.bare else 16 if dress else 21)), (-neck, top - 0.6)]
    elif garment.neckline == "square":
        deep = top + (9 if dress else 12)
        hole = [(neck, top - 0.6), (neck, deep), (-neck, deep), (-neck, top - 0.6)]
    elif garment.neckline == "collar":
        hole = [(neck * 0.7, top - 1), (0, top + neck), (-neck * 0.7, top - 1)]
    else:
        hole = []
    if hole:
        sheet.remove(hole)
        sheet.line(hole, edge, width)
    if garment.neckline == "turtleneck":
        shape = _box(-neck * 0.95, top - 6.5, neck * 0.95, top + 1.5)
        sheet.add(shape)
        sheet.fill(shape, edge if "trim" in garment.details else look.main)
        sheet.line(shape, width=1.1, close=True)
        sheet.line([(-neck * 0.9, top - 3), (neck * 0.9, top - 3)], width=0.7)
    if garment.neckline == "collar":
        flap = [
            (neck * 0.62, top - 2.6),
            (neck * 1.25, top + 2),
            (neck * 1.1, top + neck * 1.35),
            (0.4, top + neck),
        ]
        for shape in (flap, _mirror(flap)):
            sheet.add(shape)
            sheet.fill(shape, edge if "trim" in garment.details else _blend(look.main, look.line, 0.18))
            sheet.line(shape, width=1.1, close=True)


def _draw_front(sheet: _Sheet, garment: Garment, cut: _Cut) -> None:
    dress, look = garment.category == "dresses", sheet.look
    depths = {
        "round": cut.neck,
        "v-neck": 16 if dress else 21,
        "square": 9 if dress else 12,
        "collar": cut.neck,
    }
    start = cut.top + depths.get(garment.neckline, 0)
    if cut.bare:
        start = cut.armpit[1] + (7 if garment.neckline == "v-neck" else -2)
    _draw_closure(sheet, garment.closure, start, cut.hem[1])
    if "pocket" in garment.details:
        left, top = 5.5, cut.armpit[1] + 0.5
        _draw_pocket(sheet, _box(left, top, left + 8.5, top + 9.5))
    if "pockets" in garment.details:
        for x in (-9.6, 3.4):
            _draw_pocket(sheet, _box(x, 43, x + 6.2, 50))
    if garment.motif:
        _draw_motif(
            sheet,
            garment.motif,
            max(cut.armpit[1] + (6 if not dress else 4), start + 8),
            7.0 if dress else 9.0,
        )
    if "belt" in garment.details:
        belt = look.second if garment.pattern != "color block" else look.line
        buckle = COLOURS["yellow" if garment.second != "yellow" else "black"]
        sheet.fill(_box(-30, cut.waist[1] - 2, 30, cut.waist[1] + 2.4), belt)
        sheet.fill(_box(-2.4, cut.waist[1] - 2, 2.4, cut.waist[1] + 2.4), buckle)
        sheet.fill(_box(-1.2, cut.waist[1] - 0.9, 1.2, cut.waist[1] + 1.3), belt)
    if "bow" in garment.details:
        _draw_bow(sheet, start + 1.5, wing=6.0 if dress else 7.5)


def _draw_bow(sheet: _Sheet, y: float, wing: float) -> None:
    colour = sheet.look.second
    loop = [(0, y), (wing, y - wing * 0.6), (wing, y + wing * 0.6)]
    end = [(0, y), (wing * 0.7, y + wing * 1.3), (wing * 0.2, y + wing * 1.4)]
    for shape in (loop, _mirror(loop), end, _mirror(end)):
        sheet.add(shape)
        sheet.fill(shape, colour)
        sheet.line(shape, _blend(colour, sheet.look.line, 0.7), 0.7, close=True)
    sheet.dot(0, y, 1.8, colour)


def _draw_closure(sheet: _Sheet, closure: str, start: float, hem: float) -> None:
    look = sheet.look
    end = start + (hem - start) * 0.36 if closure == "half buttons" else hem + 1.5
    if closure == "zipper":
        light = sum(look.main) < 330
        sheet.fill(_box(-1.8, start, 1.8, end), (172, 174, 180) if light else COLOURS["black"])
        sheet.line([(0, start), (0, end)], COLOURS["black"] if light else WHITE, 0.8)
        sheet.fill(_box(-1.4, start + 1.5, 1.4, start + 6), COLOURS["yellow"])
    elif closure:
        sheet.fill(_box(-2.6, start, 2.6, end), _blend(look.main, look.line, 0.12))
        sheet.line(_box(-2.6, start, 2.6, end), width=0.8, close=closure == "half buttons")
        sheet.line([(-2.6, end), (-2.6, start)], width=0.8)
        button = COLOURS["white"] if sum(look.main) < 560 else COLOURS["black"]
        number = max(2, int((end - start) / 7.5))
        for place in range(number):
            sheet.dot(0, start + (end - start) * (place + 0.5) / number, 1.3, button)


def _draw_pocket(sheet: _Sheet, shape: list[Point]) -> None:
    sheet.fill(shape, _blend(sheet.look.main, sheet.look.line, 0.2))
    sheet.line(shape, width=1.0, close=True)
    sheet.line([(shape[0][0], shape[0][1] + 2), (shape[1][0], shape[1][1] + 2)], width=0.8)


def _draw_motif(sheet: _Sheet, motif: str, y: float, radius: float) -> None:
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


def _blend(colour: Rgb, other: Rgb, share: float) -> Rgb:
    mixed = [round(one * (1 - share) + two * share) for one, two in zip(colour, other, strict=True)]
    return (mixed[0], mixed[1], mixed[2])
