"""Plots of an attribute training: learning curves, and a contact sheet of true and predicted words."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from PIL import Image, ImageDraw, ImageFont, ImageOps

from fashioniq.files import atomic_write

_TEXT_INK, _SOFT, _LINE, _PAPER = "#1d1d1b", "#62605a", "#dedbd3", "#f6f5f2"
_BLUE, _ORANGE, _GREEN = "#2a62c4", "#b8420f", "#0f7565"  # as in style.css
_TYPE_COLOURS = {"texture": _BLUE, "fabric": _ORANGE, "shape": _GREEN, "part": "#8a4fb0", "style": "#a67c00"}


def write_curves(path: Path, rows: Sequence[dict[str, float]], chance: float) -> None:
    """Write a PNG of losses and mean average precision by epoch.

    `rows` are the lines of metrics.csv; `chance` is the chance level in percent.
    """
    epochs = [row["epoch"] for row in rows]
    best = max(rows, key=lambda row: row["val_mAP"])
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    losses, precisions = figure.subplots(1, 2)
    for name, label, colour in (("train_loss", "train", _BLUE), ("val_loss", "val", _ORANGE)):
        losses.plot(
            epochs,
            [row[name] for row in rows],
            color=colour,
            marker="o",
            markersize=4,
            linewidth=2,
            label=f"{label}  {rows[-1][name]:.3g}",
        )
    styles = {"val_mAP": {"color": _TEXT_INK, "marker": "o", "markersize": 4, "linewidth": 2.4}}
    styles |= {
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
        markeredgecolor=_TEXT_INK,
        markersize=11,
        label=f"best  {best['val_mAP']:.1f}",
    )
    precisions.axhline(
        chance, color=_SOFT, linewidth=1.2, linestyle=(0, (3, 3)), label=f"chance  {chance:.1f}"
    )
    _style(losses, "loss")
    _style(precisions, "mean average precision on val, percent")
    precisions.set_ylim(bottom=0)
    with atomic_write(path) as temporary, matplotlib.rc_context({"font.size": 10}):
        figure.savefig(temporary, dpi=144, format="png", facecolor="white", metadata={"Software": None})


def _style(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", color=_TEXT_INK, fontsize=11)
    axes.set_xlabel("epoch", color=_TEXT_INK)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
    axes.grid(axis="y", color=_TEXT_INK, alpha=0.14, linewidth=0.8)
    axes.tick_params(colors=_TEXT_INK, length=0, pad=5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set(color=_TEXT_INK, alpha=0.4)
    axes.legend(frameon=False, labelcolor=_TEXT_INK, loc="center left", bbox_to_anchor=(1.0, 0.5))


class Cell(NamedTuple):
    """A picture, its true words, and the predicted words, most likely first."""

    image: Image.Image
    true: list[str]
    predicted: list[str]


# pixels: picture side, gap, line height, column width
_CELLS_PER_ROW, _SIDE, _GAP, _ROW, _TEXT = 3, 176, 14, 18, 128
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
        _fitting(draw, title, _font(15, True), sheet.width - 2 * _GAP),
        _TEXT_INK,
        _font(15, True),
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
    _list_words(draw, left + _SIDE + 2 * _GAP + _TEXT, top, "predicted", cell.predicted, marked=found, ink=_SOFT)


def _list_words(
    draw: ImageDraw.ImageDraw,
    left: int,
    top: int,
    head: str,
    words: Sequence[str],
    marked: set[str],
    ink: str,
) -> None:
    draw.text((left, top + _ROW / 2), head, _SOFT, _font(12), "lm")
    room = _SIDE // _ROW - 1
    shown = list(words) if len(words) <= room else [*words[: room - 1], f"and {len(words) - room + 1} more"]
    for number, word in enumerate(shown, start=1):
        right = word in marked
        middle = top + number * _ROW + _ROW / 2
        if right:
            draw.text((left, middle), "✓", _GREEN, _font(12, True), "lm")
        font = _font(12, right)
        draw.text(
            (left + 15, middle), _fitting(draw, word, font, _TEXT - 15), _GREEN if right else ink, font, "lm"
        )


@cache
def _font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """Font that is part of Matplotlib."""
    return ImageFont.truetype(
        Path(matplotlib.get_data_path()) / "fonts/ttf" / f"DejaVuSans{'-Bold' if bold else ''}.ttf", size
    )


def _fitting(draw: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont, width: float) -> str:
    text = " ".join(text.split())
    if draw.textlength(text, font) <= width:
        return text
    while text and draw.textlength(text + "…", font) > width:
        text = text[:-1]
    return text + "…"


def ten_of(words: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Ten best and ten worst words by average precision; no word is in both lists."""
    ordered = sorted((word for word in words if word["AP"] is not None), key=lambda word: -word["AP"])
    best = ordered[: min(10, -(-len(ordered) // 2))]
    return best, ordered[len(best) :][:-11:-1]
