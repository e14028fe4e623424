"""The loop: something is offered, the user says how it differs from what is wanted, the retriever turns all that into a query.

The same function serves in training, with gradients through the retriever, and in evaluation.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from fashioniq.askers import Asker, Offer
from fashioniq.gallery import Gallery
from fashioniq.models.retriever import Turn
from fashioniq.users import User


class Retriever(Protocol):
    def start(self, batch: int) -> Any:
        """The state of dialogs without history."""
        ...

    def step(self, state: Any, turn: Turn) -> tuple[Tensor, Any]:
        """The query after one more turn, B×D, and the state that has heard it."""
        ...


@dataclass(frozen=True)
class Dialogs:
    """A batch of simulated dialogs: the targets, and for every turn what was shown, the words, the query and the rank.

    Positions are those of the gallery; the rank, 0-based, is the target's after the words of the turn.
    """

    target_B: Tensor
    shown_BT: Tensor
    words_BTL: Tensor
    query_BTD: Tensor
    rank_BT: Tensor | None

    @property
    def ranks(self) -> Tensor:
        """The ranks, B×T. Raises ValueError for a rollout without them."""
        if self.rank_BT is None:
            raise ValueError("this rollout was made without ranks")
        return self.rank_BT


def rollout(
    retriever: Retriever,
    asker: Asker,
    user: User,
    gallery: Gallery,
    target_B: Tensor,
    first_B: Tensor,
    turns: int,
    rank: bool = True,
) -> Dialogs:
    """Simulate dialogs that begin with the items `first_B`. The targets go to the user and to the ranks, never to retriever or asker."""
    state, offer = retriever.start(len(target_B)), Offer(0, first_B)
    shown: list[Tensor] = []
    words: list[Tensor] = []
    queries: list[Tensor] = []
    ranks: list[Tensor] = []
    for turn in range(turns):
        if turn:
            offer = asker.offer(queries[-1], torch.stack(shown, 1), gallery)
        words_BL = user.reply(target_B, offer).words_BL
        items = gallery.items
        query_BD, state = retriever.step(state, Turn(words_BL, items.attributes_NA[offer.item_B], items.features_ND[offer.item_B]))
        shown.append(offer.item_B)
        words.append(words_BL)
        queries.append(query_BD)
        if rank:
            ranks.append(gallery.rank(query_BD, target_B))
    rank_BT = torch.stack(ranks, 1) if rank else None
    return Dialogs(target_B, torch.stack(shown, 1), torch.stack(words, 1), torch.stack(queries, 1), rank_BT)
