"""`fashioniq train-chatsearcher`."""

from fashioniq.config import TrainChatsearcher
from fashioniq.training.chatsearcher_run import train_chatsearcher


def run(settings: TrainChatsearcher) -> None:
    """Train on captions or on conversations."""
    print(train_chatsearcher(settings))
