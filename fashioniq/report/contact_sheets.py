"""Contact sheets of an attribute training and of a generator: a title above a grid of pictures with words."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import matplotlib
from PIL import Image, ImageDraw, ImageFont, ImageOps

from fashioniq.data.prompts import GeneratedPair
from fashioniq.files import atomic_write

INK, SOFT, PAPER = "#1d1d1b", "#62605a", "#f6f5f2"  # as in style.css
GAP = 14  # pixels between cells
_HEAD = 44  # pixels: height of the title
_LINE, _GREEN = "#dedbd3", "#0f7565"  # as in style.css
_SIDE = 176  # pixels of a picture with its attributes
_TEXT = 128  # pixels of a column of words
_ROW = 18  # pixels of a line of words
_PAIR = 128  # pixels of a real or generated picture
_HEIGHT = 16  # pixels of a line of its words
_LINES = 3  # lines of its words

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


def write_pairs(path: Path, title: str, pairs: Sequence[GeneratedPair]) -> None:
    """Write a PNG with a real picture, the generated one to its right, and the words below."""
    write_sheet(path, title, pairs, _draw_pair, columns=4, size=(2 * _PAIR, _PAIR + _LINES * _HEIGHT))


def _draw_pair(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, corner: tuple[int, int], pair: GeneratedPair
) -> None:
    left, top = corner
    for place, picture in enumerate((pair.real, pair.generated)):
        if picture:
            size = (_PAIR, _PAIR)
            sheet.paste(picture.resize(size, Image.Resampling.LANCZOS), (left + place * _PAIR, top))
    for line, text in enumerate(_lines(draw, pair.words, 2 * _PAIR)):
        draw.text((left, top + _PAIR + line * _HEIGHT + _HEIGHT / 2), text, SOFT, font(11), "lm")


def _lines(draw: ImageDraw.ImageDraw, words: Sequence[str], width: int) -> list[str]:
    """Words in lines, the last of which is cut."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]}, {word}" if lines[-1] else word
        if len(lines) < _LINES and draw.textlength(longer, font(11)) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fitting(draw, line, font(11), width) for line in lines]
