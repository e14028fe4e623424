"""A retriever: the product shown plus a vector for each word, over all turns."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fashioniq.loop.messages import Turn
from fashioniq.models.configs import ModelConfig
from fashioniq.models.retriever import BaseRetriever
from fashioniq.options import option


@dataclass(frozen=True, kw_only=True)
class Sizes(ModelConfig):
    """Sizes of a bag of words."""

    width: int = option(8, "size of the search space", least=1)
    scale: float = option(1.0, "initial scale of the word vectors", least=0)


class Bag(BaseRetriever):
    Options = Sizes

    def __init__(
        self, config: Sizes, *, vocabulary: int, features: int, max_words: int, **further: int
    ) -> None:
        super().__init__(config, features=features, max_words=max_words)
        self.word = nn.Embedding(vocabulary, config.width, padding_idx=0)
        self.word.weight.data.mul_(config.scale)

    def start(self, batch: int) -> Tensor:
        return torch.zeros(batch, self.width, device=self.word.weight.device)

    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        state = state + self.word(turn.words_BL).sum(1)
        return self.offered(turn) + state, state

    def forward(
        self, words_BTL: Tensor, attributes_BTA: Tensor, image_BTD: Tensor, mask_BT: Tensor
    ) -> Tensor:
        said_BTD = self.word(words_BTL).sum(2) * mask_BT.unsqueeze(-1).to(self.word.weight.dtype)
        last_BT = mask_BT.to(image_BTD.dtype) - torch.nn.functional.pad(mask_BT[:, 1:], (0, 1)).to(
            image_BTD.dtype
        )
        shown_BD = (self.embed_images(image_BTD) * last_BT.unsqueeze(-1)).sum(1)
        return shown_BD + said_BTD.sum(1)
