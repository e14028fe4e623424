"""`fashioniq train-captioner`."""

from fashioniq.config import TrainCaptioner
from fashioniq.report.training_plots import read_epochs, write_captioner_curves
from fashioniq.runs import CaptionerRun
from fashioniq.training.captioner import train_captioner
from fashioniq.training.folder import Trained


def run(settings: TrainCaptioner) -> Trained[CaptionerRun]:
    """Train the captioner of a category, and draw its measures by epoch."""
    folder, summary, verdict = train_captioner(settings)
    write_captioner_curves(folder / "curves.png", read_epochs(folder))
    print(f"{summary}; plots in {folder / 'curves.png'}")
    print(verdict)
    return Trained.of(settings, CaptionerRun)
