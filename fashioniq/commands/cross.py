"""`fashioniq cross`."""

from fashioniq.config import Cross
from fashioniq.evaluation.cross import run_cross


def run(settings: Cross) -> None:
    """Evaluate every combination that is not there yet, and write table.txt, .csv, .tex and .json beside their folders."""
    run_cross(settings)
