"""`fashioniq make-dialogues`."""

from fashioniq.evaluation.dialogue_files import make_dialogues as run

__all__ = ["run"]
