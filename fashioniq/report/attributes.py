"""Contact sheet of an attribute training: pictures with their true and predicted words."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageOps

from fashioniq.report.sheet import GAP, INK, SOFT, fitting, font, write_sheet

_LINE, _GREEN = "#dedbd3", "#0f7565"  # as in style.css
_SIDE = 176  # pixels of a picture
_TEXT = 128  # pixels of a column of words
_ROW = 18  # pixels of a line of words


class Cell(NamedTuple):
    """A picture, its true words, and the predicted words, most likely first."""

    image: Image.Image
    true: list[str]
    predicted: list[str]


def write_contact_sheet(path: Path, title: str, cells: Sequence[Cell]) -> None:
    """Write a JPEG of pictures with their words; correct predictions are marked."""
    write_sheet(path, title, cells, _draw_cell, columns=3, size=(_SIDE + 2 * (GAP + _TEXT), _SIDE))


def _draw_cell(sheet: Image.Image, draw: ImageDraw.ImageDraw, corner: tuple[int, int], cell: Cell) -> None:
    left, top = corner
    sheet.paste(ImageOps.pad(cell.image, (_SIDE, _SIDE), color="white"), corner)
    draw.rectangle((left, top, left + _SIDE - 1, top + _SIDE - 1), outline=_LINE)
    found = set(cell.true) & set(cell.predicted)
    _list_words(draw, left + _SIDE + GAP, top, "true", cell.true, marked=found, ink=INK)
    _list_words(
        draw, left + _SIDE + 2 * GAP + _TEXT, top, "predicted", cell.predicted, marked=found, ink=SOFT
    )


def _list_words(
    draw: ImageDraw.ImageDraw,
    left: int,
    top: int,
    head: str,
    words: Sequence[str],
    marked: set[str],
    ink: str,
) -> None:
    draw.text((left, top + _ROW / 2), head, SOFT, font(12), "lm")
    room = _SIDE // _ROW - 1
    shown = list(words) if len(words) <= room else [*words[: room - 1], f"and {len(words) - room + 1} more"]
    for number, word in enumerate(shown, start=1):
        right = word in marked
        middle = top + number * _ROW + _ROW / 2
        if right:
            draw.text((left, middle), "✓", _GREEN, font(12, True), "lm")
        letters = font(12, right)
        draw.text(
            (left + 15, middle),
            fitting(draw, word, letters, _TEXT - 15),
            _GREEN if right else ink,
            letters,
            "lm",
        )


def ten_of(words: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ten best and ten worst words by average precision; no word is in both lists."""
    ordered = sorted((word for word in words if word["AP"] is not None), key=lambda word: -word["AP"])
    best = ordered[: min(10, -(-len(ordered) // 2))]
    return best, ordered[len(best) :][:-11:-1]
