"""Plots of trainings: learning curves of the attribute predictor and of the captioner, from the lines of metrics.csv,
and contact sheets of an attribute training and of a generator, a title above a grid of pictures with words.
"""

import csv
import math
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image, ImageDraw, ImageFont, ImageOps

from fashioniq.data.prompts import GeneratedPair
from fashioniq.files import UserError, atomic_write, explaining

_INK, _SOFT, _PAPER, _LINE = "#1d1d1b", "#62605a", "#f6f5f2", "#dedbd3"  # as in style.css
_BLUE, _ORANGE, _GREEN = "#2a62c4", "#b8420f", "#0f7565"
GAP = 14  # pixels between cells
_HEAD = 44  # pixels: height of the title
_SIDE = 176  # pixels of a picture with its attributes
_TEXT = 128  # pixels of a column of words
_ROW = 18  # pixels of a line of words
_PAIR = 128  # pixels of a real or generated picture
_HEIGHT = 16  # pixels of a line of its words
_LINES = 3  # lines of its words
_TYPE_COLOURS = {"texture": _BLUE, "fabric": _ORANGE, "shape": _GREEN, "part": "#8a4fb0", "style": "#a67c00"}
_OF_CAPTIONS = {
    "val_P": ("P of the judge", _BLUE),
    "val_R@10": ("R@10 of the judge", _ORANGE),
    "val_true": ("true", _GREEN),
}
OF_ATTRIBUTES = ("epoch", "train_loss", "val_loss", "val_mAP")

T = TypeVar("T")
DrawCell = Callable[[Image.Image, ImageDraw.ImageDraw, tuple[int, int], T], None]


def read_epochs(run: Path, needed: Sequence[str] = ("epoch",)) -> list[dict[str, float]]:
    """Read the lines of a run's metrics.csv, one per epoch; empty fields are left out.

    Raises UserError if it is damaged or lacks the columns `needed`.
    """
    path = run / "metrics.csv"
    with (
        explaining(
            f"{path} is damaged",
            "; the model is complete, its plot is not",
            (OSError, TypeError, ValueError, csv.Error),
        ),
        open(path, encoding="utf-8", newline="") as file,
    ):
        rows = [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]
    if not rows or any(name not in row for row in rows for name in needed):
        raise UserError(f"{path} lacks {', '.join(needed)}; the model is complete, its plot is not")
    return rows


def write_captioner_curves(path: Path, rows: Sequence[dict[str, float]]) -> None:
    """Write a PNG by epoch: BLEU-4, and beside it what BLEU does not measure.

    That is how well a linear retriever fitted to the recorded captions finds the target by those of the captioner,
    and the share of the statements that hold by the labels, if there are any.
    """
    best = max(rows, key=lambda row: row.get("val_score", row.get("val_P", -math.inf)))["epoch"]
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    overlap, useful = figure.subplots(1, 2)
    known = [(name, *of) for name, of in _OF_CAPTIONS.items() if name in rows[-1]]
    lines = [(overlap, "val_BLEU-4", "BLEU-4", _INK), *((useful, *one) for one in known)]
    for axes, name, label, colour in lines:
        _draw(axes, rows, name, f"{label}  {rows[-1].get(name, math.nan):.1f}", colour)
    for axes, title in (
        (overlap, "overlap with recorded captions"),
        (useful, "informative and true, percent"),
    ):
        axes.axvline(best, color=_SOFT, linewidth=1.2, linestyle=(0, (3, 3)), label=f"kept  {best:.0f}")
        _style(axes, title)
        axes.set_ylim(bottom=0)
    _save(figure, path)


