"""User simulator based on a relative captioner (Fashion IQ, section 4.1)."""

from torch import Tensor

from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.messages import Message
from fashioniq.models.decoding import BaseCaptioner


class CaptionerUser:
    """User simulator: a frozen captioner, decoded greedily or by beam search.

    Its word ids are translated from its `own` vocabulary to the retriever's.
    """

    def __init__(
        self, captioner: BaseCaptioner, items: Items, own: Vocabulary, retriever: Vocabulary, beams: int = 1
    ) -> None:
        self.captioner = captioner.eval().requires_grad_(False)
        self.items, self.beams = items, beams
        self._translation = own.translation(retriever).to(items.features_ND.device)

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Describe how the targets differ from the items offered."""
        assert offer.item_B is not None, "a captioner needs an offer with items"
        words_BL = self.captioner.beam(
            self.items.inputs(offer.item_B), self.items.inputs(target_B), self.beams
        )
        return Message(words_BL=self._translation[words_BL])
