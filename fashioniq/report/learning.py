"""Page of `fashioniq learn`: what was learned from, and whether the new model is better."""

from pathlib import Path
from typing import Any

from fashioniq.report.templates import write_page


def write_learning_page(path: Path, gate: Any) -> None:
    """Write the page of a gate.json."""
    write_page(path, "learning.html", title="Learning from conversations", gate=gate)
