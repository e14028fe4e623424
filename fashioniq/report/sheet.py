"""Contact sheets: a title above a grid of pictures with words."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from fashioniq.files import atomic_write

INK, SOFT, PAPER = "#1d1d1b", "#62605a", "#f6f5f2"  # as in style.css
GAP = 14  # pixels between cells
_HEAD = 44  # pixels: height of the title

T = TypeVar("T")
DrawCell = Callable[[Image.Image, ImageDraw.ImageDraw, tuple[int, int], T], None]


def write_sheet(
    path: Path,
    title: str,
    cells: Sequence[T],
    draw_cell: DrawCell[T],
    *,
    columns: int,
    size: tuple[int, int],
) -> None:
    """Write a JPEG or PNG of cells of `size` pixels.

    `draw_cell` is called with the sheet, its drawing surface, the upper left corner of a cell, and the cell.
    """
    columns, rows = min(columns, len(cells)), -(-len(cells) // columns)
    width, height = (side + GAP for side in size)
    sheet = Image.new("RGB", (GAP + columns * width, _HEAD + rows * height), PAPER)
    draw, letters = ImageDraw.Draw(sheet), font(15, True)
    draw.text((GAP, _HEAD / 2), fitting(draw, title, letters, sheet.width - 2 * GAP), INK, letters, "lm")
    for number, cell in enumerate(cells):
        row, column = divmod(number, columns)
        draw_cell(sheet, draw, (GAP + column * width, _HEAD + row * height), cell)
    with atomic_write(path) as temporary:
        sheet.save(temporary, quality=90, subsampling=0)  # of a JPEG


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
