"""`fashioniq compare`."""

from fashioniq.evaluation.comparison import compare as run

__all__ = ["run"]
