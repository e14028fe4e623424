"""`fashioniq train-retriever`."""

from fashioniq.config import TrainRetriever
from fashioniq.runs import RetrieverRun
from fashioniq.training.folder import Trained
from fashioniq.training.retriever_run import train_retriever


def run(settings: TrainRetriever) -> Trained[RetrieverRun]:
    """Train the retriever of a category with a frozen captioner, on recorded captions, or on both."""
    print(train_retriever(settings))
    return Trained.of(settings, RetrieverRun)
