"""`fashioniq cross`."""

from typing import Any

from fashioniq.config import Cross
from fashioniq.evaluation.cross import run_cross


def run(settings: Cross) -> dict[str, Any]:
    """Evaluate the combinations that are not finished, and write table.txt, .csv, .tex and .json."""
    return run_cross(settings)
