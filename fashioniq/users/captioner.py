"""User simulator based on a relative captioner (Fashion IQ, section 4.1)."""

from dataclasses import dataclass

from torch import Tensor

from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.language.statements import StatementCheck
from fashioniq.loop.messages import Message, User
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.users.pragmatic import Listener, PragmaticUser


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


@dataclass(frozen=True)
class Simulator:
    """A trained captioner with its words, and how it speaks: pragmatically to a listener, or by `beams`.

    With a `listener`, it draws `samples` captions and says the most informative, with `truth` the most
    informative of those that are true by the labels of the products.
    """

    captioner: BaseCaptioner
    words: Vocabulary
    beams: int = 1
    samples: int = 1
    listener: Listener | None = None
    truth: StatementCheck | None = None

    @property
    def decoding(self) -> str:
        """How captions are chosen, for metadata and pages."""
        if self.listener:
            true = " that are true by the labels" if self.truth else ""
            return f"most informative of {self.samples} samples{true}"
        return f"beam {self.beams}" if self.beams > 1 else "greedy"

    def user(self, items: Items, retriever: Vocabulary, seed: int = 0) -> User:
        """The user who describes these products to a retriever with this vocabulary."""
        captioner = self.captioner.to(items.features_ND.device)
        if self.listener is None:
            return CaptionerUser(captioner, items, self.words, retriever, self.beams)
        return PragmaticUser(
            captioner,
            items,
            self.words,
            retriever,
            listener=self.listener,
            samples=self.samples,
            seed=seed,
            truth=self.truth,
        )
