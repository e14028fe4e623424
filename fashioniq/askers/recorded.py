"""Askers with offers fixed in advance: recorded questions or products, or the same questions for all dialogs."""

import random
from collections.abc import Sequence

from torch import Tensor

from fashioniq.data.dialogues import Dialogue
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message


class RecordedOffers:
    """Asker for one batch that offers at turn n the n-th of a list of messages.

    Raises UserError after the last.
    """

    def __init__(self, offers: Sequence[Message]) -> None:
        self.offers = offers

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if len(state.turns) >= len(self.offers):
            raise UserError(f"only {len(self.offers) - 1} questions are available; use fewer --rounds")
        return self.offers[len(state.turns)]


def recorded_items(item_BT: Tensor) -> RecordedOffers:
    """Create an asker that shows what sessions showed: items B×T, as positions."""
    return RecordedOffers([Message(item_B=item_B) for item_B in item_BT.unbind(1)])


def recorded_questions(dialogues: Sequence[Dialogue], unmarked: str = "") -> RecordedOffers:
    """Create an asker from dialogs of equal length; rounds without a question mark get the question
    `unmarked`."""
    return _questions([[said.question or unmarked for said in dialogue.rounds[1:]] for dialogue in dialogues])


def fixed_questions(
    questions: Sequence[str], numbers: Sequence[int], seed: int | None = None
) -> RecordedOffers:
    """Create an asker with the same questions for every dialog.

    With `seed`, questions are shuffled by the dialog's number in its file.
    """
    if seed is None:
        return _questions([questions for _ in numbers])
    shuffled = (
        random.Random(f"{seed} {number}").sample(list(questions), len(questions)) for number in numbers
    )
    return _questions(list(shuffled))


def _questions(by_dialog: Sequence[Sequence[str]]) -> RecordedOffers:
    """Create an asker with an empty first offer, whose reply is the caption, and then the questions."""
    return RecordedOffers([Message(), *(Message(questions=texts) for texts in zip(*by_dialog, strict=True))])
