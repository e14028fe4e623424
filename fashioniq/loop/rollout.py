"""Dialog loop: the system makes an offer, the user replies to it, and the retriever updates its query.

`rollout` is used in training, with gradients through the retriever, and in evaluation. A live session uses
the same System turn by turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import torch
from torch import Tensor

from fashioniq.data.cards import ItemCards, Product
from fashioniq.data.evaluations import LoggedTurn
from fashioniq.data.words import Vocabulary, tokenize
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, Message, Retriever, S, Talk, Turn, User

MAX_WORDS = 64  # maximum known words of a text; the rest is ignored


@dataclass(frozen=True)
class System(Generic[S]):
    """Retriever, asker and gallery: all parts of a dialog system that have no access to the target.

    With the retriever's `vocabulary`, replies may be plain texts. `cards` are titles, attributes and
    pictures of the products. `index` describes the approximate index of the gallery, None for exact search.
    """

    retriever: Retriever[S]
    asker: Asker
    gallery: Gallery
    vocabulary: Vocabulary | None = None
    cards: ItemCards = field(default_factory=ItemCards)
    index: dict[str, Any] | None = None

    def begin(self, batch: int) -> Talk[S]:
        """Start `batch` dialogs."""
        return Talk(batch, self.retriever.start(batch))

    def offer(self, talk: Talk[S]) -> Message:
        """Return the next offer to the user."""
        return self.asker.offer(talk, self.gallery)

    def hear(self, talk: Talk[S], offer: Message, reply: Message) -> Talk[S]:
        """Return the talk with one more turn; its query is the last of `talk.queries`."""
        if self.vocabulary and reply.words_BL is None and reply.texts is not None:
            reply = reply._replace(words_BL=self._words(self.vocabulary, reply.texts))
        inputs = None if offer.item_B is None else self.gallery.items.inputs(offer.item_B)
        turn = Turn(offer, reply, inputs if offer.inputs is None else offer.inputs)
        query_BD, state = self.retriever.step(talk.state, turn)
        return Talk(talk.batch, state, (*talk.turns, turn), (*talk.queries, query_BD))

    def unknown(self, text: str) -> list[str]:
        """Return the words of a text that are not in the retriever's vocabulary, each once."""
        return list(self.vocabulary.unknown([text])) if self.vocabulary else []

    def has_known_word(self, text: str) -> bool:
        """Return whether a text has a word of the retriever's vocabulary, or any word if it has none."""
        words = tokenize(text)
        return any(word in self.vocabulary for word in words) if self.vocabulary else bool(words)

    def top(self, talk: Talk[S], count: int = 10) -> list[list[Product]]:
        """Return the nearest products of each dialog, nearest first; before the first turn, typical
        products."""
        return self.nearest(
            talk.queries[-1] if talk.queries else self.gallery.mean_1D.expand(talk.batch, -1), count
        )

    def nearest(
        self, query_BD: Tensor, count: int = 10, allowed_N: Tensor | None = None
    ) -> list[list[Product]]:
        """Return the products nearest to each query, nearest first, among those of the mask `allowed_N`."""
        distance_BK, item_BK = self.gallery.top(query_BD, min(count, len(self.gallery)), allowed_N=allowed_N)
        rows = zip(distance_BK.sqrt().tolist(), item_BK.tolist(), strict=True)
        ids = self.gallery.items.ids
        return [
            [self.cards.product(ids[item], distance) for item, distance in zip(items, distances, strict=True)]
            for distances, items in rows
        ]

    def _words(self, vocabulary: Vocabulary, texts: Sequence[str]) -> Tensor:
        """Encode the known words of texts, B×L, on the device of the gallery."""
        known = [[word for word in tokenize(text) if word in vocabulary][:MAX_WORDS] for text in texts]
        words_BL = vocabulary.encode([" ".join(words) for words in known], max(1, *map(len, known)))
        return words_BL.to(self.gallery.vectors_ND.device)


@dataclass(frozen=True)
class Dialogs:
    """Batch of finished dialogs: targets, talk, and the 0-based rank of each target after every turn, B×T."""

    target_B: Tensor
    talk: Talk
    rank_BT: Tensor | None

    @property
    def shown_BT(self) -> Tensor:
        """Positions of the items offered, B×T."""
        return torch.stack(
            [turn.offer.item_B for turn in self.talk.turns if turn.offer.item_B is not None], 1
        )

    @property
    def words_BTL(self) -> Tensor:
        """Word ids of the replies, B×T×L."""
        return torch.stack([turn.words_BL for turn in self.talk.turns], 1)

    @property
    def query_BTD(self) -> Tensor:
        """Queries after every turn, B×T×D."""
        return torch.stack(self.talk.queries, 1)

    def logged(self, ids: Sequence[str], vocabulary: Vocabulary | None) -> list[list[LoggedTurn]]:
        """Return the turns of each dialog for the log, without the products shown."""
        columns = []
        for turn, rank_B in zip(self.talk.turns, self.ranks.T.tolist(), strict=True):
            replies, words = turn.reply.texts, turn.rounds
            if replies is None and turn.reply.words_BL is not None and vocabulary:
                replies = words = vocabulary.decode(turn.reply.words_BL)
            offers = turn.offer.logged(ids, len(self.target_B))
            answers = turn.reply._replace(texts=replies).logged(ids, len(self.target_B))
            columns.append(
                [
                    LoggedTurn(words=text, rank=rank, offer=offer, reply=reply)
                    for text, rank, offer, reply in zip(words, rank_B, offers, answers, strict=True)
                ]
            )
        return [list(turns) for turns in zip(*columns, strict=True)]

    @property
    def ranks(self) -> Tensor:
        """Ranks, B×T. Raises ValueError if the rollout did not compute them."""
        if self.rank_BT is None:
            raise ValueError("the rollout did not compute ranks; use rank=True")
        return self.rank_BT


def rollout(
    system: System,
    user: User,
    target_B: Tensor,
    first: Message,
    turns: int,
    rank: bool = True,
    talk: Talk | None = None,
) -> Dialogs:
    """Simulate dialogs of `turns` turns, the first of which has the offer `first`.

    With `talk`, they continue from there, and only the ranks of later turns are returned. Targets are used by
    the user and the ranks only.
    """
    talk, offer = talk or system.begin(len(target_B)), first
    begun = len(talk.turns)
    for number in range(begun, turns):
        if number > begun:
            offer = system.offer(talk)
        talk = system.hear(talk, offer, user.reply(target_B, offer, number))
    if not rank:
        return Dialogs(target_B, talk, None)
    # all turns together: the host waits for a GPU once
    rank_R = system.gallery.rank(torch.cat(talk.queries[begun:]), target_B.repeat(turns - begun))
    return Dialogs(target_B, talk, rank_R.view(-1, len(target_B)).T.contiguous())
