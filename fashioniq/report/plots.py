"""Plots for the pages, as SVG that stands inside HTML and takes its ink, its font and its colours from the page."""

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

# Matplotlib knows fixed colours only. It draws with these, and they become the page's: that is how one plot suits light and dark.
_INK, _FIRST, _SECOND, _THIRD = "#010203", "#010204", "#010205", "#010206"
_PAGE_COLOURS = {
    _INK: "currentColor",
    _FIRST: "var(--first, #2a62c4)",
    _SECOND: "var(--second, #c2410c)",
    _THIRD: "var(--third, #0f7b6c)",
}
_SETTINGS: Any = {"svg.fonttype": "none", "svg.hashsalt": "fashioniq", "font.size": 10, "text.color": _INK}
_LINES = (("P", _FIRST, "o"), ("R@50", _THIRD, "s"), ("R@10", _SECOND, "^"))
_RANK_STEPS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 50_000, 100_000)
_WIDTH = 4.7  # inches of 72 units: text of 10 is then 10 pixels high on a phone
_LABEL_GAP = 7.0  # percent between the names of two lines


def turn_plot(turns: Sequence[dict[str, Any]]) -> str:
    """P, R@50 and R@10 in percent over the turns, as inline SVG. Lines that no turn has values of are left out."""
    lines = [(name, colour, marker) for name, colour, marker in _LINES if turns and all(name in turn for turn in turns)]

    def draw(axes: Axes) -> None:
        numbers = [turn["turn"] for turn in turns]
        for name, colour, marker in lines:
            axes.plot(numbers, [turn[name] for turn in turns], color=colour, marker=marker, markersize=5, linewidth=2, clip_on=False)
        last = {name: turns[-1][name] for name, _, _ in lines}
        for (name, colour, _), height in zip(lines, _spread([last[name] for name, _, _ in lines]), strict=True):
            axes.annotate(f"{name}  {last[name]:.1f}", (numbers[-1], height), (9, 0), textcoords="offset points", color=colour, va="center")
        axes.set(ylim=(0, 100), xlabel="turn", ylabel="percent")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=10))
        axes.grid(axis="y", color=_INK, alpha=0.14, linewidth=0.8)

    told = "; ".join(f"{name} " + ", ".join(f"{turn[name]:.1f}" for turn in turns) for name, _, _ in lines)
    return _svg("turns", f"Percent after each turn. {told}", 3.1, draw)


def rank_histogram(ranks: Sequence[int], gallery: int) -> str:
    """How many dialogs ended at which rank, as inline SVG. `ranks` are 0-based; the plot counts from 1, in growing steps."""
    last = max([gallery, *(rank + 1 for rank in ranks)])
    ends = [step for step in _RANK_STEPS if step < last] + [last]
    starts = [1, *(end + 1 for end in ends[:-1])]
    names = [f"{start:,}" if start == end else f"{start:,}–{end:,}" for start, end in zip(starts, ends, strict=True)]
    counts = [sum(start <= rank + 1 <= end for rank in ranks) for start, end in zip(starts, ends, strict=True)]

    def draw(axes: Axes) -> None:
        bars = axes.barh(names, counts, height=0.68, color=[_THIRD if end <= 10 else _INK for end in ends])
        for bar, end in zip(bars, ends, strict=True):
            bar.set_alpha(1.0 if end <= 10 else 0.38)
        axes.bar_label(bars, [f"{count:,}" for count in counts], padding=4, color=_INK)
        axes.set(xlim=(0, max(1, *counts) * 1.12), ylabel="final rank of the target")
        axes.set_xticks([])
        axes.invert_yaxis()
        axes.spines["bottom"].set_visible(False)

    told = ", ".join(f"{count} at {name}" for name, count in zip(names, counts, strict=True))
    return _svg("ranks", f"Dialogs by the final rank of the target: {told}", max(3.1, 0.6 + 0.32 * len(ends)), draw)


def _spread(heights: Sequence[float]) -> list[float]:
    """Move labels apart that would lie on one another; those that have room stay where they are, and all stay on the plot."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    moved = list(heights)
    for below, above in pairwise(order):
        moved[above] = max(moved[above], moved[below] + _LABEL_GAP)
    ceiling = 100.0
    for place in reversed(order):
        moved[place] = min(moved[place], ceiling)
        ceiling = moved[place] - _LABEL_GAP
    return moved


def _svg(name: str, told: str, height: float, draw: Callable[[Axes], None]) -> str:
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
    return _for_page(drawn.getvalue(), name, told)


def _for_page(text: str, name: str, told: str) -> str:
    """Keep the drawing alone, name its ids after the plot, and hand colours and font to the page."""
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text[text.index("<svg") :], flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]+)"', text)
    inside = text[text.index(">") + 1 :].replace("xlink:href=", "href=")
    inside = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", inside)
    inside = re.sub(r"font-family: [^;\"]+;? ?", "", inside)
    for fixed, ours in _PAGE_COLOURS.items():
        inside = inside.replace(fixed, ours)
    assert box is not None, "Matplotlib always writes a viewBox"
    return f'<svg class="plot" viewBox="{box[1]}" stroke-linejoin="round" role="img" aria-label="{escape(told)}">{inside.strip()}'
