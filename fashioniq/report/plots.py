"""Plots for the pages: inline SVG that takes its colours and font from the page, and histograms as tables."""

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

# Matplotlib draws with these fixed colours, which then become the page's: one plot suits light and dark.
_INK, _FIRST, _SECOND, _THIRD = "#010203", "#010204", "#010205", "#010206"
_PAGE_COLOURS = {
    _INK: "currentColor",
    _FIRST: "var(--first, #2a62c4)",
    _SECOND: "var(--second, #c2410c)",
    _THIRD: "var(--third, #0f7b6c)",
}
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "fashioniq", "font.size": 10, "text.color": _INK}
_RANK_STEPS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)
_WIDTH = 4.7  # inches of 72 units: text of size 10 is 10 pixels high on a phone
_LABEL_GAP = 7.0  # percent between the labels of two lines


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


def turn_plot(turns: Sequence[dict[str, Any]]) -> Plot:
    """P, R@50 and R@10 in percent over the turns. A measure that some turn lacks is left out."""
    styles = (("P", _FIRST, "o"), ("R@50", _THIRD, "s"), ("R@10", _SECOND, "^"))
    return _line_plot([line for key, colour, marker in styles for line in _line(key, turns, colour, marker)])


def versus_plot(first: Sequence[dict[str, Any]], second: Sequence[dict[str, Any]]) -> Plot:
    """P and R@10 in percent over the turns of two runs, A solid and B dashed."""
    lines: list[_Line] = []
    for key, marker in (("P", "o"), ("R@10", "^")):
        lines += _line(key, first, _FIRST, marker, "A") + _line(key, second, _SECOND, marker, "B", "--")
    return _line_plot(lines)


def rounds_plot(rounds: Mapping[str, Sequence[float]]) -> Plot:
    """Percent over the rounds, counted from 0, one line per name."""
    styles = [
        (colour, marker, dash)
        for dash in ("-", "--", ":")
        for colour, marker in ((_FIRST, "o"), (_SECOND, "^"), (_THIRD, "s"))
    ]
    lines = [
        _Line(name, list(range(len(values))), [*values], *style)
        for (name, values), style in zip(rounds.items(), cycle(styles), strict=False)
    ]
    return _line_plot(lines, "round")


def _line(
    key: str, turns: Sequence[dict[str, Any]], colour: str, marker: str, run: str = "", dash: str = "-"
) -> list[_Line]:
    if not turns or not all(key in turn for turn in turns):
        return []
    return [
        _Line(
            f"{run} {key}".strip(),
            [turn["turn"] for turn in turns],
            [turn[key] for turn in turns],
            colour,
            marker,
            dash,
        )
    ]


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
            text = f"{line.name}  {line.values[-1]:.2f}"
            axes.annotate(
                text,
                (line.turns[-1], height),
                (9, 0),
                textcoords="offset points",
                color=line.colour,
                va="center",
            )
        axes.set(ylim=(0, 100), xlabel=unit, ylabel="percent")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
        axes.grid(axis="y", color=_INK, alpha=0.14, linewidth=0.8)

    values = "; ".join(
        f"{line.name}: " + ", ".join(f"{value:.2f}" for value in line.values) for line in lines
    )
    return _svg("turns", f"Line plot of percent after each {unit}. {values}", 3.1, draw)


class BarRow(NamedTuple):
    """A range of positions and the number of dialogs per column with the target there; `near`: the top ten."""

    positions: str
    near: bool
    counts: list[int]


class Bars(NamedTuple):
    """A histogram as a table: its columns, its rows, and its largest count."""

    columns: list[str]
    rows: list[BarRow]
    most: int


def rank_histograms(columns: Mapping[str, Sequence[int]], gallery: int) -> Bars:
    """Number of dialogs by position of the target, one column per name. Ranks start at 0, positions at 1."""
    last = max([gallery, *(rank + 1 for ranks in columns.values() for rank in ranks)])
    ends = [step for step in _RANK_STEPS if step < last] + [last]
    starts = [1, *(end + 1 for end in ends[:-1])]
    rows = []
    for start, end in zip(starts, ends, strict=True):
        counts = [sum(start <= rank + 1 <= end for rank in ranks) for ranks in columns.values()]
        rows.append(BarRow(f"{start:,}" if start == end else f"{start:,}–{end:,}", end <= 10, counts))
    return Bars(list(columns), rows, max([1, *(count for row in rows for count in row.counts)]))


def _spread(heights: Sequence[float]) -> list[float]:
    """Move overlapping labels apart, within the plot; the others stay."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    moved = list(heights)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + _LABEL_GAP)
    ceiling = 100.0
    for place in reversed(order):
        moved[place] = min(moved[place], ceiling)
        ceiling = moved[place] - _LABEL_GAP
    return moved


def _svg(name: str, description: str, height: float, draw: Callable[[Axes], None]) -> Plot:
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
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
    """Keep the shapes alone, prefix their ids with `name`, and take colours and font from the page."""
    text = re.sub(
        r"<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL
    )
    box = re.search(r'viewBox="([^"]+)"', text)
    inside = text[text.index(">") + 1 :].replace("xlink:href=", "href=")
    inside = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", inside)
    inside = re.sub(r"font-family: [^;\"]+;? ?", "", inside)
    for fixed, ours in _PAGE_COLOURS.items():
        inside = inside.replace(fixed, ours)
    assert box is not None, "Matplotlib writes a viewBox"
    return Plot(box[1], description, Markup(inside.strip().removesuffix("</svg>")))
