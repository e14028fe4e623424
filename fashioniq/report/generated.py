"""Contact sheet of a generator: real and generated pictures side by side, with the words asked for."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

from fashioniq.data.prompts import GeneratedPair
from fashioniq.report.sheet import SOFT, fitting, font, write_sheet

_SIDE = 128  # pixels of a picture
_ROW = 16  # pixels of a line of words
_ROWS = 3  # lines of words


def write_pairs(path: Path, title: str, pairs: Sequence[GeneratedPair]) -> None:
    """Write a PNG with a real picture, the generated one to its right, and the words below."""
    write_sheet(path, title, pairs, _draw_pair, columns=4, size=(2 * _SIDE, _SIDE + _ROWS * _ROW))


def _draw_pair(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, corner: tuple[int, int], pair: GeneratedPair
) -> None:
    left, top = corner
    for place, picture in enumerate((pair.real, pair.generated)):
        if picture:
            size = (_SIDE, _SIDE)
            sheet.paste(picture.resize(size, Image.Resampling.LANCZOS), (left + place * _SIDE, top))
    for line, text in enumerate(_lines(draw, pair.words, 2 * _SIDE)):
        draw.text((left, top + _SIDE + line * _ROW + _ROW / 2), text, SOFT, font(11), "lm")


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
