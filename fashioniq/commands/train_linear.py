"""`fashioniq train-linear`."""

from fashioniq.config import TrainLinear
from fashioniq.training.linear_run import train_linear


def run(settings: TrainLinear) -> None:
    """Fit the linear retriever of a category on recorded captions."""
    print(train_linear(settings))
