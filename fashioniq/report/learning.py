"""Page of `fashioniq learn`: what was learned from, and whether the new model is better."""

from pathlib import Path
from typing import Any

from fashioniq.report.templates import thousands, write_page


def write_learning_page(path: Path, gate: Any) -> None:
    """Write the page of a gate.json."""
    rows = [
        [
            row.name,
            thousands(row.count) if row.count else "",
            f"{row.running:.3f}",
            f"{row.new:.3f}",
            "" if row.low is None else f"{row.low:+.3f} to {row.high:+.3f}",
            "" if row.p is None else f"{row.p:.4f}",
            "yes" if row.passed else "no",
        ]
        for row in gate.rows
    ]
    left_out = [[name, thousands(count)] for name, count in sorted(gate.rule.left_out.items())]
    write_page(
        path, "learning.html", title="Learning from conversations", gate=gate, rows=rows, left_out=left_out
    )
