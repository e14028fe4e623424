"""`fashioniq compare-live`."""

from fashioniq.config import CompareLive
from fashioniq.service.comparing import compare_live
from fashioniq.service.live_comparison import LiveComparison


def run(settings: CompareLive) -> list[LiveComparison]:
    """Begin a comparison with --run; print how the latest one of each category stands, and end it if it is decided."""
    return compare_live(settings)
