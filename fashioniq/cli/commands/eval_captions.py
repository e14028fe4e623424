"""`fashioniq eval-captions`."""

from fashioniq.evaluation.captions import evaluate_captions as run

__all__ = ["run"]
