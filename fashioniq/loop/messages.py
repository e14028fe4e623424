"""Messages of a dialog, and the interfaces of its three roles: retriever, asker and user.

Only `User.reply` gets the target. Messages, turns and states have no field for it, nor for anything that
identifies the dialog.
"""

from collections.abc import Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from PIL.Image import Image
from torch import Tensor

from fashioniq.data.conversation_records import Content
from fashioniq.data.dialog_log import LoggedMessage
from fashioniq.data.dialogues import Round
from fashioniq.data.items import ItemInputs
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.query import Query

S = TypeVar("S")


class Message(NamedTuple):
    """Message of one side in B dialogs; unused parts are None."""

    words_BL: Tensor | None = None  # word ids of the retriever's vocabulary, right-padded; used in training
    texts: Sequence[str] | None = None  # answers or requests of the user
    item_B: Tensor | None = None  # products, as positions in the gallery
    inputs: ItemInputs | None = None  # a picture of a person in place of a product of the gallery
    # pictures outside the gallery: generated, or uploaded by a person; None where there is none
    pictures: Sequence[Image | None] | None = None
    questions: Sequence[str] | None = None  # of the system; of ChatSearch, whatever it says
    # words and pictures of items, by their ids, in the order of a recorded conversation
    content: Sequence[Content] | None = None

    def logged(self, ids: Sequence[str], batch: int) -> list[LoggedMessage]:
        """Return the logged parts for each of the `batch` dialogs: the item's id, the text if not empty, and the
        file of the picture if it has one."""
        items = [None] * batch if self.item_B is None else [ids[item] for item in self.item_B.tolist()]
        texts = self.questions or self.texts or [""] * batch
        pictures = [None] * batch if self.pictures is None else self.pictures
        files = [None if picture is None else picture.info.get("file") for picture in pictures]
        return [
            LoggedMessage(item=item, text=text or None, picture=file)
            for item, text, file in zip(items, texts, files, strict=True)
        ]


class Turn(NamedTuple):
    """One offer and its reply, with the features and attributes of the product offered, if any."""

    offer: Message
    reply: Message
    item: ItemInputs | None = None

    @property
    def image_BD(self) -> Tensor:
        """Feature vectors of the products offered. Raises ValueError if there are none."""
        return self._offered.features_BD

    @property
    def attributes_BA(self) -> Tensor:
        """Attribute ids of the products offered, padded with 0.

        Raises ValueError if there are no products.
        """
        return self._offered.attributes_BA

    @property
    def _offered(self) -> ItemInputs:
        if self.item is None:
            raise ValueError("this retriever needs a product in every offer, but the offer has none")
        return self.item

    @property
    def words_BL(self) -> Tensor:
        """Word ids of the reply. Raises ValueError if it has none."""
        if self.reply.words_BL is None:
            raise ValueError("this retriever needs word ids, but the reply has none")
        return self.reply.words_BL

    @property
    def rounds(self) -> list[Round]:
        """Question and answer of each dialog; the question is empty if there was none."""
        answers = self.reply.texts or ()
        return list(map(Round.of, self.offer.questions or [""] * len(answers), answers))


class DialogState(NamedTuple, Generic[S]):
    """Immutable state of B dialogs, without targets. A live session has B = 1."""

    batch: int
    state: S
    turns: tuple[Turn, ...] = ()
    queries: tuple[Query, ...] = ()  # after every turn

    @property
    def shown(self) -> tuple[Tensor, ...]:
        """Positions of the items offered, B for every turn with items."""
        return tuple(turn.offer.item_B for turn in self.turns if turn.offer.item_B is not None)

    @property
    def rounds(self) -> list[list[Round]]:
        """Questions and answers of each dialog, in the order of the turns."""
        return [list(texts) for texts in zip(*(turn.rounds for turn in self.turns), strict=True)] or [
            [] for _ in range(self.batch)
        ]

    @property
    def questions(self) -> list[list[str]]:
        """Questions asked in each dialog."""
        asked = [turn.offer.questions for turn in self.turns if turn.offer.questions]
        return [list(texts) for texts in zip(*asked, strict=True)] or [[] for _ in range(self.batch)]


class Retriever(Protocol[S]):
    """Maps the dialog history to a query, without access to the target."""

    def start(self, batch: int) -> S:
        """Return the state of `batch` dialogs without history."""
        ...

    def step(self, state: S, turn: Turn) -> tuple[Tensor, S]:
        """Return the query after one more turn, B×D, and the new state."""
        ...


class Asker(Protocol):
    """Chooses the next offer: the best item, a question or a generated picture."""

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        """Return the next offer; before the first turn, an empty message or a first item."""
        ...


class User(Protocol):
    """Plays the shopper. It is the only role with access to the target."""

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Return the reply to an offer at a turn, counted from 0; targets are positions in the gallery."""
        ...
