"""Drawing of a garment.

Coordinates are in hundredths of the side of the picture: x from the vertical middle line, y from the top.
"""

import math
import random

from PIL import Image

from fashioniq.sample.garments import COLOURS, Garment, Rgb
from fashioniq.sample.sheet import (
    OVERSAMPLING,
    WHITE,
    Cut,
    GarmentLook,
    Point,
    Sheet,
    blend,
    body_of,
    box,
    cut_of,
    draw_motif,
    half_ellipse,
    has_sleeves,
    mirror,
    sleeve_of,
)


def draw_garment(garment: Garment, size: int, rng: random.Random) -> Image.Image:
    """Draw a garment on a light background, `size`×`size` pixels; position, scale and shade vary slightly."""
    side = size * OVERSAMPLING
    grey = rng.randint(226, 243)
    ground = (grey + rng.randint(-3, 3), grey + rng.randint(-3, 3), grey + rng.randint(-3, 3))
    sheet = Sheet(
        side,
        GarmentLook.of(garment, rng),
        zoom=rng.uniform(0.94, 1.02),
        shift=(rng.uniform(-2.5, 2.5), rng.uniform(-1.5, 1.5)),
    )
    cut = cut_of(garment)
    _draw_cloth(sheet, garment, cut, rng)
    _draw_outline(sheet, garment, cut)
    _draw_neckline(sheet, garment, cut)
    _draw_front(sheet, garment, cut)
    picture = Image.new("RGB", (side, side), ground)
    picture.paste(sheet.cloth, mask=sheet.mask)
    return picture.resize((size, size), Image.Resampling.BOX)


def _draw_cloth(sheet: Sheet, garment: Garment, cut: Cut, rng: random.Random) -> None:
    look, second = sheet.look, sheet.look.second
    grid = [(x + 4.0 * (row % 2), y) for row, y in enumerate(range(0, 104, 8)) for x in range(-60, 62, 8)]
    if garment.pattern == "striped":
        step = rng.choice((6.0, 8.0))
        for row in range(int(110 / step)):
            sheet.fill(box(-60, row * step, 60, row * step + step * 0.45), second)
    elif garment.pattern == "plaid":
        between = blend(look.main, second, 0.55)
        for band in range(-6, 12):
            sheet.fill(box(-60, band * 10, 60, band * 10 + 4.5), between)
        for band in range(-6, 7):
            sheet.fill(box(band * 10 - 2.2, -5, band * 10 + 2.2, 105), between)
            for row in range(-1, 12):
                sheet.fill(box(band * 10 - 2.2, row * 10, band * 10 + 2.2, row * 10 + 4.5), second)
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
        sheet.fill(box(-60, cut.waist[1], 60, 105), second)
    if garment.fabric == "knit":
        for x in range(-60, 61, 3):
            sheet.line([(x, 0), (x, 105)], blend(look.main, look.line, 0.45), 0.7)
    elif garment.fabric == "satin":
        for x in (-0.45, 0.1, 0.5):
            middle = (x * cut.waist[0], cut.waist[1] + 4)
            above, below = (
                (x * cut.armpit[0] - 1.2, cut.armpit[1] - 3),
                (x * cut.hem[0] * 1.1, cut.hem[1] - 5),
            )
            sheet.fill([above, middle, below, (middle[0] - 2.6, middle[1])], look.shine)


def _draw_flower(sheet: Sheet, x: float, y: float, petal: float, colour: Rgb, heart: Rgb, leaf: Rgb) -> None:
    sheet.fill(
        [(x + petal, y + petal), (x + petal * 2.9, y + petal * 1.2), (x + petal * 1.9, y + petal * 2.5)], leaf
    )
    for number in range(5):
        angle = math.tau * number / 5 - math.pi / 2
        sheet.dot(x + petal * 1.15 * math.cos(angle), y + petal * 1.15 * math.sin(angle), petal, colour)
    sheet.dot(x, y, petal * 0.75, heart)


def _draw_outline(sheet: Sheet, garment: Garment, cut: Cut) -> None:
    look, hem = sheet.look, cut.hem
    if has_sleeves(garment):
        right = sleeve_of(garment, cut)
        for sleeve in (right, mirror(right)):
            sheet.add(sleeve)
            sheet.line(sleeve, width=1.1, close=True)
            if "trim" in garment.details:
                sheet.line(sleeve[-3:-1] if len(sleeve) == 4 else sleeve[2:4], look.second, 5.0)
    body = body_of(cut)
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
            strap = box(x - 1, cut.top, x + 1, cut.armpit[1])
            sheet.patch(strap, blend(look.main, look.line, 0.35))


