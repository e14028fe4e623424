"""`fashioniq compare`."""

from typing import Any

from fashioniq.config import Compare
from fashioniq.evaluation.comparison import compare


def run(settings: Compare) -> dict[str, Any]:
    """Print a table that compares all models with the first.

    With --out write it and pages of paired dialogs.
    """
    return compare(settings)