def write_attribute_curves(path: Path, rows: Sequence[dict[str, float]], chance: float) -> None:
    """Write a PNG of losses and mean average precision by epoch.

    `rows` are the lines of metrics.csv; `chance` is the chance level in percent.
    """
    epochs = [row["epoch"] for row in rows]
    best = max(rows, key=lambda row: row["val_mAP"])
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    losses, precisions = figure.subplots(1, 2)
    for name, label, colour in (("train_loss", "train", _BLUE), ("val_loss", "val", _ORANGE)):
        _draw(losses, rows, name, f"{label}  {rows[-1][name]:.3g}", colour)
    styles = {"val_mAP": {"color": _INK, "marker": "o", "markersize": 4, "linewidth": 2.4}} | {
        f"val_mAP_{kind}": {"color": colour, "linewidth": 1.4} for kind, colour in _TYPE_COLOURS.items()
    }
    for name in sorted(
        styles.keys() & rows[-1].keys(), key=lambda name: -rows[-1][name]
    ):  # the legend is sorted by final value
        label = name.removeprefix("val_mAP_") if name != "val_mAP" else "all"
        precisions.plot(
            epochs, [row[name] for row in rows], label=f"{label}  {rows[-1][name]:.1f}", **styles[name]
        )
    precisions.plot(
        best["epoch"],
        best["val_mAP"],
        "o",
        color="none",
        markeredgecolor=_INK,
        markersize=11,
        label=f"best  {best['val_mAP']:.1f}",
    )
    precisions.axhline(
        chance, color=_SOFT, linewidth=1.2, linestyle=(0, (3, 3)), label=f"chance  {chance:.1f}"
    )
    _style(losses, "loss")
    _style(precisions, "mean average precision on val, percent")
    precisions.set_ylim(bottom=0)
    _save(figure, path)


def _draw(axes: Axes, rows: Sequence[dict[str, float]], name: str, label: str, colour: str) -> None:
    values = [row.get(name, math.nan) for row in rows]
    epochs = [row["epoch"] for row in rows]
    axes.plot(epochs, values, color=colour, marker="o", markersize=4, linewidth=2, label=label)


def _save(figure: Figure, path: Path) -> None:
    with atomic_write(path) as temporary, matplotlib.rc_context({"font.size": 10}):
        figure.savefig(temporary, dpi=144, format="png", facecolor="white", metadata={"Software": None})


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=_INK, fontsize=11)
    axes.set_xlabel("epoch", color=_INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    axes.grid(axis="y", color=_INK, alpha=0.14, linewidth=0.8)
    axes.tick_params(colors=_INK, length=0, pad=5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=_INK, alpha=0.4)
    axes.legend(frameon=False, labelcolor=_INK, loc="center left", bbox_to_anchor=(1.0, 0.5))


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
    sheet = Image.new("RGB", (GAP + columns * width, _HEAD + rows * height), _PAPER)
    draw, letters = ImageDraw.Draw(sheet), font(15, True)
    draw.text((GAP, _HEAD / 2), fitting(draw, title, letters, sheet.width - 2 * GAP), _INK, letters, "lm")
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
    _list_words(draw, left + _SIDE + GAP, top, "true", cell.true, marked=found, ink=_INK)
    _list_words(
        draw, left + _SIDE + 2 * GAP + _TEXT, top, "predicted", cell.predicted, marked=found, ink=_SOFT
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


def write_pairs(path: Path, title: str, pairs: Sequence[GeneratedPair]) -> None:
    """Write a PNG with a real picture, the generated one to its right, and the words below."""
    write_sheet(path, title, pairs, _draw_pair, columns=4, size=(2 * _PAIR, _PAIR + _LINES * _HEIGHT))


def _draw_pair(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, corner: tuple[int, int], pair: GeneratedPair
) -> None:
    left, top = corner
    for place, picture in enumerate((pair.real, pair.generated)):
        if picture:
            sheet.paste(picture.resize((_PAIR, _PAIR), Image.Resampling.LANCZOS), (left + place * _PAIR, top))
    for line, text in enumerate(_lines(draw, pair.words, 2 * _PAIR)):
        draw.text((left, top + _PAIR + line * _HEIGHT + _HEIGHT / 2), text, _SOFT, font(11), "lm")


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