def _draw_hem(sheet: Sheet, cut: Cut, lace: bool) -> None:
    """Draw a frill of wide scallops in the garment's colour, or a lace border of small light scallops."""
    step = 3.2 if lace else 5.6
    depth = 3.0 if lace else 6.0
    number = max(2, round(2 * cut.hem[0] / step))
    step = 2 * cut.hem[0] / number
    colour = blend(
        sheet.look.main, WHITE if sum(sheet.look.main) < 620 else (150, 120, 110), 0.6 if lace else 0.2
    )
    band = box(-cut.hem[0], cut.hem[1] - depth, cut.hem[0], cut.hem[1] + 2)
    sheet.fill(band, colour)
    sheet.line(band[:2], width=0.8)
    for place in range(number):
        x = -cut.hem[0] + step * (place + 0.5)
        ring = half_ellipse(x, cut.hem[1] + 0.5, step / 2, step * 0.6)
        sheet.patch(ring, colour)
        sheet.line(ring, width=0.8)
        if lace:
            sheet.dot(x, cut.hem[1] - 0.4, 0.9, sheet.look.line)
        else:
            sheet.line([(x + step / 2, cut.hem[1] - depth), (x + step / 2, cut.hem[1] + 1)], width=0.8)


def _draw_neckline(sheet: Sheet, garment: Garment, cut: Cut) -> None:
    look, top, neck = sheet.look, cut.top, cut.neck
    edge = look.second if "trim" in garment.details else look.line
    width = 3.6 if "trim" in garment.details else 1.2
    dress = garment.category == "dresses"
    if cut.bare:
        top, neck = cut.armpit[1] - 2.4, cut.neck + 1
    if garment.neckline == "round":
        hole = half_ellipse(0, top - 0.5, neck, neck * 0.95)
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
        shape = box(-neck * 0.95, top - 6.5, neck * 0.95, top + 1.5)
        sheet.patch(shape, edge if "trim" in garment.details else look.main)
        sheet.line(shape, width=1.1, close=True)
        sheet.line([(-neck * 0.9, top - 3), (neck * 0.9, top - 3)], width=0.7)
    if garment.neckline == "collar":
        flap = [
            (neck * 0.62, top - 2.6),
            (neck * 1.25, top + 2),
            (neck * 1.1, top + neck * 1.35),
            (0.4, top + neck),
        ]
        for shape in (flap, mirror(flap)):
            sheet.patch(shape, edge if "trim" in garment.details else blend(look.main, look.line, 0.18))
            sheet.line(shape, width=1.1, close=True)


def _draw_front(sheet: Sheet, garment: Garment, cut: Cut) -> None:
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
        _draw_pocket(sheet, box(left, top, left + 8.5, top + 9.5))
    if "pockets" in garment.details:
        for x in (-9.6, 3.4):
            _draw_pocket(sheet, box(x, 43, x + 6.2, 50))
    if garment.motif:
        draw_motif(
            sheet,
            garment.motif,
            max(cut.armpit[1] + (6 if not dress else 4), start + 8),
            7.0 if dress else 9.0,
        )
    if "belt" in garment.details:
        belt = look.second if garment.pattern != "color block" else look.line
        buckle = COLOURS["yellow" if garment.second != "yellow" else "black"]
        sheet.fill(box(-30, cut.waist[1] - 2, 30, cut.waist[1] + 2.4), belt)
        sheet.fill(box(-2.4, cut.waist[1] - 2, 2.4, cut.waist[1] + 2.4), buckle)
        sheet.fill(box(-1.2, cut.waist[1] - 0.9, 1.2, cut.waist[1] + 1.3), belt)
    if "bow" in garment.details:
        _draw_bow(sheet, start + 1.5, wing=6.0 if dress else 7.5)


def _draw_bow(sheet: Sheet, y: float, wing: float) -> None:
    colour = sheet.look.second
    loop = [(0, y), (wing, y - wing * 0.6), (wing, y + wing * 0.6)]
    end = [(0, y), (wing * 0.7, y + wing * 1.3), (wing * 0.2, y + wing * 1.4)]
    for shape in (loop, mirror(loop), end, mirror(end)):
        sheet.patch(shape, colour)
        sheet.line(shape, blend(colour, sheet.look.line, 0.7), 0.7, close=True)
    sheet.dot(0, y, 1.8, colour)


def _draw_closure(sheet: Sheet, closure: str, start: float, hem: float) -> None:
    look = sheet.look
    end = start + (hem - start) * 0.36 if closure == "half buttons" else hem + 1.5
    if closure == "zipper":
        light = sum(look.main) < 330
        sheet.fill(box(-1.8, start, 1.8, end), (172, 174, 180) if light else COLOURS["black"])
        sheet.line([(0, start), (0, end)], COLOURS["black"] if light else WHITE, 0.8)
        sheet.fill(box(-1.4, start + 1.5, 1.4, start + 6), COLOURS["yellow"])
    elif closure:
        sheet.fill(box(-2.6, start, 2.6, end), blend(look.main, look.line, 0.12))
        sheet.line(box(-2.6, start, 2.6, end), width=0.8, close=closure == "half buttons")
        sheet.line([(-2.6, end), (-2.6, start)], width=0.8)
        button = COLOURS["white"] if sum(look.main) < 560 else COLOURS["black"]
        number = max(2, int((end - start) / 7.5))
        for place in range(number):
            sheet.dot(0, start + (end - start) * (place + 0.5) / number, 1.3, button)


def _draw_pocket(sheet: Sheet, shape: list[Point]) -> None:
    sheet.fill(shape, blend(sheet.look.main, sheet.look.line, 0.2))
    sheet.line(shape, width=1.0, close=True)
    sheet.line([(shape[0][0], shape[0][1] + 2), (shape[1][0], shape[1][1] + 2)], width=0.8)
