"""Page of `fashioniq compare-live`: how the comparisons of models in service stand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fashioniq.report.plots import interval_plot
from fashioniq.report.templates import write_page


def write_live_comparison_page(path: Path, comparisons: Sequence[Any]) -> None:
    """Write the page of some LiveComparison. Raises UserError if it cannot be written."""
    drawn = []
    for number, one in enumerate(comparisons):
        known = [standing for standing in one.standings if standing.half < float("inf")]
        points = [(one.count, one.difference, one.half) for one in known]
        drawn.append((one, interval_plot(points, f"interval{number}") if points else None))
    write_page(path, "live_comparison.html", title="Models compared in service", drawn=drawn)
