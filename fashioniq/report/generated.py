"""Contact sheet of a generator: real and generated pictures side by side, with the words asked for."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw

from fashioniq.files import atomic_write
from fashioniq.report.attributes import fitting, font

_INK, _SOFT, _PAPER = "#1d1d1b", "#62605a", "#f6f5f2"  # as in style.css
_SIDE, _GAP, _ROW, _ROWS, _HEAD, _COLUMNS = (
    128,
    14,
    16,
    3,
    44,
    4,
)  # pixels; lines of words; head; pairs per row


class Pair(NamedTuple):
    """Words, the picture of a product that has them, and one that was generated for them (None if it failed)."""

    words: list[str]
    real: Image.Image
    generated: Image.Image | None


def write_pairs(path: Path, title: str, pairs: Sequence[Pair]) -> None:
    """Write a PNG with a real picture, the generated one to its right, and the words below."""
    width, height = 2 * _SIDE, _SIDE + _ROWS * _ROW + _GAP
    rows = -(-len(pairs) // _COLUMNS)
    columns = min(_COLUMNS, len(pairs))
    sheet = Image.new("RGB", (_GAP + columns * (width + _GAP), _HEAD + rows * (height + _GAP)), _PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text(
        (_GAP, _HEAD / 2),
        fitting(draw, title, font(13, True), sheet.width - 2 * _GAP),
        _INK,
        font(13, True),
        "lm",
    )
    for number, pair in enumerate(pairs):
        row, column = divmod(number, _COLUMNS)
        left, top = _GAP + column * (width + _GAP), _HEAD + row * (height + _GAP)
        for place, picture in enumerate((pair.real, pair.generated)):
            if picture:
                size = (_SIDE, _SIDE)
                sheet.paste(picture.resize(size, Image.Resampling.LANCZOS), (left + place * _SIDE, top))
        for line, text in enumerate(_lines(draw, pair.words, width)):
            draw.text((left, top + _SIDE + line * _ROW + _ROW / 2), text, _SOFT, font(11), "lm")
    with atomic_write(path) as temporary:
        sheet.save(temporary, "PNG", optimize=True)


def _lines(draw: ImageDraw.ImageDraw, words: Sequence[str], width: int) -> list[str]:
    """Words in lines, the last of which is cut."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]}, {word}" if lines[-1] else word
        if len(lines) < _ROWS and draw.textlength(longer, font(11)) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fitting(draw, line, font(11), width) for line in lines]
