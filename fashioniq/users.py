"""Who plays the user: knows the target, sees the offer, answers in words only."""

from typing import NamedTuple, Protocol

from torch import Tensor

from fashioniq.askers import Offer
from fashioniq.data.features import Items
from fashioniq.data.words import Vocabulary
from fashioniq.models.decoding import Looks, Speaker


class Words(NamedTuple):
    """Word ids in the vocabulary of the retriever, B×L, padded on the right."""

    words_BL: Tensor


class User(Protocol):
    def reply(self, target_B: Tensor, offer: Offer) -> Words:
        """What is said of how the targets differ from what is offered; both are positions in one gallery."""
        ...


class CaptionerUser:
    """A frozen relative captioner that speaks in the words of a listener: greedily or with beams."""

    def __init__(self, captioner: Speaker, items: Items, speaks: Vocabulary, hears: Vocabulary, beams: int = 1) -> None:
        self.captioner = captioner.eval().requires_grad_(False)
        self.items, self.beams = items, beams
        self._translation = speaks.translation(hears).to(items.features_ND.device)

    def reply(self, target_B: Tensor, offer: Offer) -> Words:
        words_BL = self.captioner.beam(self._looks(offer.item_B), self._looks(target_B), self.beams)
        return Words(self._translation[words_BL])

    def _looks(self, item_B: Tensor) -> Looks:
        return Looks(self.items.features_ND[item_B], self.items.attributes_NA[item_B])


class RecordedUser:
    """Repeats what people said: captions that were recorded for these very dialogs, B×T×L."""

    def __init__(self, words_BTL: Tensor) -> None:
        self.words_BTL = words_BTL

    def reply(self, target_B: Tensor, offer: Offer) -> Words:
        return Words(self.words_BTL[:, offer.turn])
