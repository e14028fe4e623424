"""Asker that offers the best product so far (Fashion IQ)."""

import torch
from torch import Tensor

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message


class BestItem:
    """Asker that offers the item nearest to the query.

    With `exclude_shown`, items are offered once only. Before the first reply, no product is offered: a shopper's
    first request is about the whole gallery.
    """

    shows_items = True  # see `System.shows_items`

    def __init__(self, exclude_shown: bool = False) -> None:
        self.exclude_shown = exclude_shown

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.queries:
            return Message()
        return Message(item_B=self.candidates(state, gallery, 1)[:, 0])

    def candidates(self, state: DialogState, gallery: Gallery, count: int) -> Tensor:
        """Positions of the items nearest to the query that may be offered, B×count, nearest first."""
        shown = state.shown if self.exclude_shown else ()
        _, item_BK = gallery.top(state.queries[-1], count, torch.stack(shown, 1) if shown else None)
        return item_BK
