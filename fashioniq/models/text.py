"""Dialog encoders of the general protocol: CLIP and BLIP (image–text retrieval), whose texts and images share one space.

They come through `transformers`, by a folder or by a name of the hub. All vectors are of unit length, so that Euclidean distance ranks
as cosine similarity does.
"""

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from fashioniq.data.dialogues import JOINED, Dialogue, dialog_text
from fashioniq.loop.messages import Turn

TEXTS = 128  # encoded at a time


class TextEncoder(Protocol):
    """Texts → vectors of unit length, N×`size`; what is longer than `limit` tokens is cut."""

    size: int
    limit: int

    def encode(self, texts: list[str]) -> Tensor: ...

    def lengths(self, texts: list[str]) -> list[int]:
        """How many tokens each text has before it is cut."""
        ...


class TextRetriever:
    """Questions and answers → a query: the texts of all rounds joined by `separator`, or with `last_only` the last one, as PlugIR's are."""

    def __init__(self, encoder: TextEncoder, separator: str = JOINED, last_only: bool = False) -> None:
        self.encoder, self.separator, self.last_only = encoder, separator, last_only

    def start(self, batch: int) -> list[tuple[str, ...]]:
        """No rounds."""
        return [()] * batch

    def step(self, state: list[tuple[str, ...]], turn: Turn) -> tuple[Tensor, list[tuple[str, ...]]]:
        """The query after one more round, B×D."""
        state = [(*rounds, text) for rounds, text in zip(state, turn.rounds, strict=True)]
        queries = [dialog_text(Dialogue("", rounds, self.last_only), len(rounds) - 1, self.separator) for rounds in state]
        return self.encoder.encode(queries), state


class RecordedQueries:
    """Queries of another system for one batch of dialogs, B×T×D, of unit length."""

    def __init__(self, query_BTD: Tensor) -> None:
        self.query_BTD = query_BTD

    def start(self, batch: int) -> int:
        """The number of turns so far: none."""
        return 0

    def step(self, state: int, turn: Turn) -> tuple[Tensor, int]:
        """The query of the turn, B×D."""
        return self.query_BTD[:, state], state + 1


class NoSearch:
    """Makes no queries, for dialogs that nothing is searched by."""

    def start(self, batch: int) -> Tensor:
        """An empty query for each dialog."""
        return torch.zeros(batch, 0)

    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Empty queries, B×0."""
        return state, state


class ImageText:
    """A model of texts and images in one space: a TextEncoder, and `encode_images` for the images that are searched."""

    kind: str
    size: int
    text_names: tuple[str, str]

    def __init__(self, model: Any, tokenizer: Any, processor: Any) -> None:
        self._model, self._tokenizer, self._processor = model.eval().requires_grad_(False), tokenizer, processor
        self.limit = min(tokenizer.model_max_length, model.config.text_config.max_position_embeddings)
        self.image_size: int = model.config.vision_config.image_size

    def to(self, device: torch.device | str) -> "ImageText":
        """The same on another device."""
        self._model.to(device)
        return self

    @torch.inference_mode()
    def encode(self, texts: list[str]) -> Tensor:
        """Texts as vectors, N×D."""
        parts = [self._encode(texts[start : start + TEXTS]) for start in range(0, len(texts), TEXTS)]
        return torch.cat(parts) if parts else torch.empty(0, self.size)

    def _encode(self, texts: list[str]) -> Tensor:
        return self.embed(self.tokens(texts).to(self._model.device))

    def tokens(self, texts: Sequence[str]) -> Any:
        """The ids and the mask of texts, cut at the limit."""
        return self._tokenizer(list(texts), padding=True, truncation=True, max_length=self.limit, return_tensors="pt")

    def embed(self, tokens: Any) -> Tensor:
        """Texts of such ids as vectors, B×D."""
        return unit(self._texts(tokens["input_ids"], tokens["attention_mask"]))

    def text_half(self) -> dict[str, nn.Module]:
        """The modules that texts go through, by the names that they have in the model."""
        return {name: getattr(self._model, name) for name in self.text_names}

    def lengths(self, texts: list[str]) -> list[int]:
        """How many tokens each text has, with those that begin and end it, before it is cut."""
        return [len(ids) for ids in self._tokenizer(texts, verbose=False)["input_ids"]]

    @torch.inference_mode()
    def encode_images(self, images: Sequence[Image.Image]) -> Tensor:
        """RGB images as vectors, N×D."""
        if not images:
            return torch.empty(0, self.size)
        pixels_BCHW = self._processor(images=list(images), return_tensors="pt", **self._sizes())["pixel_values"]
        return unit(self._images(pixels_BCHW.to(self._model.device)))

    def fingerprint(self) -> str:
        """What identifies the weights that images go through: models that differ in their texts alone share the images' vectors."""
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
    """CLIP (Radford et al. 2021): texts of 77 tokens at most."""

    kind = "clip"
    text_names = ("text_model", "text_projection")

    def __init__(self, model: Any, tokenizer: Any, processor: Any) -> None:
        super().__init__(model, tokenizer, processor)
        self.size = model.config.projection_dim

    def _texts(self, ids_BL: Tensor, there_BL: Tensor) -> Tensor:
        return self._model.text_projection(self._model.text_model(input_ids=ids_BL, attention_mask=there_BL).pooler_output)

    def _images(self, pixels_BCHW: Tensor) -> Tensor:
        return self._model.visual_projection(self._model.vision_model(pixel_values=pixels_BCHW).pooler_output)

    def _image_half(self) -> list[nn.Module]:
        return [self._model.vision_model, self._model.visual_projection]


