"""Show the best product so far, as Fashion IQ does."""

import torch

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Talk


class BestItem:
    """Offers the item nearest to the query; with `exclude_shown`, the nearest that was not offered before.

    Before the first turn it offers the item nearest to the mean of the gallery, a typical product.
    """

    def __init__(self, exclude_shown: bool = False) -> None:
        self.exclude_shown = exclude_shown

    def offer(self, talk: Talk, gallery: Gallery) -> Message:
        if not talk.queries:
            _, item_11 = gallery.top(gallery.mean_1D, 1)
            return Message(item_B=item_11[:, 0].expand(talk.batch))
        shown = talk.shown if self.exclude_shown else ()
        _, item_B1 = gallery.top(talk.queries[-1], 1, torch.stack(shown, 1) if shown else None)
        return Message(item_B=item_B1[:, 0])
