"""What passes between the two sides of a dialog, and the three roles that pass it: retriever, asker and user.

The target is an argument of `User.reply` alone: no message, turn or talk has a field for it, and no number that identifies the dialog
travels in a message.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from PIL.Image import Image
from torch import Tensor

from fashioniq.data.dialogues import join_round
from fashioniq.data.items import ItemInputs
from fashioniq.loop.gallery import Gallery

S = TypeVar("S")


class Message(NamedTuple):
    """What one side puts before the other, for B dialogs; a part that is None was not used."""

    words_BL: Tensor | None = None  # ids in the retriever's vocabulary, padded on the right: training never builds a string
    texts: Sequence[str] | None = None  # a question, an answer, a request
    item_B: Tensor | None = None  # a product, as its position in the gallery
    pictures: Sequence[Image] | None = None  # pictures of no product: generated, or uploaded by a person

    def plain(self, ids: Sequence[str], batch: int) -> list[dict[str, str]]:
        """The parts that a log contains, for each of the `batch` dialogs: the id of the item, the text where it is not empty."""
        items = [{"item": ids[item]} for item in self.item_B.tolist()] if self.item_B is not None else [{}] * batch
        texts = [{"text": text} if text else {} for text in self.texts] if self.texts is not None else [{}] * batch
        return [{**item, **text} for item, text in zip(items, texts, strict=True)]


class Turn(NamedTuple):
    """One exchange as the retriever sees it, with what a model sees of the product offered, if one was."""

    offer: Message
    reply: Message
    item: ItemInputs | None = None

    @property
    def image_BD(self) -> Tensor:
        """The feature vectors of the products offered. Raises ValueError where none was."""
        return self._offered.features_BD

    @property
    def attributes_BA(self) -> Tensor:
        """The attribute ids of the products offered, 0 for none. Raises ValueError where none was offered."""
        return self._offered.attributes_BA

    @property
    def _offered(self) -> ItemInputs:
        if self.item is None:
            raise ValueError("this retriever compares with a product, and the offer has none")
        return self.item

    @property
    def words_BL(self) -> Tensor:
        """The words of the reply. Raises ValueError for a reply without word ids."""
        if self.reply.words_BL is None:
            raise ValueError("this retriever reads word ids, and the reply has none")
        return self.reply.words_BL

    @property
    def rounds(self) -> list[str]:
        """For each dialog, question and answer as one text: the reply alone where no question was asked."""
        answers = self.reply.texts or ()
        questions = self.offer.texts or [""] * len(answers)
        pairs = zip(questions, answers, strict=True)
        return [join_round(question, answer) if question else answer for question, answer in pairs]


class Talk(NamedTuple, Generic[S]):
    """B dialogs so far: immutable, without a target. A live session is a Talk with B = 1; undo returns to an earlier Talk."""

    batch: int
    state: S
    turns: tuple[Turn, ...] = ()
    queries: tuple[Tensor, ...] = ()  # query_BD after every turn

    @property
    def shown(self) -> tuple[Tensor, ...]:
        """The items offered, as positions in the gallery, B for every turn with one."""
        return tuple(turn.offer.item_B for turn in self.turns if turn.offer.item_B is not None)

    @property
    def rounds(self) -> list[list[str]]:
        """For each dialog the texts of its turns, each question joined with its answer."""
        return [list(texts) for texts in zip(*(turn.rounds for turn in self.turns), strict=True)] or [[] for _ in range(self.batch)]

    @property
    def questions(self) -> list[list[str]]:
        """For each dialog the questions that were asked."""
        asked = [turn.offer.texts for turn in self.turns if turn.offer.texts]
        return [list(texts) for texts in zip(*asked, strict=True)] or [[] for _ in range(self.batch)]


class Retriever(Protocol[S]):
    """Turns what was said so far into a query; never sees the target."""

    def start(self, batch: int) -> S:
        """The state of `batch` dialogs without history."""
        ...

    def step(self, state: S, turn: Turn) -> tuple[Tensor, S]:
        """The query after one more turn, B×D, and the state that includes it."""
        ...


class Asker(Protocol):
    """Chooses what is put before the user: the best item, a question, a generated picture."""

    def offer(self, talk: Talk, gallery: Gallery) -> Message:
        """The next offer, given the talk so far; before the first turn an empty message, or a first item."""
        ...


class User(Protocol):
    """Plays the shopper: sees the target, and its reply is the one channel from it."""

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """The reply to an offer at a turn, counted from 0; targets are positions in the gallery."""
        ...
