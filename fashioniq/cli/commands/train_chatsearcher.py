"""`fashioniq train-chatsearcher`."""

from fashioniq.config import TrainChatsearcher
from fashioniq.runs import ChatSearcherRun
from fashioniq.training.chatsearcher_run import train_chatsearcher
from fashioniq.training.folder import Trained


def run(settings: TrainChatsearcher) -> Trained[ChatSearcherRun]:
    """Train on captions or on conversations."""
    print(train_chatsearcher(settings))
    return Trained.of(settings, ChatSearcherRun)
