"""What the system puts before the user at every turn."""

from typing import NamedTuple, Protocol

from torch import Tensor

from fashioniq.gallery import Gallery


class Offer(NamedTuple):
    """What is shown at a turn (counted from 0): one item of the gallery per dialog, as positions."""

    turn: int
    item_B: Tensor


class Asker(Protocol):
    def offer(self, query_BD: Tensor, shown_BT: Tensor, gallery: Gallery) -> Offer:
        """The next offer, from the query so far and all that was shown."""
        ...


class BestItem:
    """Shows the item nearest to the query, as Fashion IQ does; with `exclude_shown`, the nearest that was not yet shown."""

    def __init__(self, exclude_shown: bool = False) -> None:
        self.exclude_shown = exclude_shown

    def offer(self, query_BD: Tensor, shown_BT: Tensor, gallery: Gallery) -> Offer:
        _, item_B1 = gallery.top(query_BD, 1, shown_BT if self.exclude_shown else None)
        return Offer(shown_BT.shape[1], item_B1[:, 0])


class Questions:
    """Shows nothing new: what is asked is recorded with its answer, as in ChatIR's dialogues, and the first item stays."""

    def offer(self, query_BD: Tensor, shown_BT: Tensor, gallery: Gallery) -> Offer:
        return Offer(shown_BT.shape[1], shown_BT[:, -1])