class BLIP(ImageText):
    """BLIP's contrastive half (Li et al. 2022), which ChatIR's image retriever is trained from: the first token of each side, projected."""

    kind = "blip"
    text_names = ("text_encoder", "text_proj")

    def __init__(self, model: Any, tokenizer: Any, processor: Any) -> None:
        super().__init__(model, tokenizer, processor)
        self.size = model.config.image_text_hidden_size

    def _sizes(self) -> dict[str, Any]:  # weights of another size than the processor's may have been put in
        return {"size": {"height": self.image_size, "width": self.image_size}}

    def _texts(self, ids_BL: Tensor, there_BL: Tensor) -> Tensor:
        return self._model.text_proj(self._model.text_encoder(input_ids=ids_BL, attention_mask=there_BL).last_hidden_state[:, 0])

    def _images(self, pixels_BCHW: Tensor) -> Tensor:
        return self._model.vision_proj(self._model.vision_model(pixel_values=pixels_BCHW).last_hidden_state[:, 0])

    def _image_half(self) -> list[nn.Module]:
        return [self._model.vision_model, self._model.vision_proj]


def load_text_encoder(name_or_folder: str, weights: Mapping[str, Tensor] | None = None) -> ImageText:
    """A CLIP or BLIP model of a folder or of the hub, both halves of it; `weights` replace its own (BLIP; see `blip_names`).

    Raises ImportError without `transformers`, ValueError for a model of another kind and for weights that do not fit, OSError for one that cannot
    be had.
    """
    from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer, BlipForImageTextRetrieval, CLIPModel, logging

    logging.set_verbosity_error()
    if os.path.isdir(name_or_folder):  # a download shows its progress
        logging.disable_progress_bar()
    config = AutoConfig.from_pretrained(name_or_folder)
    if config.model_type not in ("clip", "blip"):
        raise ValueError(f"it is a model of the type {config.model_type}: CLIP and BLIP for image–text retrieval are known")
    tokenizer = AutoTokenizer.from_pretrained(name_or_folder)
    processor = AutoImageProcessor.from_pretrained(name_or_folder, backend="pil")  # as the papers' pictures were resized
    if config.model_type == "clip":
        if weights is not None:
            raise ValueError("weights can be put into BLIP alone: give a folder with CLIP's")
        return CLIP(CLIPModel.from_pretrained(name_or_folder), tokenizer, processor)
    if weights is None:
        return BLIP(BlipForImageTextRetrieval.from_pretrained(name_or_folder), tokenizer, processor)
    weights = blip_names(weights)
    places = weights.get("vision_model.embeddings.position_embedding")
    if places is not None:
        config.vision_config.image_size = math.isqrt(places.shape[1] - 1) * config.vision_config.patch_size
    model = BlipForImageTextRetrieval.from_pretrained(name_or_folder, config=config, ignore_mismatched_sizes=True)
    _put(model, weights)
    return BLIP(model, tokenizer, processor)


_BLIP_NAMES = (  # of BLIP's own code, which ChatIR's weights have → of transformers
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
    """Tensors of BLIP's own code under the names of transformers; those that have these names already keep them."""
    renamed = {}
    for name, tensor in weights.items():
        if name.startswith("visual_encoder."):
            for theirs, ours in _BLIP_NAMES:
                name = name.replace(theirs, ours)
        renamed[name] = tensor
    return renamed


def _put(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put weights into a BLIP model; all that a text goes through must be there, the image half may stay as it is."""
    own = model.state_dict()
    needed = {name for name in own if name.startswith(("text_encoder.", "text_proj.")) and ".crossattention." not in name}
    if missing := sorted(needed - weights.keys()):
        raise ValueError(f"the weights lack {len(missing)} tensors of the text encoder, as {missing[0]}")
    for name in sorted(own.keys() & weights.keys()):
        if own[name].shape != weights[name].shape:
            raise ValueError(f"{name} is of shape {tuple(weights[name].shape)}, {tuple(own[name].shape)} was expected")
    model.load_state_dict({name: tensor for name, tensor in weights.items() if name in own}, strict=False)


def unit(vectors_ND: Tensor) -> Tensor:
    """Vectors at unit length in float32, divided in float64 so that equal directions become equal vectors."""
    return F.normalize(vectors_ND.double(), dim=-1).float()
