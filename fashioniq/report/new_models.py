"""Pages on new models of the service: what `fashioniq learn` has trained, and how the comparisons in service stand."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fashioniq.report.plots import interval_plot
from fashioniq.report.templates import write_page


def write_learning_page(path: Path, gate: Any) -> None:
    """Write the page of a gate.json."""
    rows = [
        [
            row.name,
            f"{row.count:,}" if row.count else "",
            f"{row.running:.3f}",
            f"{row.new:.3f}",
            "" if row.low is None else f"{row.low:+.3f} to {row.high:+.3f}",
            "" if row.p is None else f"{row.p:.4f}",
            "yes" if row.passed else "no",
        ]
        for row in gate.rows
    ]
    left_out = [[name, f"{count:,}"] for name, count in sorted(gate.rule.left_out.items())]
    write_page(
        path, "learning.html", title="Learning from conversations", gate=gate, rows=rows, left_out=left_out
    )


def write_live_comparison_page(path: Path, comparisons: Sequence[Any]) -> None:
    """Write the page of some LiveComparison. Raises UserError if it cannot be written."""
    drawn = []
    for number, one in enumerate(comparisons):
        known = [standing for standing in one.standings if standing.half < float("inf")]
        points = [(one.count, one.difference, one.half) for one in known]
        drawn.append((one, interval_plot(points, f"interval{number}") if points else None))
    write_page(path, "live_comparison.html", title="Models compared in service", drawn=drawn)
