"""The image retriever F of question dialogs (ChatIR, Levy et al. 2023): text → a query in the space of images, whose features are frozen.

It is the text half of CLIP or BLIP, trained on, or a small transformer, trained from scratch. All vectors have unit length, so that the
nearest by distance are the nearest by cosine.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.words import PAD, Vocabulary, tokenize
from fashioniq.models.configs import DialogEncoderConfig
from fashioniq.models.layers import Encoder, small_embedding
from fashioniq.models.text import TEXTS, ImageText


class TextTower(nn.Module):
    """What dialogs train: texts → queries, N×`size`, of which no more than `limit` tokens are read; `tokens` are what `forward` takes."""

    size: int
    limit: int

    def tokens(self, texts: Sequence[str]) -> Any:
        raise NotImplementedError

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """How many tokens each text has before it is cut."""
        raise NotImplementedError

    def embed_images(self, features_ND: Tensor) -> Tensor:
        """The images in the space of the queries, N×D."""
        raise NotImplementedError

    @torch.no_grad()
    def encode(self, texts: Sequence[str]) -> Tensor:
        """The queries of texts, N×D; in evaluation mode without dropout."""
        device = next(self.parameters()).device
        return torch.cat([self(self.tokens(texts[start : start + TEXTS]).to(device)) for start in range(0, len(texts), TEXTS)])


class TextHalf(TextTower):
    """The text half of CLIP or BLIP; its weights have the names that they have in the whole model. Its images' vectors are the features."""

    def __init__(self, encoder: ImageText) -> None:
        super().__init__()
        self._whole = (encoder,)  # in a tuple, so that the image half is no part of this module: neither trained nor saved
        self.size, self.limit = encoder.size, encoder.limit
        for name, module in encoder.text_half().items():
            self.add_module(name, module.requires_grad_(True))

    def tokens(self, texts: Sequence[str]) -> Any:
        return self._whole[0].tokens(texts)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return self._whole[0].lengths(list(texts))

    def forward(self, tokens: Any) -> Tensor:
        return self._whole[0].embed(tokens)

    def embed_images(self, features_ND: Tensor) -> Tensor:
        return F.normalize(features_ND, dim=-1)


class DialogEncoder(TextTower):
    """A transformer reads the words; the mean of its outputs is the query, `width` wide. The features go through one linear map."""

    def __init__(self, config: DialogEncoderConfig, *, vocabulary: Vocabulary, features: int) -> None:
        super().__init__()
        width, limit = config.width, config.max_tokens
        self.vocabulary, self.size, self.limit = vocabulary, width, limit
        self.image = nn.Linear(features, width, bias=False)
        self.word = small_embedding(len(vocabulary), width, padding=PAD)
        self.place = small_embedding(limit + 1, width)
        self.special = nn.Parameter(torch.randn(width) * width**-0.5)  # stands before the words: there may be none
        self.drop = nn.Dropout(config.dropout)
        self.encoder = Encoder(width, config.heads, config.hidden, config.layers, config.dropout)
        self.query = nn.Linear(width, width)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(tokenize(text)) for text in texts]

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """Word ids, B×L, padded to the longest text of them."""
        words_BL = self.vocabulary.encode(texts, self.limit)
        return words_BL[:, : int((words_BL != PAD).sum(1).max())]

    def forward(self, words_BL: Tensor) -> Tensor:
        words_BLD = torch.cat([self.special.expand(len(words_BL), 1, -1), self.word(words_BL)], 1)
        mask_BL = F.pad(words_BL != PAD, (1, 0), value=True)
        x_BLD = self.encoder(self.drop(words_BLD + self.place.weight[: words_BLD.shape[1]]), mask_BL)
        mean_BD = (x_BLD * mask_BL.unsqueeze(-1)).sum(1) / mask_BL.sum(1, keepdim=True)
        return F.normalize(self.query(mean_BD), dim=-1)

    def embed_images(self, features_ND: Tensor) -> Tensor:
        return F.normalize(self.image(features_ND), dim=-1)
