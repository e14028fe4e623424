"""`fashioniq eval-captions`."""

from fashioniq.config import EvalCaptions
from fashioniq.evaluation.captions import evaluate_captions


def run(settings: EvalCaptions) -> None:
    """Score a captioner, people and two baselines on the pairs of a split, and write all results."""
    evaluate_captions(settings)
