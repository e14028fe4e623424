"""Models of `transformers` with one space for pictures and texts: CLIP, BLIP, SigLIP, SigLIP 2, BLIP-2."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

import torch
from PIL import Image
from torch import Tensor, nn

from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import (
    TokenizingEncoder,
    check_finite,
    check_words,
    digest_of,
    fingerprint,
    unit,
)
from fashioniq.encoders.weights import read_weights


class ImageText(TokenizingEncoder):
    """Base class: `text_names` and `image_names` are the parts of the model that encode texts and pictures.

    `dimensions` is the size of a vector in the configuration, and `text_config` the part of it about texts.
    """

    model_class: ClassVar[str]
    dimensions: ClassVar[str] = "image_text_hidden_size"
    text_config: ClassVar[str] = "text_config"
    text_names: ClassVar[tuple[str, ...]]
    image_names: ClassVar[tuple[str, ...]]

    def __init__(self, kind: str, model: Any, tokenizer: Any, processor: Any) -> None:
        self.model, self.tokenizer, self._processor = (
            model.eval().requires_grad_(False),
            tokenizer,
            processor,
        )
        of_texts = getattr(model.config, self.text_config)
        self.size = int(attrgetter(self.dimensions)(model.config))
        self.limit = min(tokenizer.model_max_length, int(of_texts.max_position_embeddings))
        image_size = getattr(model.config.vision_config, "image_size", None)
        self._sizes = {"size": {"height": image_size, "width": image_size}} if kind == "blip" else {}
        about = {**processor.to_dict(), **self._sizes}
        self.identity = Identity(
            encoder=kind,
            weights=fingerprint(getattr(model, name) for name in self.image_names),
            image_size=image_size,
            dimensions=self.size,
            preprocessing=digest_of(json.dumps(about, sort_keys=True, default=str)),
        )

    def embed(self, tokens: Any) -> Tensor:
        """Encode the output of `tokens`, B×D."""
        return unit(self._texts(tokens["input_ids"], tokens.get("attention_mask")))

    def text_half(self) -> dict[str, nn.Module]:
        """Return the modules of the text half by their names in the model."""
        return {name: getattr(self.model, name) for name in self.text_names}

    def images(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Encode RGB pictures, N×D."""
        return self.images_and_patches(pictures)[0] if pictures else torch.empty(0, self.size)

    @torch.inference_mode()
    def images_and_patches(self, pictures: Sequence[Image.Image]) -> tuple[Tensor, Tensor]:
        """Encode RGB pictures, N×D, and their token features of the layer before the last, N×T×F, as in BLIP-2."""
        inputs = self._processor(images=list(pictures), return_tensors="pt", **self._sizes)
        vector_ND, hidden = self._images(**inputs.to(self.model.device))
        return unit(vector_ND), hidden[-2].float()

    def _texts(self, ids_BL: Tensor, there_BL: Tensor | None) -> Tensor:
        raise NotImplementedError

    def _images(self, **inputs: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        """Vectors, and the hidden states of all layers."""
        found = self.model.get_image_features(**inputs, output_hidden_states=True)
        return found.pooler_output, found.hidden_states


class CLIP(ImageText):
    """CLIP (Radford et al. 2021), for texts of at most 77 tokens."""

    model_class = "CLIPModel"
    text_names = ("text_model", "text_projection")
    image_names = ("vision_model", "visual_projection")
    dimensions = "projection_dim"

    def _texts(self, ids_BL: Tensor, there_BL: Tensor | None) -> Tensor:
        text = self.model.text_model(input_ids=ids_BL, attention_mask=there_BL)
        return self.model.text_projection(text.pooler_output)  # type: ignore[no-any-return]


class SigLIP(ImageText):
    """SigLIP and SigLIP 2 (Zhai et al. 2023; Tschannen et al. 2025), trained with texts padded to their full length."""

    model_class = "AutoModel"
    text_names = ("text_model",)
    image_names = ("vision_model",)
    padding = "max_length"
    dimensions = "text_config.projection_size"

    def _texts(self, ids_BL: Tensor, there_BL: Tensor | None) -> Tensor:
        found = self.model.text_model(input_ids=ids_BL, attention_mask=there_BL)
        return found.pooler_output  # type: ignore[no-any-return]


class BLIP(ImageText):
    """Contrastive half of BLIP (Li et al. 2022): the projected first token of each side.

    ChatIR's image retriever is fine-tuned from it.
    """

    model_class = "BlipForImageTextRetrieval"
    text_names = ("text_encoder", "text_proj")
    image_names = ("vision_model", "vision_proj")

    def _texts(self, ids_BL: Tensor, there_BL: Tensor | None) -> Tensor:
        text = self.model.text_encoder(input_ids=ids_BL, attention_mask=there_BL)
        return self.model.text_proj(text.last_hidden_state[:, 0])  # type: ignore[no-any-return]

    def _images(self, **inputs: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        found = self.model.vision_model(**inputs, output_hidden_states=True)
        return self.model.vision_proj(found.last_hidden_state[:, 0]), found.hidden_states


class BLIP2(ImageText):
    """Contrastive half of BLIP-2 (Li et al. 2023): the mean of the unit vectors of its queries, and the first token of
    a text."""

    model_class = "Blip2ForImageTextRetrieval"
    text_names = ("embeddings", "qformer", "text_projection")
    image_names = ("vision_model", "query_tokens", "qformer", "vision_projection")
    text_config = "qformer_config"

    def _texts(self, ids_BL: Tensor, there_BL: Tensor | None) -> Tensor:
        words_BLE = self.model.embeddings(input_ids=ids_BL)
        text = self.model.qformer(query_embeds=words_BLE, query_length=0, attention_mask=there_BL)
        return self.model.text_projection(text.last_hidden_state[:, 0])  # type: ignore[no-any-return]

    def _images(self, **inputs: Tensor) -> tuple[Tensor, Sequence[Tensor]]:
        seen = self.model.vision_model(**inputs, output_hidden_states=True)
        queries_BQE = self.model.query_tokens.expand(len(seen.last_hidden_state), -1, -1)
        found = self.model.qformer(query_embeds=queries_BQE, encoder_hidden_states=seen.last_hidden_state)
        return unit(self.model.vision_projection(found.last_hidden_state)).mean(1), seen.hidden_states


FAMILIES: dict[str, type[ImageText]] = {  # by model_type
    "clip": CLIP,
    "siglip": SigLIP,
    "siglip2": SigLIP,
    "blip": BLIP,
    "blip-2": BLIP2,
}


def load(name: str, kind: str, weights: Path | None, device: torch.device | str) -> ImageText:
    """Load a model from a folder or the hub; `weights` replace its own, those of BLIP's code too.

    Raises ImportError without `transformers`, and other exceptions if files are missing, damaged or do not fit.
    """
    import transformers

    transformers.logging.set_verbosity_error()
    if os.path.isdir(name):  # progress bars are for downloads only
        transformers.logging.disable_progress_bar()
    family = FAMILIES[kind]
    # The papers resized pictures with PIL.
    processor = transformers.AutoImageProcessor.from_pretrained(name, backend="pil")
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    check_words(tokenizer)
    config = transformers.AutoConfig.from_pretrained(name)
    tensors = blip_names(read_weights(weights)) if weights else {}
    if (places := tensors.get("vision_model.embeddings.position_embedding")) is not None:
        config.vision_config.image_size = math.isqrt(places.shape[1] - 1) * config.vision_config.patch_size
    model, info = getattr(transformers, family.model_class).from_pretrained(
        name, config=config, ignore_mismatched_sizes=True, output_loading_info=True
    )
    if tensors:
        _replace(model, tensors, family.text_names)
    else:
        _check_complete(info, (*family.text_names, *family.image_names))
    check_finite(model)
    return family(kind, model.to(device), tokenizer, processor)


def _check_complete(info: Mapping[str, Any], parts: tuple[str, ...]) -> None:
    """Raise ValueError if a file lacks weights of one of these parts, which would be random."""
    mismatched = (one[0] if isinstance(one, tuple) else one for one in info["mismatched_keys"])
    lacking = [
        name
        for name in sorted({*info["missing_keys"], *mismatched})
        if name.startswith(parts) and ".crossattention." not in name
    ]
    if lacking:
        raise ValueError(f"{len(lacking)} tensors are missing or have another shape, such as {lacking[0]}")


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


def _replace(model: nn.Module, weights: Mapping[str, Tensor], text_names: tuple[str, ...]) -> None:
    """Load weights into a model. The text half must be complete; the image half may be missing."""
    own = model.state_dict()
    needed = {name for name in own if name.startswith(text_names) and ".crossattention." not in name}
    if missing := sorted(needed - weights.keys()):
        raise ValueError(f"{len(missing)} tensors of the text encoder are missing, such as {missing[0]}")
    for name in sorted(own.keys() & weights.keys()):
        if own[name].shape != weights[name].shape:
            shapes = f"expected shape {tuple(own[name].shape)}, found {tuple(weights[name].shape)}"
            raise ValueError(f"{name}: {shapes}")
    model.load_state_dict({name: tensor for name, tensor in weights.items() if name in own}, strict=False)
