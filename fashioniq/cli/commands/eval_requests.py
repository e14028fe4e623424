"""`fashioniq eval-requests`."""

from fashioniq.config import EvalRequests
from fashioniq.data.evaluations import RequestMetrics
from fashioniq.evaluation.requests import evaluate


def run(settings: EvalRequests) -> RequestMetrics:
    """Judge the search of a run and BM25, and write and print the shares of results that obey."""
    return evaluate(settings)
