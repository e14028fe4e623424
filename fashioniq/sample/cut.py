"""Outlines of garments."""

from dataclasses import dataclass

from fashioniq.sample.garments import Garment
from fashioniq.sample.sheet import (
    Point,
    both_sides,
)


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
    return both_sides([*above, cut.armpit, *cut.side, (cut.hem[0] / 2, cut.hem[1] + 1.6)])


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
