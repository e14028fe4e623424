"""What every encoder of pictures or texts has."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from fashioniq.encoders.identity import Identity
from fashioniq.files import UserError

UNLIMITED = 10**9  # tokens of a text, for encoders that do not cut texts
TEXTS = 128  # texts per batch


class Encoder(Protocol):
    """Pictures or texts → vectors of unit length, N×`size`. A text is cut to `limit` tokens."""

    identity: Identity
    size: int
    limit: int = UNLIMITED

    def images(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Encode RGB pictures, N×D. Raises UserError without a picture half."""
        raise UserError(
            f"the encoder {self.identity.encoder} has no picture half; give one that encodes pictures"
        )

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts, N×D. Raises UserError without a text half."""
        raise UserError(f"the encoder {self.identity.encoder} has no text half; give one that encodes texts")

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before it is cut; 0 where nothing is."""
        return [0] * len(texts)


class TokenizingEncoder(Encoder):
    """Encoder of texts by a model and a tokenizer of `transformers`."""

    padding: bool | str = True  # to the longest text of a batch
    model: Any
    tokenizer: Any

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts, N×D."""
        return in_batches(self._embed_texts, texts, TEXTS, self.size)

    @torch.inference_mode()
    def _embed_texts(self, texts: Sequence[str]) -> Tensor:
        return self.embed(self.tokens(texts).to(self.model.device))

    def tokens(self, texts: Sequence[str]) -> Any:
        """Tokenize texts: ids and mask, truncated to `limit` tokens."""
        return self.tokenizer(
            list(texts), padding=self.padding, truncation=True, max_length=self.limit, return_tensors="pt"
        )

    def embed(self, tokens: Any) -> Tensor:
        """Encode the output of `tokens`, B×D."""
        raise NotImplementedError

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text before truncation, with start and end tokens."""
        return [len(ids) for ids in self.tokenizer(list(texts), verbose=False)["input_ids"]]


def encodes_pictures(encoder: Encoder) -> bool:
    """Whether an encoder has a picture half."""
    try:
        encoder.images([])
    except UserError:
        return False
    return True


def unit(vectors_ND: Tensor) -> Tensor:
    """Scale vectors to unit length.

    The division is in float64, so that equal directions give equal vectors.
    """
    return F.normalize(vectors_ND.double(), dim=-1).float()


def fingerprint(parts: Iterable[Any]) -> str:
    """Hash of the weights of modules or parameters: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        tensors = part.state_dict() if isinstance(part, nn.Module) else {"": part}
        for name, tensor in sorted(tensors.items()):
            digest.update(name.encode() + tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def check_finite(model: nn.Module) -> None:
    """Raise ValueError if a weight is NaN or infinite."""
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} has weights that are NaN or infinite")


def check_words(tokenizer: Any) -> None:
    """Raise ValueError for a tokenizer without words, which `transformers` makes where its files are missing."""
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise ValueError("its tokenizer has no words; is its tokenizer.json or vocab.txt missing?")


def digest_of(text: str) -> str:
    """First 16 hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def in_batches(encode: Any, texts: Sequence[str], count: int, size: int) -> Tensor:
    """Vectors of texts that are encoded `count` at a time, N×D."""
    parts = [encode(texts[start : start + count]) for start in range(0, len(texts), count)]
    return torch.cat(parts) if parts else torch.empty(0, size)
