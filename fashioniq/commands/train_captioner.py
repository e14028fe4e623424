"""`fashioniq train-captioner`."""

from fashioniq.config import TrainCaptioner
from fashioniq.training.captioner_run import train_captioner


def run(settings: TrainCaptioner) -> None:
    """Train the captioner of a category."""
    print(train_captioner(settings))
