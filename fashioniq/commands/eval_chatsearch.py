"""`fashioniq eval-chatsearch`."""

from fashioniq.config import EvalChatsearch
from fashioniq.evaluation.chatsearch import evaluate


def run(settings: EvalChatsearch) -> None:
    """Search with all methods, and write and print the measures."""
    evaluate(settings)
