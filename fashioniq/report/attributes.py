"""Contact sheet of an attribute training: pictures with their true and predicted words."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from PIL import Image, ImageDraw, ImageFont, ImageOps

from fashioniq.files import atomic_write

_TEXT_INK, _SOFT, _LINE, _PAPER = "#1d1d1b", "#62605a", "#dedbd3", "#f6f5f2"
_GREEN = "#0f7565"  # as in style.css


class Cell(NamedTuple):
    """A picture, its true words, and the predicted words, most likely first."""

    image: Image.Image
    true: list[str]
    predicted: list[str]


_CELLS_PER_ROW, _SIDE, _GAP, _ROW, _TEXT = (
    3,
    176,
    14,
    18,
    128,
)  # pixels: picture side, gap, line height, column width
_HEAD = 44  # pixels: height of the title


def write_contact_sheet(path: Path, title: str, cells: Sequence[Cell]) -> None:
    """Write a JPEG of pictures with their words; correct predictions are marked."""
    width = _SIDE + 2 * (_GAP + _TEXT)
    rows = -(-len(cells) // _CELLS_PER_ROW)
    columns = min(_CELLS_PER_ROW, len(cells))
    sheet = Image.new("RGB", (_GAP + columns * (width + _GAP), _HEAD + rows * (_SIDE + _GAP)), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text(
        (_GAP, _HEAD / 2),
        fitting(draw, title, font(15, True), sheet.width - 2 * _GAP),
        _TEXT_INK,
        font(15, True),
        "lm",
    )
    for number, cell in enumerate(cells):
        row, column = divmod(number, _CELLS_PER_ROW)
        _draw_cell(sheet, draw, _GAP + column * (width + _GAP), _HEAD + row * (_SIDE + _GAP), cell)
    with atomic_write(path) as temporary:
        sheet.save(temporary, "JPEG", quality=90, subsampling=0)


def _draw_cell(sheet: Image.Image, draw: ImageDraw.ImageDraw, left: int, top: int, cell: Cell) -> None:
    sheet.paste(ImageOps.pad(cell.image, (_SIDE, _SIDE), color="white"), (left, top))
    draw.rectangle((left, top, left + _SIDE - 1, top + _SIDE - 1), outline=_LINE)
    found = set(cell.true) & set(cell.predicted)
    _list_words(draw, left + _SIDE + _GAP, top, "true", cell.true, marked=found, ink=_TEXT_INK)
    _list_words(
        draw, left + _SIDE + 2 * _GAP + _TEXT, top, "predicted", cell.predicted, marked=found, ink=_SOFT
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
    draw.text((left, top + _ROW / 2), head, _SOFT, font(12), "lm")
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


@cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Font that is part of Matplotlib."""
    return ImageFont.truetype(
        Path(matplotlib.get_data_path()) / "fonts/ttf" / f"DejaVuSans{'-Bold' if bold else ''}.ttf", size
    )


def fitting(draw: ImageDraw.ImageDraw, text: str, letters: ImageFont.FreeTypeFont, width: float) -> str:
    """Text on one line, cut to a width in pixels."""
    text = " ".join(text.split())
    if draw.textlength(text, letters) <= width:
        return text
    while text and draw.textlength(text + "…", letters) > width:
        text = text[:-1]
    return text + "…"


def ten_of(words: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ten best and ten worst words by average precision; no word is in both lists."""
    ordered = sorted((word for word in words if word["AP"] is not None), key=lambda word: -word["AP"])
    best = ordered[: min(10, -(-len(ordered) // 2))]
    return best, ordered[len(best) :][:-11:-1]
