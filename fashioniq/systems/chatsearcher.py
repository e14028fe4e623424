"""System of a trained ChatSearcher: it answers in words, or shows the product that it finds by [IMG]."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import ALL
from fashioniq.data.conversation_records import ConversationTurn, Text, TurnPicture
from fashioniq.data.conversations import Conversations
from fashioniq.data.items import Items
from fashioniq.features.frozen import FrozenFeatures, check_same_features, frozen_features
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message, Turn as Exchange
from fashioniq.loop.rollout import System
from fashioniq.models.chat_tokens import ChatTokens, Words
from fashioniq.models.chatsearcher import ChatSearcher
from fashioniq.models.device import pick_device
from fashioniq.runs import ChatSearcherRun, read_run
from fashioniq.runs.galleries import gallery_of
from fashioniq.runs.trained import load_chatsearcher
from fashioniq.runs.training_data import Selection, first_path, recorded_settings

ANSWER = 40  # most tokens of an answer


class ChatState(NamedTuple):
    """What was said and shown in each dialog, and the answers to it: words, and whether a product is shown."""

    said: tuple[tuple[ConversationTurn, ...], ...]
    answers: tuple[str, ...]
    shows: tuple[bool, ...]


@dataclass(frozen=True)
class ChatSearcherRetriever:
    """Retriever that decodes an answer to each turn; without [IMG] in it, the query is that of a forced one.

    `ids` are the items of the gallery.
    """

    model: ChatSearcher
    tokens: ChatTokens
    features: FrozenFeatures
    ids: Sequence[str]

    def start(self, batch: int) -> ChatState:
        """State of `batch` dialogs without turns."""
        return ChatState(((),) * batch, ("",) * batch, (False,) * batch)

    def step(self, state: ChatState, turn: Exchange) -> tuple[Tensor, ChatState]:
        """Query after one more turn, B×S, and the state with the model's answer."""
        replies = turn.reply.texts or [""] * len(state.said)
        said = tuple(
            (*before, *self._offered(turn.offer, row), ConversationTurn("user", (Text(replies[row]),)))
            for row, before in enumerate(state.said)
        )
        found = [self._answer(one) for one in said]
        queries, answers, shows = zip(*found, strict=True)
        return torch.cat(queries), ChatState(said, answers, shows)

    def _offered(self, offer: Message, row: int) -> tuple[ConversationTurn, ...]:
        words = (Text(offer.questions[row]),) if offer.questions and offer.questions[row] else ()
        shown = () if offer.item_B is None else (TurnPicture(self.ids[int(offer.item_B[row])]),)
        return (ConversationTurn("assistant", (*words, *shown)),) if words or shown else ()

    def _answer(self, said: tuple[ConversationTurn, ...]) -> tuple[Tensor, str, bool]:
        asked = self.tokens.conversation(said, self.features.positions)
        device = self.model.log_temperature.device
        pictures = self.features.pictures(torch.tensor(asked.images, dtype=torch.long), device)
        ids, query = self.model.continued(self.tokens, asked, pictures, ANSWER)
        shows = query is not None
        if query is None:
            query, _ = self.model.search(self.tokens.collate([self.tokens.query(asked)]).to(device), pictures)
        words = [one for one in ids if one < self.tokens.image and one != self.tokens.tokens.end]
        return query.cpu(), self.tokens.tokens.decode(words), shows


class ModelAnswers:
    """Asker that says what the model answered; if it emitted [IMG], it shows the best item not shown before."""

    def offer(self, state: DialogState[ChatState], gallery: Gallery) -> Message:
        """The answer; before the first turn, an empty message. In a batch, all dialogs are shown items or none."""
        if not state.queries:
            return Message()
        best = None
        if any(state.state.shows):
            before = torch.stack(state.shown, 1) if state.shown else None
            best = gallery.top(state.queries[-1], 1, before)[1].flatten()
        return Message(questions=list(state.state.answers), item_B=best)


def load(run: Path, chosen: Selection) -> System:
    """Load the system of a run of train-chatsearcher.

    `data` is a folder of conversations, by default that of the run; the gallery holds its items of `split` (test,
    train or all), of one category if it is given. Its vectors may be `stored` in a folder. Raises UserError if a
    file is missing or does not match the run.
    """
    about, settings = read_run(run, ChatSearcherRun), recorded_settings(run)
    folder = chosen.data or first_path(settings.get("data"))
    if folder is None:
        raise UserError(f"expected the folder of the conversations in {run / 'config.yaml'}; give --data")
    conversations, on = Conversations(folder), pick_device(chosen.device)
    stores = [str(chosen.features)] if chosen.features else settings.get("features") or []
    frozen = frozen_features(list(conversations.items), stores)
    check_same_features(run, about.features, frozen.facts)
    model, tokens, _ = load_chatsearcher(run, half=on.type == "cuda")
    model.to(on).requires_grad_(False)
    items = conversations.items
    ids = [
        name
        for name in frozen.ids
        if chosen.split in (items[name].split, ALL) and chosen.category in (None, items[name].category)
    ]
    if len(ids) < 2:
        raise UserError(
            f"expected items of {chosen.split} in {folder}, found {len(ids)}; give --split train or test, or another "
            "--category"
        )
    vectors_NF = frozen.vector_NF[[frozen.positions[name] for name in ids]]
    found = Items.without_attributes(ids, vectors_NF)
    gallery = gallery_of(
        run, found, lambda x_BF: model.embed_images(x_BF.to(on)).cpu(), str(frozen.facts), chosen.stored
    )
    cards = ItemCards(
        {name: path for name in ids if (path := conversations.picture(name))},
        {name: items[name].caption for name in ids},
    )
    vocabulary = tokens.tokens.vocabulary if isinstance(tokens.tokens, Words) else None
    return System(
        ChatSearcherRetriever(model, tokens, frozen, ids), ModelAnswers(), gallery, vocabulary, cards
    )
