"""Searches in conversations of words and pictures: ChatSearcher, and baselines without a language model.

`image` compares the frozen vector of the last picture of a conversation, `text` its words by a dual encoder, `both` the
sum of words and picture in its space (CLIP-i, -t and -ti in ChatSearch). `concatenation` maps the vectors of words and
picture, side by side, to that of the target by ridge regression.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.config import EvalChatsearch
from fashioniq.data.conversations import SUBTASKS, Conversations, Sample
from fashioniq.features.frozen import FrozenFeatures, check_same_features
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.models.chat_tokens import ChatTokens
from fashioniq.models.chatsearcher import ChatSearcher
from fashioniq.models.text import TextEncoder
from fashioniq.systems.search_space import EncoderSource, encode_search_space
from fashioniq.trained import load_chatsearcher, load_dialog_encoder

_PENALTY = 1.0  # of the ridge regression, for vectors of unit length


@dataclass(frozen=True)
class Found:
    """Queries of conversations, Q×D, and whether a language model shows a picture there by itself, Q."""

    query_QD: Tensor
    shows_Q: Tensor | None = None


@dataclass(frozen=True)
class Search:
    """A way to search: the vectors of items, N×D, by position, and queries; None where it does not apply."""

    vectors_ND: Tensor
    queries: Callable[[Sequence[Sample]], Found | None]


class ChatSearcherQueries:
    """Queries of a ChatSearcher, which are the hidden states where [IMG] is forced."""

    def __init__(
        self, model: ChatSearcher, tokens: ChatTokens, features: FrozenFeatures, batch_size: int
    ) -> None:
        self.model, self.tokens, self.features, self.batch_size = model, tokens, features, batch_size

    def __call__(self, samples: Sequence[Sample]) -> Found:
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
) -> dict[str, Search]:
    """The methods of the settings but the random ranks, by name.

    Raises UserError if a run or an encoder does not match the features.
    """
    made: dict[str, Search] = {}
    if "chatsearcher" in settings.methods and settings.run:
        model, tokens, about = load_chatsearcher(settings.run, half=device.type == "cuda")
        check_same_features(settings.run, about.features, features.facts)
        model.to(device)
        with torch.no_grad():
            vectors_ND = torch.cat(
                [model.embed_images(part.to(device)).cpu() for part in features.vector_NF.split(65536)]
            )
        made["chatsearcher"] = Search(
            vectors_ND, ChatSearcherQueries(model, tokens, features, settings.batch_size)
        )
    if "image" in settings.methods:
        plain_NF = F.normalize(features.vector_NF - features.vector_NF.mean(0), dim=1)
        made["image"] = Search(plain_NF, _Space(None, plain_NF, features.positions).image)
    if settings.encoder and {"text", "both", "concatenation"} & set(settings.methods):
        encoder, vectors_ND = _space(settings, settings.encoder, data, features, device)
        space = _Space(encoder, vectors_ND, features.positions)
        made["text"], made["both"] = Search(vectors_ND, space.text), Search(vectors_ND, space.both)
        if "concatenation" in settings.methods:
            made["concatenation"] = Search(vectors_ND, space.concatenation(_usable(data, features)))
    return made


def _usable(data: Conversations, features: FrozenFeatures) -> list[Sample]:
    every = [sample for subtask in SUBTASKS for sample in data.samples(subtask, "train")]
    return [sample for sample in every if {*sample.pictures, sample.target} <= features.positions.keys()]


def _space(
    settings: EvalChatsearch,
    name: str,
    data: Conversations,
    features: FrozenFeatures,
    device: torch.device,
) -> tuple[TextEncoder | None, Tensor]:
    """The dual encoder `name`, and the vectors of all items in its space, N×D."""
    if (Path(name) / "model.json").is_file():
        if not settings.features:
            raise UserError(f"{name} needs the feature stores of the items; give --features")
        trained, _ = load_dialog_encoder(Path(name), FeatureStore(Path(settings.features[0])))
        with torch.no_grad():
            vectors_ND = trained.to(device).embed_images(features.vector_NF.to(device)).cpu()
        return trained, vectors_ND
    images = {item: path for item in features.ids if (path := data.picture(item))}
    source = EncoderSource(name, device, images=data.folder / "vision")
    space = encode_search_space(source, features.ids, images)
    if space.ids != features.ids:
        raise UserError(
            f"{len(features.ids) - len(space.ids)} items have features, but no readable picture for "
            f"{name}; correct their pictures"
        )
    return space.encoder, space.vectors_ND.cpu()


class _Space:
    """Queries in the space of a dual encoder; `positions` are those of the items among its vectors."""

    def __init__(self, encoder: TextEncoder | None, vectors_ND: Tensor, positions: Mapping[str, int]) -> None:
        self.encoder, self.vectors_ND, self.positions = encoder, vectors_ND, positions

    def image(self, samples: Sequence[Sample]) -> Found | None:
        if not all(sample.pictures for sample in samples):
            return None
        return Found(self.vectors_ND[[self.positions[sample.pictures[-1]] for sample in samples]])

    def text(self, samples: Sequence[Sample]) -> Found:
        assert self.encoder is not None, "the settings were checked"
        return Found(
            F.normalize(self.encoder.encode([sample.text for sample in samples]).float().cpu(), dim=1)
        )

    def both(self, samples: Sequence[Sample]) -> Found | None:
        image = self.image(samples)
        return image and Found(F.normalize(image.query_QD + self.text(samples).query_QD, dim=1))

    def concatenation(self, train: Sequence[Sample]) -> Callable[[Sequence[Sample]], Found]:
        """Queries by ridge regression, fitted on conversations and their targets."""
        x_QD = self._beside(train)
        y_QD = self.vectors_ND[[self.positions[sample.target] for sample in train]]
        square_DD = x_QD.T @ x_QD + _PENALTY * torch.eye(x_QD.shape[1])
        map_DD = torch.linalg.solve(square_DD, x_QD.T @ y_QD)
        return lambda samples: Found(F.normalize(self._beside(samples) @ map_DD, dim=1))

    def _beside(self, samples: Sequence[Sample]) -> Tensor:
        """Vectors of words and of the last picture, zeros without one, and a constant."""
        text_QD = self.text(samples).query_QD
        image_QD = torch.zeros_like(text_QD)
        for row, sample in enumerate(samples):
            if sample.pictures:
                image_QD[row] = self.vectors_ND[self.positions[sample.pictures[-1]]]
        return torch.cat([text_QD, image_QD, torch.ones(len(samples), 1)], 1)
