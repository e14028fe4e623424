"""`fashioniq eval-captions`."""

from fashioniq.config import EvalCaptions
from fashioniq.data.evaluations import CaptionMetrics
from fashioniq.evaluation.captions import evaluate_captions


def run(settings: EvalCaptions) -> CaptionMetrics:
    """Score a captioner, people and two baselines on the pairs of a split, and write all results."""
    return evaluate_captions(settings)
