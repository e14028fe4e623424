"""Dialog loop: the system makes an offer, the user replies to it, and the retriever updates its query.

`rollout` is used in training, with gradients through the retriever, and in evaluation. A live session uses
the same System turn by turn.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

import torch
from torch import Tensor

from fashioniq.data.cards import ItemCards, Product
from fashioniq.data.dialog_log import LoggedTurn
from fashioniq.data.items import ItemInputs
from fashioniq.data.words import Vocabulary, tokenize
from fashioniq.language.wishes import ParsedRequest, Wishes
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, DialogState, Message, Retriever, S, Turn, User
from fashioniq.loop.offers import Offers
from fashioniq.loop.query import Query
from fashioniq.loop.wording import Wording

if TYPE_CHECKING:
    from fashioniq.loop.dialog import Dialog

MAX_WORDS = 64  # maximum known words of a text; the rest is ignored


@dataclass(frozen=True)
class System(Generic[S]):
    """Retriever, asker and gallery: all parts of a dialog system that have no access to the target.

    With the retriever's `vocabulary`, replies may be plain texts; without, it reads texts of any words. `cards` are
    titles, attributes and pictures of the products. `index` describes the approximate index of the gallery, None for
    exact search. With `wording`, what replies ask for in words counts beside the retriever's vectors; it is also the
    gallery's scorer. `offers` are what limits of price, size and stock that a person says apply to.
    """

    retriever: Retriever[S]
    asker: Asker
    gallery: Gallery
    vocabulary: Vocabulary | None = None
    cards: ItemCards = field(default_factory=ItemCards)
    index: dict[str, Any] | None = None
    wording: Wording | None = None
    offers: Offers | None = None

    @property
    def shows_items(self) -> bool:
        """Whether it offers products, which replies refer to; otherwise it asks, or only reads what is said."""
        return bool(getattr(self.asker, "shows_items", False))

    @property
    def shows_pictures(self) -> bool:
        """Whether it shows a picture generated from the last words, which alone the query depends on."""
        return bool(getattr(self.asker, "shows_pictures", False))

    def dialog(self) -> "Dialog[S]":
        """Start a dialog with one person."""
        from fashioniq.loop.dialog import Dialog  # it imports this module

        return Dialog.start(self)

    def start(self, batch: int) -> DialogState[S]:
        """Start `batch` dialogs."""
        return DialogState(batch, self.retriever.start(batch))

    def offer(self, state: DialogState[S]) -> Message:
        """Return the next offer to the user."""
        return self.asker.offer(state, self.gallery)

    def observe(
        self, state: DialogState[S], offer: Message, reply: Message, wishes: Sequence[Wishes] | None = None
    ) -> DialogState[S]:
        """Return the state with one more turn; its query is the last of `state.queries`.

        An offer without a product, of a system that shows products, is about the mean of the gallery. `wishes` are
        what holds after the reply, if that is not to be read from the reply, such as for a part of a longer one.
        """
        if self.vocabulary and reply.words_BL is None and reply.texts is not None:
            texts = [self.corrected(text) for text in reply.texts]
            reply = reply._replace(words_BL=self._words(self.vocabulary, texts))
        inputs = offer.inputs
        if inputs is None and offer.item_B is not None:
            inputs = self.gallery.items.inputs(offer.item_B)
        if inputs is None and self.shows_items:
            inputs = self._mean(state.batch)
        turn = Turn(offer, reply, inputs)
        vector_BD, history = self.retriever.step(state.state, turn)
        query = Query(vector_BD, self._wishes(state, offer, reply) if wishes is None else wishes)
        return DialogState(state.batch, history, (*state.turns, turn), (*state.queries, query))

    def read(self, text: str) -> ParsedRequest:
        """What a text says; without `wording`, which of its words the retriever has learned."""
        if self.wording is not None:
            request = self.wording.read(text)
            if self.vocabulary is not None:
                return request
            # a pretrained encoder reads any word
            return request._replace(known=(*request.known, *request.unknown), unknown=())
        unknown = tuple(self.vocabulary.unknown([text])) if self.vocabulary else ()
        known = tuple(word for word in dict.fromkeys(tokenize(text)) if word not in unknown)
        return ParsedRequest(text, known=known, unknown=unknown, corrected=text)

    def named(self, text: str, shown: Sequence[str]) -> str | None:
        """The one of the products shown that a text names by its place, as in "longer than the second one"."""
        place = self.read(text).place
        return None if place is None or place >= len(shown) else shown[place]

    def corrected(self, text: str) -> str:
        """A text with words that the retriever has learned in place of those that it has not."""
        if self.wording is None or self.vocabulary is None:
            return text
        request = self.wording.read(text)
        found = request.corrected
        for said, meant in request.changed:
            if any(word not in self.vocabulary for word in tokenize(said)):
                found = _with_other_words(found, said, meant)
        return found

    def _mean(self, batch: int) -> ItemInputs:
        """The mean of the gallery in place of a product."""
        items, mean_1D = self.gallery.items, self.gallery.mean_1D
        features_BD = mean_1D.new_zeros(batch, items.features_ND.shape[1])
        attributes_BA = items.attributes_NA.new_zeros(batch, items.attributes_NA.shape[1])
        return ItemInputs(features_BD, attributes_BA, mean_1D.expand(batch, -1))

    def _wishes(self, state: DialogState[S], offer: Message, reply: Message) -> list[Wishes] | None:
        """What holds after a reply in each dialog."""
        if self.wording is None:
            return None
        texts = reply.texts
        if texts is None and reply.words_BL is not None and self.vocabulary is not None:
            texts = self.vocabulary.decode(reply.words_BL)
        before = (state.queries[-1].wishes if state.queries else None) or [Wishes()] * state.batch
        items = [None] * state.batch if offer.item_B is None else offer.item_B.tolist()
        rows = zip(before, texts or [""] * state.batch, items, strict=True)
        return [self.wording.after(wishes, text, item) for wishes, text, item in rows]

    def top(self, state: DialogState[S], count: int = 10) -> list[list[Product]]:
        """Return the best products of each dialog, best first; before the first turn, typical products."""
        return self.nearest(
            state.queries[-1] if state.queries else self.gallery.mean_1D.expand(state.batch, -1), count
        )

    def nearest(
        self,
        query: Query | Tensor,
        count: int,
        allowed_N: Tensor | None = None,
        exclude_BK: Tensor | None = None,
    ) -> list[list[Product]]:
        """Return the best products for each query, best first, among those of the mask `allowed_N`.

        Products of `exclude_BK` are left out.
        """
        cost_BK, item_BK = self.gallery.top(query, min(count, len(self.gallery)), exclude_BK, allowed_N)
        distance_BK = cost_BK.abs().sqrt() * cost_BK.sign()  # a bonus can make a cost negative
        ids = self.gallery.items.ids
        return [
            [
                self.cards.product(ids[item], distance)
                for item, distance in zip(items, distances, strict=True)
                if distance < float("inf")  # not excluded
            ]
            for items, distances in zip(item_BK.tolist(), distance_BK.tolist(), strict=True)
        ]

    def _words(self, vocabulary: Vocabulary, texts: Sequence[str]) -> Tensor:
        """Encode the known words of texts, B×L, on the device of the gallery."""
        known = [[word for word in tokenize(text) if word in vocabulary][:MAX_WORDS] for text in texts]
        words_BL = vocabulary.encode([" ".join(words) for words in known], max(1, *map(len, known)))
        return words_BL.to(self.gallery.vectors_ND.device)


def _with_other_words(text: str, said: str, meant: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(said)}(?!\w)", lambda _: meant, text)


@dataclass(frozen=True)
class Dialogs:
    """Batch of finished dialogs: targets, state, and the 0-based rank of each target after every turn, B×T."""

    target_B: Tensor
    state: DialogState
    rank_BT: Tensor | None

    @property
    def shown_BT(self) -> Tensor:
        """Positions of the items offered, B×T."""
        return torch.stack(
            [turn.offer.item_B for turn in self.state.turns if turn.offer.item_B is not None], 1
        )

    @property
    def query_BTD(self) -> Tensor:
        """Queries after every turn, B×T×D."""
        return torch.stack([query.vector_BD for query in self.state.queries], 1)

    def logged(self, ids: Sequence[str], vocabulary: Vocabulary | None) -> list[list[LoggedTurn]]:
        """Return the turns of each dialog for the log, without the products shown."""
        columns = []
        for turn, rank_B in zip(self.state.turns, self.ranks.T.tolist(), strict=True):
            replies = turn.reply.texts
            words = list(map(str, turn.rounds))
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
    state: DialogState | None = None,
) -> Dialogs:
    """Simulate dialogs of `turns` turns, the first of which has the offer `first`.

    With `state`, they continue from there, and only the ranks of later turns are returned. Targets are used by
    the user and the ranks only.
    """
    state, offer = state or system.start(len(target_B)), first
    begun = len(state.turns)
    for number in range(begun, turns):
        if number > begun:
            offer = system.offer(state)
        state = system.observe(state, offer, user.reply(target_B, offer, number))
    if not rank:
        return Dialogs(target_B, state, None)
    # all turns together: the host waits for a GPU once
    rank_R = system.gallery.rank(Query.joined(state.queries[begun:]), target_B.repeat(turns - begun))
    return Dialogs(target_B, state, rank_R.view(-1, len(target_B)).T.contiguous())
