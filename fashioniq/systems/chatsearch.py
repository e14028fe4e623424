"""Searches in conversations of words and pictures: ChatSearcher, and baselines without a language model.

`image` compares the frozen vector of the last picture of a conversation, `text` its words by a dual encoder, `both` the
sum of words and picture in its space (CLIP-i, -t and -ti in ChatSearch). `concatenation` maps the vectors of words and
picture, side by side, to that of the target by ridge regression. `retriever` is a dialog retriever of Fashion IQ.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.askers.recorded import RecordedOffers, recorded_items
from fashioniq.config import EvalChatsearch
from fashioniq.data.conversation_records import (
    SUBTASKS,
    Content,
    ConversationContent,
    ConversationSample,
    ConversationTurn,
)
from fashioniq.data.conversations import Conversations, OpenConversation
from fashioniq.data.items import Items
from fashioniq.encoders import load
from fashioniq.encoders.protocol import unit
from fashioniq.features.frozen import FrozenFeatures, check_same_features, frozen_features
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.loop.rollout import System, rollout
from fashioniq.metrics.measures import hits
from fashioniq.models.chat_tokens import ChatTokens
from fashioniq.models.chatsearcher import ChatSearcher
from fashioniq.models.text import TextEncoder
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.trained import load_chatsearcher, load_dialog_encoder, load_retriever
from fashioniq.systems.recorded_sessions import CAPTIONS
from fashioniq.users.recorded import RecordedReplies

_PENALTIES = tuple(10.0**power for power in range(-4, 3))  # of ridge regression, for vectors of length 1
_TRAIN = "conversations of train whose items have features"
_HELD_OUT = 10  # one in ten targets of train, on which the penalty is chosen


@dataclass(frozen=True)
class Found:
    """Queries of conversations, Q×D, and whether a language model shows a picture there by itself, Q."""

    query_QD: Tensor
    shows_Q: Tensor | None = None


@dataclass(frozen=True)
class VectorSearch:
    """A way to search: the vectors of items, N×D, by position, and queries; None where it does not apply."""

    vectors_ND: Tensor
    queries: Callable[[Sequence[ConversationContent]], Found | None]

    def converse(
        self, gallery: Gallery, samples: Sequence[ConversationSample], target_Q: Tensor
    ) -> tuple[Found, Tensor] | None:
        """Queries after the last turn of recorded conversations, and the ranks of the targets, Q.

        What was said before the last offer is part of the state, as a query is wanted after the last turn alone.
        """
        said, offered, asked = zip(*(one.last_exchange for one in samples), strict=True)
        system = System(ConversationRetriever(self), RecordedOffers([]), gallery)
        user = RecordedReplies([Message(content=asked)])
        before = DialogState(len(samples), ConversationState(said))
        dialogs = rollout(system, user, target_Q, Message(content=offered), 1, state=before)
        found = dialogs.state.state.found
        return found and (found, dialogs.ranks[:, 0])


class ConversationState(NamedTuple):
    """What was said and shown in each dialog, and the queries after it, None where the search does not apply."""

    said: tuple[tuple[ConversationTurn, ...], ...]
    found: Found | None = None


@dataclass(frozen=True)
class ConversationRetriever:
    """Retriever of conversations of words and pictures."""

    search: VectorSearch

    def start(self, batch: int) -> ConversationState:
        """State of `batch` dialogs without turns."""
        return ConversationState(((),) * batch)

    def step(self, state: ConversationState, turn: Turn) -> tuple[Tensor, ConversationState]:
        """Query after one more turn, B×D, and the state; zeros if the search does not apply."""
        none: list[Content] = [()] * len(state.said)
        offers, replies = turn.offer.content or none, turn.reply.content or none
        said = tuple(
            (
                *before,
                *([ConversationTurn("assistant", offer)] if offer else []),
                ConversationTurn("user", reply),
            )
            for before, offer, reply in zip(state.said, offers, replies, strict=True)
        )
        found = self.search.queries([OpenConversation(turns) for turns in said])
        nowhere_BD = torch.zeros(len(said), self.search.vectors_ND.shape[1])
        return nowhere_BD if found is None else found.query_QD, ConversationState(said, found)


class ChatSearcherQueries:
    """Queries of a ChatSearcher, which are the hidden states where [IMG] is forced."""

    def __init__(
        self, model: ChatSearcher, tokens: ChatTokens, features: FrozenFeatures, batch_size: int
    ) -> None:
        self.model, self.tokens, self.features, self.batch_size = model, tokens, features, batch_size

    def __call__(self, samples: Sequence[ConversationContent]) -> Found:
        device = self.model.log_temperature.device
        asked = [
            self.tokens.query(self.tokens.conversation(one.turns, self.features.positions)) for one in samples
        ]
        order = sorted(range(len(asked)), key=lambda row: len(asked[row].ids))  # for less padding
        found = []
        for start in range(0, len(order), self.batch_size):
            batch = self.tokens.collate([asked[row] for row in order[start : start + self.batch_size]])
            found.append(self.model.search(batch.to(device), self.features.pictures(batch.image_R, device)))
        back_Q = torch.tensor(order).argsort()
        query_QD, shows_Q = (torch.cat(parts).cpu()[back_Q] for parts in zip(*found, strict=True))
        return Found(query_QD, shows_Q)


def searches(
    settings: EvalChatsearch, data: Conversations, features: FrozenFeatures, device: torch.device
) -> dict[str, VectorSearch]:
    """The methods of the settings but the random ranks, by name; without conversations of train, concatenation is
    left out unless it was asked for.

    Raises UserError if a run or an encoder does not match the features.
    """
    made: dict[str, VectorSearch] = {}
    train = _usable(data, features) if "concatenation" in settings.methods else None
    if train == [] and "concatenation" in settings.method:
        raise UserError(f"--method concatenation needs {_TRAIN} in {settings.data}; leave it out")
    if "chatsearcher" in settings.methods and settings.run:
        model, tokens, about = load_chatsearcher(settings.run, half=device.type == "cuda")
        check_same_features(settings.run, about.features, features.facts)
        model.to(device)
        with torch.no_grad():
            vectors_ND = torch.cat(
                [model.embed_images(part.to(device)).cpu() for part in features.vector_NF.split(65536)]
            )
        made["chatsearcher"] = VectorSearch(
            vectors_ND, ChatSearcherQueries(model, tokens, features, settings.batch_size)
        )
    if "image" in settings.methods:
        plain_NF = F.normalize(features.vector_NF - features.vector_NF.mean(0), dim=1)
        made["image"] = VectorSearch(plain_NF, _Space(None, plain_NF, features.positions).image)
    if settings.encoder and {"text", "both", "concatenation"} & set(settings.methods):
        encoder, vectors_ND = _space(settings, settings.encoder, features, device)
        space = _Space(encoder, vectors_ND, features.positions)
        made["text"], made["both"] = (
            VectorSearch(vectors_ND, space.text),
            VectorSearch(vectors_ND, space.both),
        )
        if train:
            made["concatenation"] = VectorSearch(vectors_ND, space.concatenation(train))
        elif train is not None:
            print(f"left out: concatenation, without {_TRAIN}")
    if settings.retriever and "retriever" in settings.methods:
        made["retriever"] = _retriever(settings, settings.retriever, features, device)
    return made


def _retriever(
    settings: EvalChatsearch, run: Path, features: FrozenFeatures, device: torch.device
) -> VectorSearch:
    """Search of a dialog retriever, which is told the pictures and words of the rounds with a picture."""
    store = FeatureStore(Path(settings.features[0]))
    model, vocabulary, _ = load_retriever(run, read_run(run, RetrieverRun).category, store)
    items = store.items(features.ids).to(device)
    gallery = Gallery(items, items.embedded(model.to(device).embed_images))

    @torch.no_grad()
    def queries(samples: Sequence[ConversationContent]) -> Found | None:
        steps = [sample.steps for sample in samples]
        if not all(steps):
            return None
        query_QD = torch.empty(len(steps), gallery.vectors_ND.shape[1])
        for turns in {len(one) for one in steps}:
            rows = torch.tensor([row for row, one in enumerate(steps) if len(one) == turns])
            for part in rows.split(settings.batch_size):
                said = [one for row in part.tolist() for one in steps[row]]
                item_BT = torch.tensor([items.positions[name] for name, _ in said], device=device)
                asker = recorded_items(item_BT.view(-1, turns))
                words_RL = vocabulary.encode([text for _, text in said], model.max_words * CAPTIONS)
                user = RecordedReplies.of_words(words_RL.view(len(part), turns, -1).to(device))
                system = System(model, asker, gallery)
                unused_B = torch.zeros(len(part), dtype=torch.long, device=device)  # neither uses the target
                dialogs = rollout(system, user, unused_B, asker.offers[0], turns, rank=False)
                query_QD[part] = dialogs.state.queries[-1].vector_BD.cpu()
        return Found(query_QD)

    return VectorSearch(gallery.vectors_ND.cpu(), queries)


def _usable(data: Conversations, features: FrozenFeatures) -> list[ConversationSample]:
    every = [sample for subtask in SUBTASKS for sample in data.samples(subtask, "train")]
    return [sample for sample in every if {*sample.pictures, sample.target} <= features.positions.keys()]


def _space(
    settings: EvalChatsearch, name: str, features: FrozenFeatures, device: torch.device
) -> tuple[TextEncoder, Tensor]:
    """The encoder `name`, and the vectors of all items in its space, N×D."""
    if (Path(name) / "model.json").is_file():
        trained, _ = load_dialog_encoder(Path(name), FeatureStore(Path(settings.features[0])))
        with torch.no_grad():
            vectors_ND = trained.to(device).embed_images(features.vector_NF.to(device)).cpu()
        return trained, vectors_ND
    encoder = load(name, device=device)
    own = frozen_features(features.ids, settings.features, encoder.identity)
    if lacking := len(features.ids) - len(own.ids):
        raise UserError(f"{lacking} items have features, but none of {name}; extract them for all items")
    return encoder, unit(own.vector_NF[[own.positions[item] for item in features.ids]])


class _Space:
    """Queries in the space of a dual encoder; `positions` are those of the items among its vectors."""

    def __init__(self, encoder: TextEncoder | None, vectors_ND: Tensor, positions: Mapping[str, int]) -> None:
        self.encoder, self.vectors_ND, self.positions = encoder, vectors_ND, positions

    def image(self, samples: Sequence[ConversationContent]) -> Found | None:
        if not all(sample.pictures for sample in samples):
            return None
        return Found(self.vectors_ND[[self.positions[sample.pictures[-1]] for sample in samples]])

    def text(self, samples: Sequence[ConversationContent]) -> Found:
        """The words of all turns; the oldest ones are left out until the others fit, as in a ChatSearcher."""
        encoder = self.encoder
        assert encoder is not None, "the settings were checked"
        said = [list(sample.texts) for sample in samples]
        while too_long := [
            texts
            for texts, length in zip(said, encoder.lengths(list(map(" ".join, said))), strict=True)
            if length > encoder.limit and len(texts) > 1
        ]:
            for texts in too_long:
                del texts[0]
        return Found(F.normalize(encoder.texts(list(map(" ".join, said))).float().cpu(), dim=1))

    def both(self, samples: Sequence[ConversationContent]) -> Found | None:
        image = self.image(samples)
        return image and Found(F.normalize(image.query_QD + self.text(samples).query_QD, dim=1))

    def concatenation(
        self, train: Sequence[ConversationSample]
    ) -> Callable[[Sequence[ConversationContent]], Found]:
        """Queries by ridge regression, fitted on conversations and their targets.

        The penalty is the one by which most held-out targets are among the first 10 of train's targets.
        """
        targets = sorted({sample.target for sample in train})
        held_out = set(targets[::_HELD_OUT])
        x_QD = self._beside(train)
        y_QD = self.vectors_ND[[self.positions[sample.target] for sample in train]]
        own_Q = torch.tensor([sample.target in held_out for sample in train])
        gallery_ND = self.vectors_ND[[self.positions[name] for name in targets]]
        gallery = Gallery(Items.without_attributes(targets, gallery_ND), gallery_ND)
        place_Q = torch.tensor([gallery.items.positions[sample.target] for sample in train])

        def found(penalty: float) -> float:
            query_QD = F.normalize(x_QD[own_Q] @ _ridge(x_QD[~own_Q], y_QD[~own_Q], penalty), dim=1)
            return hits(gallery.rank(query_QD, place_Q[own_Q]), 10).mean().item()

        penalty = max(_PENALTIES, key=found)
        map_DD = _ridge(x_QD, y_QD, penalty)
        print(f"concatenation: penalty {penalty:g}, chosen on {int(own_Q.sum()):,} conversations of train")
        return lambda samples: Found(F.normalize(self._beside(samples) @ map_DD, dim=1))

    def _beside(self, samples: Sequence[ConversationContent]) -> Tensor:
        """Vectors of words and of the last picture, zeros without one, and a constant."""
        text_QD = self.text(samples).query_QD
        image_QD = torch.zeros_like(text_QD)
        for row, sample in enumerate(samples):
            if sample.pictures:
                image_QD[row] = self.vectors_ND[self.positions[sample.pictures[-1]]]
        return torch.cat([text_QD, image_QD, torch.ones(len(samples), 1)], 1)


def _ridge(x_QD: Tensor, y_QD: Tensor, penalty: float) -> Tensor:
    """Linear map from rows of x to those of y."""
    return torch.linalg.solve(x_QD.T @ x_QD + penalty * torch.eye(x_QD.shape[1]), x_QD.T @ y_QD)
