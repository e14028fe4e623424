"""`fashioniq train-dialog-encoder`."""

from fashioniq.config import TrainDialogEncoder
from fashioniq.training.dialog_encoder_run import train_dialog_encoder


def run(settings: TrainDialogEncoder) -> None:
    """Train the text encoder on the dialogs whose images have features."""
    print(train_dialog_encoder(settings))
