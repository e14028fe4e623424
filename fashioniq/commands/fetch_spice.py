"""`fashioniq fetch-spice`."""

from fashioniq.config import FetchSpice
from fashioniq.metrics.spice_jars import fetch_spice


def run(settings: FetchSpice) -> None:
    """Get Stanford's jars where they are not there yet, and say whether Java is."""
    fetch_spice(settings)
