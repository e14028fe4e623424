"""`fashioniq compare`."""

from fashioniq.config import Compare
from fashioniq.evaluation.comparison import compare


def run(settings: Compare) -> None:
    """Print a table of all models against the first, and with --out write it and the pages of dialogs side by side."""
    compare(settings)
