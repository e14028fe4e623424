"""Plots for the pages: inline SVG with the colours and font of the page, and histograms as tables."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any, NamedTuple

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Matplotlib draws in placeholder colours, which _for_page replaces by those of the page, light or dark.
_INK, _FIRST, _SECOND, _THIRD = "#010203", "#010204", "#010205", "#010206"
_PAGE_COLOURS = {
    _INK: "currentColor",
    _FIRST: "var(--first, #2a62c4)",
    _SECOND: "var(--second, #c2410c)",
    _THIRD: "var(--third, #0f7b6c)",
}
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "fashioniq", "font.size": 10, "text.color": _INK}
_RANK_STEPS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)
_SIZE = 4.7, 3.1  # inches; at 72 units per inch, text of size 10 is 10 pixels high on a phone
_LABEL = 20  # characters of a name beside its line, which takes its place from the plot
_LABEL_GAP = 7.0  # minimum distance of two labels in percent


class Plot(NamedTuple):
    """A drawing: its viewBox, its description for screen readers, and its shapes as SVG."""

    box: str
    description: str
    shapes: Markup


class _Line(NamedTuple):
    name: str
    turns: list[int]
    values: list[float]
    colour: str
    marker: str
    dash: str = "-"


def turn_plot(turns: Sequence[Mapping[str, Any]]) -> Plot:
    """Line plot of P, R@50 and R@10 in percent over the turns. A measure missing in any turn is left out."""
    styles = (("P", _FIRST, "o"), ("R@50", _THIRD, "s"), ("R@10", _SECOND, "^"))
    return _turns_plot([("", key, turns, style) for key, *style in styles])


def versus_plot(first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]]) -> Plot:
    """Line plot of P and R@10 in percent over the turns of two runs, A solid and B dashed."""
    runs = ("A ", first, _FIRST, "-"), ("B ", second, _SECOND, "--")
    return _turns_plot(
        [
            (run, key, turns, [colour, marker, dash])
            for key, marker in (("P", "o"), ("R@10", "^"))
            for run, turns, colour, dash in runs
        ]
    )


def rounds_plot(rounds: Mapping[str, Sequence[float]], first: int = 0, unit: str = "round") -> Plot:
    """Line plot of percent over the rounds, counted from `first`, with one line per name."""
    styles = [
        (colour, marker, dash)
        for dash in ("-", "--", ":")
        for colour, marker in ((_FIRST, "o"), (_SECOND, "^"), (_THIRD, "s"))
    ]
    lines = [
        _Line(name, list(range(first, first + len(values))), [*values], *style)
        for (name, values), style in zip(rounds.items(), cycle(styles), strict=False)
    ]
    return _line_plot(lines, unit)


def _turns_plot(lines: Sequence[tuple[str, str, Sequence[Mapping[str, Any]], Sequence[str]]]) -> Plot:
    """Line plot of a measure of each run, with its style, where all turns have it."""
    return _line_plot(
        [
            _Line(run + key, [turn["turn"] for turn in turns], [turn[key] for turn in turns], *style)
            for run, key, turns, style in lines
            if turns and all(key in turn for turn in turns)
        ]
    )


def _line_plot(lines: Sequence[_Line], unit: str = "turn") -> Plot:
    def draw(axes: Axes) -> None:
        for line in lines:
            axes.plot(
                line.turns,
                line.values,
                line.dash,
                color=line.colour,
                marker=line.marker,
                markersize=5,
                linewidth=2,
                clip_on=False,
            )
        for line, height in zip(lines, _spread([line.values[-1] for line in lines]), strict=True):
            name = line.name if len(line.name) <= _LABEL else f"…{line.name[1 - _LABEL :]}"
            axes.annotate(
                f"{name}  {line.values[-1]:.2f}",
                (line.turns[-1], height),
                (9, 0),
                textcoords="offset points",
                color=line.colour,
                va="center",
            )
        axes.set(ylim=(0, 100), xlabel=unit, ylabel="percent")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10, min_n_ticks=1))
        axes.grid(axis="y", color=_INK, alpha=0.14, linewidth=0.8)

    values = "; ".join(
        f"{line.name}: " + ", ".join(f"{value:.2f}" for value in line.values) for line in lines
    )
    return _svg("turns", f"Line plot of percent after each {unit}. {values}", draw)


def interval_plot(points: Sequence[tuple[int, float, float]], name: str) -> Plot:
    """Line plot of a value over a count, with its interval: (count, value, half of the interval)."""
    counts, values, halves = zip(*points, strict=True)

    def draw(axes: Axes) -> None:
        low, high = (
            [value + sign * half for value, half in zip(values, halves, strict=True)] for sign in (-1, 1)
        )
        axes.fill_between(counts, low, high, color=_FIRST, alpha=0.2, linewidth=0)
        only = len(counts) == 1  # a line of one point would not be seen
        axes.errorbar(
            counts,
            values,
            halves if only else None,
            color=_FIRST,
            marker="o" if only else None,
            linewidth=2,
        )
        axes.axhline(0, color=_INK, alpha=0.6, linewidth=0.8)
        axes.set(xlabel="conversations", ylabel="difference")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))

    count, value, half = points[-1]
    text = f"Line plot of the difference over conversations. After {count}: {value:.3f} ± {half:.3f}"
    return _svg(name, text, draw)


class BarRow(NamedTuple):
    """A range of positions, and per column the number of dialogs with the target there; `near`: in the top
    ten.
    """

    positions: str
    near: bool
    counts: list[int]


class Bars(NamedTuple):
    """A histogram as a table: its columns, its rows, and its largest count."""

    columns: list[str]
    rows: list[BarRow]
    most: int


def rank_histograms(columns: Mapping[str, Sequence[int]], gallery: int) -> Bars:
    """Histogram of dialogs by position of the target, one column per name.

    Ranks start at 0, positions at 1.
    """
    last = max([gallery, *(rank + 1 for ranks in columns.values() for rank in ranks)])
    ends = [step for step in _RANK_STEPS if step < last] + [last]
    starts = [1, *(end + 1 for end in ends[:-1])]
    rows = [
        BarRow(
            f"{start:,}" if start == end else f"{start:,}–{end:,}",
            end <= 10,
            [sum(start <= rank + 1 <= end for rank in ranks) for ranks in columns.values()],
        )
        for start, end in zip(starts, ends, strict=True)
    ]
    return Bars(list(columns), rows, max([1, *(count for row in rows for count in row.counts)]))


def _spread(heights: Sequence[float]) -> list[float]:
    """Move overlapping labels apart within the plot; other labels keep their position."""
    order = sorted(range(len(heights)), key=lambda index: heights[index])
    moved = list(heights)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + _LABEL_GAP)
    ceiling = 100.0
    for index in reversed(order):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - _LABEL_GAP
    return moved


def _svg(name: str, description: str, draw: Callable[[Axes], None]) -> Plot:
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=_SIZE, layout="constrained")
        axes = figure.add_subplot()
        axes.patch.set_visible(False)
        axes.tick_params(colors=_INK, length=0, pad=5)
        axes.xaxis.label.set_color(_INK)
        axes.yaxis.label.set_color(_INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set(color=_INK, alpha=0.4)
        draw(axes)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_page(drawn.getvalue(), name, description)


def _for_page(text: str, name: str, description: str) -> Plot:
    """Keep only the shapes, prefix their ids with `name`, and use the colours and font of the page."""
    text = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL
    )
    box, *_ = re.findall(r'viewBox="([^"]+)"', text)
    inside = text[text.index(">") + 1 :].replace("xlink:href=", "href=")
    inside = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", inside)
    inside = re.sub(r"font-family: [^;\"]+;? ?", "", inside)
    for fixed, ours in _PAGE_COLOURS.items():
        inside = inside.replace(fixed, ours)
    return Plot(box, description, Markup(inside.strip().removesuffix("</svg>")))
