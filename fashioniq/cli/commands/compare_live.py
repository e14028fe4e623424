"""`fashioniq compare-live`."""

from fashioniq.service.comparing import compare_live as run

__all__ = ["run"]
