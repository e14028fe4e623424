"""`fashioniq cross`."""

from fashioniq.config import Cross
from fashioniq.evaluation.cross import run_cross


def run(settings: Cross) -> None:
    """Evaluate the combinations that are not finished, and write table.txt, .csv, .tex and .json."""
    run_cross(settings)
