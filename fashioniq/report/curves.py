"""Learning curves of the attribute predictor and of the captioner, from the lines of metrics.csv."""

import csv
import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fashioniq.files import UserError, atomic_write, explaining

_TEXT_INK, _SOFT = "#1d1d1b", "#62605a"
_BLUE, _ORANGE, _GREEN = "#2a62c4", "#b8420f", "#0f7565"  # as in style.css
_TYPE_COLOURS = {"texture": _BLUE, "fabric": _ORANGE, "shape": _GREEN, "part": "#8a4fb0", "style": "#a67c00"}
_OF_CAPTIONS = {
    "val_P": ("P of the judge", _BLUE),
    "val_R@10": ("R@10 of the judge", _ORANGE),
    "val_true": ("true", _GREEN),
}


OF_ATTRIBUTES = ("epoch", "train_loss", "val_loss", "val_mAP")


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
    lines = [(overlap, "val_BLEU-4", "BLEU-4", _TEXT_INK)]
    lines += [
        (useful, name, label, colour) for name, (label, colour) in _OF_CAPTIONS.items() if name in rows[-1]
    ]
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
    _save(figure, path)


def _draw(axes: Axes, rows: Sequence[dict[str, float]], name: str, label: str, colour: str) -> None:
    values = [row.get(name, math.nan) for row in rows]
    epochs = [row["epoch"] for row in rows]
    axes.plot(epochs, values, color=colour, marker="o", markersize=4, linewidth=2, label=label)


def _save(figure: Figure, path: Path) -> None:
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
