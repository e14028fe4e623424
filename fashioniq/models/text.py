"""Pretrained dialog encoders: CLIP and BLIP (image–text retrieval), which embed texts and images in one
space.

`transformers` loads them from a folder or the hub. All vectors have unit length, so Euclidean distance and
cosine similarity rank alike.
"""

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from fashioniq.data.dialogues import JOINED, each
from fashioniq.loop.messages import Turn

TEXTS = 128  # texts per batch
_JOIN = each(JOINED.join)


class TextEncoder(Protocol):
    """Texts → vectors of unit length, N×`size`. Texts are truncated to `limit` tokens."""

    size: int
    limit: int

    def encode(self, texts: list[str]) -> Tensor: ...

    def lengths(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text before truncation."""
        ...


class TextRetriever:
    """Questions and answers → query: the texts that `write` makes of the dialogs, by default joined by commas."""

    def __init__(
        self,
        encoder: TextEncoder,
        write: Callable[[Sequence[Sequence[str]]], list[str]] = _JOIN,
    ) -> None:
        self.encoder, self.write = encoder, write

    def start(self, batch: int) -> list[tuple[str, ...]]:
        """Return `batch` dialogs without rounds."""
        return [()] * batch

    def step(self, state: list[tuple[str, ...]], turn: Turn) -> tuple[Tensor, list[tuple[str, ...]]]:
        """Return the query after one more round, B×D, and the rounds so far."""
        state = [(*rounds, text) for rounds, text in zip(state, turn.rounds, strict=True)]
        return self.encoder.encode(self.write(state)), state


class RecordedQueries:
    """Precomputed queries for one batch of dialogs, B×T×D, of unit length."""

    def __init__(self, query_BTD: Tensor) -> None:
        self.query_BTD = query_BTD

    def start(self, batch: int) -> int:
        """Return 0, the number of turns so far."""
        return 0

    def step(self, state: int, turn: Turn) -> tuple[Tensor, int]:
        """Return the query of the turn, B×D."""
        return self.query_BTD[:, state], state + 1


class NoSearch:
    """Retriever without queries, for dialogs that are only recorded."""

    def start(self, batch: int) -> Tensor:
        """Return an empty query for each dialog, B×0."""
        return torch.zeros(batch, 0)

    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return empty queries, B×0."""
        return state, state


class ImageText:
    """Base class of models with one space for texts and images: a TextEncoder with `encode_images`."""

    kind: str
    size: int
    text_names: tuple[str, str]

    def __init__(self, model: Any, tokenizer: Any, processor: Any) -> None:
        self._model, self._tokenizer, self._processor = (
            model.eval().requires_grad_(False),
            tokenizer,
            processor,
        )
        self.limit = min(tokenizer.model_max_length, model.config.text_config.max_position_embeddings)
        self.image_size: int = model.config.vision_config.image_size

    def to(self, device: torch.device | str) -> "ImageText":
        """Move the model to a device, and return it."""
        self._model.to(device)
        return self

    @torch.inference_mode()
    def encode(self, texts: list[str]) -> Tensor:
        """Encode texts, N×D."""
        parts = [self._encode(texts[start : start + TEXTS]) for start in range(0, len(texts), TEXTS)]
        return torch.cat(parts) if parts else torch.empty(0, self.size)

    def _encode(self, texts: list[str]) -> Tensor:
        return self.embed(self.tokens(texts).to(self._model.device))

    def tokens(self, texts: Sequence[str]) -> Any:
        """Tokenize texts: ids and mask, truncated to `limit` tokens."""
        return self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.limit, return_tensors="pt"
        )

    def embed(self, tokens: Any) -> Tensor:
        """Encode the output of `tokens`, B×D."""
        return unit(self._texts(tokens["input_ids"], tokens["attention_mask"]))

    def text_half(self) -> dict[str, nn.Module]:
        """Return the modules of the text half by their names in the model."""
        return {name: getattr(self._model, name) for name in self.text_names}

    def lengths(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text before truncation, with start and end tokens."""
        return [len(ids) for ids in self._tokenizer(texts, verbose=False)["input_ids"]]

    @torch.inference_mode()
    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """Encode RGB images, N×D."""
        if not images:
            return torch.empty(0, self.size)
        pixels_BCHW = self._processor(images=list(images), return_tensors="pt", **self._sizes())[
            "pixel_values"
        ]
        return unit(self._images(pixels_BCHW.to(self._model.device)))

    def fingerprint(self) -> str:
        """Hash of the weights of the image half.

        Models that differ only in the text half share image vectors.
        """
        digest = hashlib.sha256()
        for module in self._image_half():
            for name, tensor in sorted(module.state_dict().items()):
                digest.update(name.encode() + tensor.detach().float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def _sizes(self) -> dict[str, Any]:
        return {}

    def _texts(self, ids_BL: Tensor, there_BL: Tensor) -> Tensor:
        raise NotImplementedError

    def _images(self, pixels_BCHW: Tensor) -> Tensor:
        raise NotImplementedError

    def _image_half(self) -> list[nn.Module]:
        raise NotImplementedError


class CLIP(ImageText):
    """CLIP (Radford et al. 2021), for texts of at most 77 tokens."""

    kind = "clip"
    text_names = ("text_model", "text_projection")

    def __init__(self, model: Any, tokenizer: Any, processor: Any) -> None:
        super().__init__(model, tokenizer, processor)
        self.size = model.config.projection_dim

    def _texts(self, ids_BL: Tensor, there_BL: Tensor) -> Tensor:
        return self._model.text_projection(
            self._model.text_model(input_ids=ids_BL, attention_mask=there_BL).pooler_output
        )

    def _images(self, pixels_BCHW: Tensor) -> Tensor:
        return self._model.visual_projection(self._model.vision_model(pixel_values=pixels_BCHW).pooler_output)

    def _image_half(self) -> list[nn.Module]:
        return [self._model.vision_model, self._model.visual_projection]


class BLIP(ImageText):
    """Contrastive half of BLIP (Li et al. 2022): the projected first token of each side.

    ChatIR's image retriever is fine-tuned from it.
    """

    kind = "blip"
    text_names = ("text_encoder", "text_proj")

    def __init__(self, model: Any, tokenizer: Any, processor: Any) -> None:
        super().__init__(model, tokenizer, processor)
        self.size = model.config.image_text_hidden_size

    def _sizes(self) -> dict[str, Any]:  # replaced weights may need another image size than the processor's
        return {"size": {"height": self.image_size, "width": self.image_size}}

    def _texts(self, ids_BL: Tensor, there_BL: Tensor) -> Tensor:
        return self._model.text_proj(
            self._model.text_encoder(input_ids=ids_BL, attention_mask=there_BL).last_hidden_state[:, 0]
        )

    def _images(self, pixels_BCHW: Tensor) -> Tensor:
        return self._model.vision_proj(
            self._model.vision_model(pixel_values=pixels_BCHW).last_hidden_state[:, 0]
        )

    def _image_half(self) -> list[nn.Module]:
        return [self._model.vision_model, self._model.vision_proj]


def load_text_encoder(name_or_folder: str, weights: Mapping[str, Tensor] | None = None) -> ImageText:
    """Load a CLIP or BLIP model from a folder or the hub; `weights` replace those of BLIP (see `blip_names`).

    Raises ImportError without `transformers`, ValueError for another type of model and for weights that do
    not fit, and OSError if the model cannot be read or downloaded.
    """
    from transformers import (
        AutoConfig,
        AutoImageProcessor,
        AutoTokenizer,
        BlipForImageTextRetrieval,
        CLIPModel,
        logging,
    )

    logging.set_verbosity_error()
    if os.path.isdir(name_or_folder):  # progress bars are for downloads only
        logging.disable_progress_bar()
    config = AutoConfig.from_pretrained(name_or_folder)
    if config.model_type not in ("clip", "blip"):
        raise ValueError(f"expected a CLIP or BLIP model, found the type {config.model_type}")
    tokenizer = AutoTokenizer.from_pretrained(name_or_folder)
    # The papers resized pictures with PIL.
    processor = AutoImageProcessor.from_pretrained(name_or_folder, backend="pil")
    if config.model_type == "clip":
        if weights is not None:
            raise ValueError(
                "weights can replace those of BLIP only; for CLIP, give a folder with the weights"
            )
        return CLIP(CLIPModel.from_pretrained(name_or_folder), tokenizer, processor)
    if weights is None:
        return BLIP(BlipForImageTextRetrieval.from_pretrained(name_or_folder), tokenizer, processor)
    weights = blip_names(weights)
    places = weights.get("vision_model.embeddings.position_embedding")
    if places is not None:
        config.vision_config.image_size = math.isqrt(places.shape[1] - 1) * config.vision_config.patch_size
    model = BlipForImageTextRetrieval.from_pretrained(
        name_or_folder, config=config, ignore_mismatched_sizes=True
    )
    _load_weights(model, weights)
    return BLIP(model, tokenizer, processor)


_BLIP_NAMES = (  # names in BLIP's own code, also used by ChatIR's weights → names in transformers
    ("visual_encoder.cls_token", "vision_model.embeddings.class_embedding"),
    ("visual_encoder.pos_embed", "vision_model.embeddings.position_embedding"),
    ("visual_encoder.patch_embed.proj.", "vision_model.embeddings.patch_embedding."),
    ("visual_encoder.blocks.", "vision_model.encoder.layers."),
    ("visual_encoder.norm.", "vision_model.post_layernorm."),
    (".norm1.", ".layer_norm1."),
    (".norm2.", ".layer_norm2."),
    (".attn.qkv.", ".self_attn.qkv."),
    (".attn.proj.", ".self_attn.projection."),
)


def blip_names(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors from BLIP's own code to the names of transformers; other names stay unchanged."""
    renamed = {}
    for name, tensor in weights.items():
        if name.startswith("visual_encoder."):
            for theirs, ours in _BLIP_NAMES:
                name = name.replace(theirs, ours)
        renamed[name] = tensor
    return renamed


def _load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load weights into a BLIP model. The text half must be complete; the image half may be missing."""
    own = model.state_dict()
    needed = {
        name
        for name in own
        if name.startswith(("text_encoder.", "text_proj.")) and ".crossattention." not in name
    }
    if missing := sorted(needed - weights.keys()):
        raise ValueError(f"{len(missing)} tensors of the text encoder are missing, such as {missing[0]}")
    for name in sorted(own.keys() & weights.keys()):
        if own[name].shape != weights[name].shape:
            shapes = f"expected shape {tuple(own[name].shape)}, found {tuple(weights[name].shape)}"
            raise ValueError(f"{name}: {shapes}")
    model.load_state_dict({name: tensor for name, tensor in weights.items() if name in own}, strict=False)


def unit(vectors_ND: Tensor) -> Tensor:
    """Scale vectors to unit length.

    The division is in float64, so that equal directions give equal vectors.
    """
    return F.normalize(vectors_ND.double(), dim=-1).float()
