"""The loop: a system offers something, a user who sees the target replies, the retriever turns all replies into a query.

The same function serves in training, with gradients through the retriever, and in evaluation. A live session uses the same System
turn by turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, Message, Retriever, S, Talk, Turn, User


@dataclass(frozen=True)
class System(Generic[S]):
    """Everything that never sees the target: a retriever, an asker and the gallery that is searched.

    `encode` turns plain texts into word ids, N×L, for a retriever that reads words.
    """

    retriever: Retriever[S]
    asker: Asker
    gallery: Gallery
    encode: Callable[[Sequence[str]], Tensor] | None = None

    def begin(self, batch: int) -> Talk[S]:
        """`batch` dialogs in which nothing was said yet."""
        return Talk(batch, self.retriever.start(batch))

    def offer(self, talk: Talk[S]) -> Message:
        """What is put before the user next."""
        return self.asker.offer(talk, self.gallery)

    def hear(self, talk: Talk[S], offer: Message, reply: Message) -> Talk[S]:
        """The talk with one more turn, whose query is the last of `talk.queries`."""
        if self.encode and reply.words_BL is None and reply.texts is not None:
            reply = reply._replace(words_BL=self.encode(reply.texts))
        turn = Turn(offer, reply, None if offer.item_B is None else self.gallery.items.inputs(offer.item_B))
        query_BD, state = self.retriever.step(talk.state, turn)
        return Talk(talk.batch, state, (*talk.turns, turn), (*talk.queries, query_BD))


@dataclass(frozen=True)
class Dialogs:
    """A batch of finished dialogs: the targets, the talk, and the 0-based rank of each target after every turn, B×T."""

    target_B: Tensor
    talk: Talk
    rank_BT: Tensor | None

    @property
    def shown_BT(self) -> Tensor:
        """The items offered, as positions in the gallery, B×T."""
        return torch.stack([turn.offer.item_B for turn in self.talk.turns if turn.offer.item_B is not None], 1)

    @property
    def words_BTL(self) -> Tensor:
        """The word ids of the replies, B×T×L."""
        return torch.stack([turn.words_BL for turn in self.talk.turns], 1)

    @property
    def query_BTD(self) -> Tensor:
        """The queries, B×T×D."""
        return torch.stack(self.talk.queries, 1)

    @property
    def ranks(self) -> Tensor:
        """The ranks, B×T. Raises ValueError for a rollout without them."""
        if self.rank_BT is None:
            raise ValueError("this rollout was made without ranks")
        return self.rank_BT


def rollout(system: System, user: User, target_B: Tensor, first: Message, turns: int, rank: bool = True) -> Dialogs:
    """Simulate dialogs that begin with the offer `first`. The targets go to the user and to the ranks, to nothing else."""
    talk, offer = system.begin(len(target_B)), first
    ranks: list[Tensor] = []
    for number in range(turns):
        if number:
            offer = system.offer(talk)
        talk = system.hear(talk, offer, user.reply(target_B, offer, number))
        if rank:
            ranks.append(system.gallery.rank(talk.queries[-1], target_B))
    return Dialogs(target_B, talk, torch.stack(ranks, 1) if rank else None)
