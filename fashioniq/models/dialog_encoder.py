"""Image retriever F for question dialogs (ChatIR, Levy et al. 2023): dialog text → query in the image space.

The encoder is either the text half of a pretrained encoder, fine-tuned, or a small transformer trained from scratch.
Image features are frozen. All vectors have unit length, so Euclidean distance and cosine rank alike.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.words import PAD, Vocabulary, tokenize
from fashioniq.models.configs import DialogEncoderConfig
from fashioniq.models.layers import TransformerLayers, small_embedding

TEXTS = 128  # texts per batch


class Pretrained(Protocol):
    """A pretrained encoder whose text half can be trained."""

    size: int
    limit: int

    def tokens(self, texts: Sequence[str]) -> Any: ...
    def lengths(self, texts: Sequence[str]) -> list[int]: ...
    def embed(self, tokens: Any) -> Tensor: ...
    def text_half(self) -> dict[str, nn.Module]: ...


class TextTower(nn.Module):
    """Base class of trainable text encoders, texts → queries N×`size`.

    `tokens` prepares the input of `forward`. Texts are truncated to `limit` tokens.
    """

    size: int
    limit: int

    def tokens(self, texts: Sequence[str]) -> Any:
        raise NotImplementedError

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before truncation."""
        raise NotImplementedError

    def embed_images(self, features_ND: Tensor) -> Tensor:
        """Map image features to the query space, N×D."""
        raise NotImplementedError

    @torch.no_grad()
    def texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts in batches, N×D, without gradients."""
        device = next(self.parameters()).device
        return torch.cat(
            [
                self(self.tokens(texts[start : start + TEXTS]).to(device))
                for start in range(0, len(texts), TEXTS)
            ]
        )


class TextHalf(TextTower):
    """Text half of a pretrained encoder. Image features are the vectors of the same encoder.

    Weights keep the names that they have in the complete model.
    """

    def __init__(self, encoder: Pretrained) -> None:
        super().__init__()
        # The tuple hides the encoder from nn.Module, so its image half is neither trained nor saved.
        self._whole = (encoder,)
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
    """Transformer over the words of a dialog; the query, of size `width`, is the mean of its outputs.

    Image features are mapped to the same space by one linear layer.
    """

    def __init__(self, config: DialogEncoderConfig, *, vocabulary: Vocabulary, features: int) -> None:
        super().__init__()
        width, limit = config.width, config.max_tokens
        self.vocabulary, self.size, self.limit = vocabulary, width, limit
        self.image = nn.Linear(features, width, bias=False)
        self.word = small_embedding(len(vocabulary), width, padding=PAD)
        self.place = small_embedding(limit + 1, width)
        # first token, since a text may be empty
        self.special = nn.Parameter(torch.randn(width) * width**-0.5)
        self.drop = nn.Dropout(config.dropout)
        self.encoder = TransformerLayers(width, config.heads, config.hidden, config.layers, config.dropout)
        self.query = nn.Linear(width, width)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        return [len(tokenize(text)) for text in texts]

    def tokens(self, texts: Sequence[str]) -> Tensor:
        """Word ids, B×L, padded to the longest text of the batch."""
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
