"""Asker that offers the best product so far (Fashion IQ)."""

import torch
from torch import Tensor

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Talk


class BestItem:
    """Asker that offers the item nearest to the query.

    With `exclude_shown`, items are offered once only. Before the first reply, no product is offered: a shopper's
    first request is about the whole gallery.
    """

    shows_items = True  # see `System.shows_items`

    def __init__(self, exclude_shown: bool = False) -> None:
        self.exclude_shown = exclude_shown

    def offer(self, talk: Talk, gallery: Gallery) -> Message:
        if not talk.queries:
            return Message()
        return Message(item_B=self.candidates(talk, gallery, 1)[:, 0])

    def candidates(self, talk: Talk, gallery: Gallery, count: int) -> Tensor:
        """Positions of the items nearest to the query that may be offered, B×count, nearest first."""
        shown = talk.shown if self.exclude_shown else ()
        _, item_BK = gallery.top(talk.queries[-1], count, torch.stack(shown, 1) if shown else None)
        return item_BK
