"""`fashioniq train-retriever`."""

from fashioniq.config import TrainRetriever
from fashioniq.training.retriever_run import train_retriever


def run(settings: TrainRetriever) -> None:
    """Train the retriever of a category with a frozen captioner, on recorded captions, or on both."""
    print(train_retriever(settings))
