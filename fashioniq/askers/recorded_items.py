"""Asker that shows what recorded sessions showed."""

from torch import Tensor

from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message


class RecordedItems:
    """Asker for one batch that offers at turn n the n-th item of each session: items B×T, as positions.

    Raises UserError after the last turn.
    """

    def __init__(self, item_BT: Tensor) -> None:
        self.item_BT = item_BT

    @property
    def first(self) -> Message:
        """The first offer."""
        return Message(item_B=self.item_BT[:, 0])

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        turn = len(state.turns)
        if turn >= self.item_BT.shape[1]:
            raise UserError(f"the sessions have only {self.item_BT.shape[1]} turns; use fewer turns")
        return Message(item_B=self.item_BT[:, turn])
