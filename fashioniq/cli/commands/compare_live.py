"""`fashioniq compare-live`."""

from fashioniq.service.live_comparison import compare_live as run

__all__ = ["run"]
