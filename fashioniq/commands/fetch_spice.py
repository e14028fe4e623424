"""`fashioniq fetch-spice`."""

from fashioniq.config import FetchSpice
from fashioniq.metrics.spice_jars import fetch_spice


def run(settings: FetchSpice) -> None:
    """Download Stanford's missing jars, and print whether Java is installed."""
    fetch_spice(settings)
