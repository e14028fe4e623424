"""`fashioniq eval-chatsearch`."""

from fashioniq.evaluation.chatsearch import evaluate as run

__all__ = ["run"]
