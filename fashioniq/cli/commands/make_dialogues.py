"""`fashioniq make-dialogues`."""

from pathlib import Path

from fashioniq.config import MakeDialogues
from fashioniq.evaluation.dialogue_files import make_dialogues


def run(settings: MakeDialogues) -> Path:
    """Generate the dialogs batch by batch in the folder OUT.parts, then write them to one file."""
    make_dialogues(settings)
    return settings.out
