"""`fashioniq train-dialog-encoder`."""

from fashioniq.config import TrainDialogEncoder
from fashioniq.runs import DialogEncoderRun
from fashioniq.training.dialog_encoder import train_dialog_encoder
from fashioniq.training.folder import Trained


def run(settings: TrainDialogEncoder) -> Trained[DialogEncoderRun]:
    """Train the text encoder on the dialogs whose images have features."""
    print(train_dialog_encoder(settings))
    return Trained.of(settings, DialogEncoderRun)
