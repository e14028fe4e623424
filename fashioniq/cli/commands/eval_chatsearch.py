"""`fashioniq eval-chatsearch`."""

from fashioniq.config import EvalChatsearch
from fashioniq.data.evaluations import ChatSearchMetrics
from fashioniq.evaluation.chatsearch import evaluate


def run(settings: EvalChatsearch) -> ChatSearchMetrics:
    """Search with all methods, and write and print the measures."""
    return evaluate(settings)
