"""`fashioniq eval-captions`."""

from fashioniq.config import EvalCaptions
from fashioniq.evaluation.captions import evaluate_captions


def run(settings: EvalCaptions) -> None:
    """Score what a captioner says of the pairs of a split, beside what people and two floors reach; leave all results in a folder."""
    evaluate_captions(settings)
