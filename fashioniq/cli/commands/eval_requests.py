"""`fashioniq eval-requests`."""

from fashioniq.evaluation.requests import evaluate as run

__all__ = ["run"]
