"""BEiT-3 fine-tuned for retrieval (Wang et al. 2023): a folder with a checkpoint of its authors and their `beit3.spm`.

In retrieval, pictures and texts do not meet in any layer: each has a transformer of its own, made of blocks of timm.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from PIL import Image
from timm.layers import PatchEmbed
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import TokenizingEncoder, check_finite, check_words, fingerprint, unit
from fashioniq.encoders.weights import read_weights
from fashioniq.files import UserError

TOKENIZER = "beit3.spm"
TOKENS = 64  # of a text, with the first and the last one
HEAD = 64  # dimensions of an attention head, in the base and the large model
_NAMES = (  # names in a checkpoint, without the letter of the modality → names in `Modality`
    ("beit3.vision_embed.cls_token", "cls_token"),
    ("beit3.vision_embed.", "embed."),
    ("beit3.text_embed.", "embed."),
    ("beit3.encoder.embed_positions.weight", "positions"),
    ("beit3.encoder.layer_norm.", "norm."),
    ("beit3.encoder.layers.", "blocks."),
    ("self_attn_layer_norm.", "norm1."),
    ("final_layer_norm.", "norm2."),
    ("self_attn.inner_attn_ln.", "attn.norm."),
    ("self_attn.out_proj.", "attn.proj."),
    ("self_attn.", "attn."),
    ("ffn.ffn_layernorm.", "mlp.norm."),
    ("ffn.", "mlp."),
)


class Modality(nn.Module):
    """Transformer of pictures or texts → its projected first token: `cls_token` of a picture, the start of a text."""

    def __init__(self, embed: nn.Module, places: int, width: int, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        layers = sum(name.endswith(".attn.qkv.weight") for name in weights)
        ratio = len(weights["blocks.0.mlp.fc1.weight"]) / width
        norms: dict[str, Any] = dict(norm_layer=nn.LayerNorm, scale_attn_norm=True, scale_mlp_norm=True)
        self.embed = embed
        self.cls_token = nn.Parameter(torch.empty(weights["cls_token"].shape))
        self.positions = nn.Parameter(torch.empty(places, width))
        self.blocks = nn.ModuleList(
            Block(width, max(1, width // HEAD), ratio, qkv_bias=True, **norms) for _ in range(layers)
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, width, bias=False)
        self.load_state_dict(weights)
        check_finite(self)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.positions.device

    def forward(self, inputs: Tensor, there_BL: Tensor | None = None) -> Tensor:
        """Encode pixels B×3×H×W or ids B×L, B×D. `there_BL` is 1 for tokens and 0 for padding."""
        x_BLE = torch.cat([self.cls_token.expand(len(inputs), -1, -1), self.embed(inputs)], 1)
        x_BLE = x_BLE + self.positions[: x_BLE.shape[1]]
        mask_B11L = None if there_BL is None else there_BL[:, None, None].float().log()  # 0 or −∞
        for block in self.blocks:
            x_BLE = block(x_BLE, mask_B11L)
        return self.head(self.norm(x_BLE[:, 0]))  # type: ignore[no-any-return]


class BEiT3(TokenizingEncoder):
    """Both modalities, and the tokenizer. A picture is resized to a square, whatever its shape."""

    def __init__(self, pictures: Modality, texts: Modality, tokenizer: Any, image_size: int) -> None:
        self._pictures, self.model = (one.eval().requires_grad_(False) for one in (pictures, texts))
        self.tokenizer, self.limit = tokenizer, min(TOKENS, len(texts.positions))
        self.size, self._square = texts.head.out_features, (image_size, image_size)
        self.identity = Identity(
            encoder="beit3",
            weights=fingerprint([pictures]),
            image_size=image_size,
            dimensions=self.size,
        )

    def embed(self, tokens: Any) -> Tensor:
        """Encode the output of `tokens`, B×D."""
        return unit(self.model(tokens["input_ids"], tokens["attention_mask"]))

    def text_half(self) -> dict[str, nn.Module]:
        """Return the transformer of texts by its name."""
        return {"language": self.model}

    @torch.inference_mode()
    def images(self, pictures: Sequence[Image.Image]) -> Tensor:
        """Encode RGB pictures, N×D."""
        if not pictures:
            return torch.empty(0, self.size)
        squares = [np.asarray(one.resize(self._square, Image.Resampling.BICUBIC)) for one in pictures]
        pixels_BCHW = torch.from_numpy(np.stack(squares)).movedim(-1, 1).to(self._pictures.device)
        return unit(self._pictures(pixels_BCHW / 127.5 - 1))


def load(folder: Path, device: torch.device | str) -> BEiT3:
    """Load the checkpoint and the tokenizer of a folder.

    Raises ImportError without `transformers` or `protobuf`, UserError if a file or half of the weights is missing, and
    other exceptions if files are damaged or do not fit.
    """
    names = sorted(path.name for path in folder.iterdir())
    files = [name for name in names if name.endswith((".pth", ".safetensors"))]
    if len(files) != 1 or TOKENIZER not in names:
        raise UserError(
            f"{folder}: expected one checkpoint (.pth or .safetensors) and {TOKENIZER}, found {', '.join(names)}"
        )
    tokenizer, tensors = _tokenizer(folder / TOKENIZER), read_weights(folder / files[0])
    try:
        seen = _of_modality(tensors, "A", "beit3.vision_embed.", "vision_head.weight")
        read = _of_modality(tensors, "B", "beit3.text_embed.", "language_head.weight")
        read["cls_token"] = seen["cls_token"][:, :0]
        width, _, patch, _ = seen["embed.proj.weight"].shape
        side, words = math.isqrt(len(seen["positions"]) - 1), len(read["embed.weight"])
        pictures = Modality(PatchEmbed(side * patch, patch, 3, width), side**2 + 1, width, seen)
        texts = Modality(nn.Embedding(words, width), len(read["positions"]), width, read)
    except KeyError as error:
        raise UserError(
            f"{folder / files[0]} has no {error}; give a checkpoint fine-tuned for retrieval, such as "
            "beit3_base_patch16_384_coco_retrieval.pth"
        ) from error
    if len(tokenizer) > words:
        raise ValueError(f"expected a {TOKENIZER} of at most {words} tokens, found {len(tokenizer)}")
    return BEiT3(pictures.to(device), texts.to(device), tokenizer, side * patch)


def _of_modality(tensors: Mapping[str, Tensor], letter: str, embed: str, head: str) -> dict[str, Tensor]:
    """Weights of a modality by their names in `Modality`. Raises KeyError if one is missing."""
    found = {"head.weight": tensors[head]}
    for name, tensor in tensors.items():
        if (f".{letter}." in name or name.startswith(embed)) and not name.endswith("mask_token"):
            if ".q_proj." in name:
                parts = [tensors[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
                name, tensor = name.replace("q_proj", "qkv"), torch.cat(parts)
            name = name.replace(f".{letter}.", ".")
            for theirs, ours in _NAMES:
                name = name.replace(theirs, ours)
            found[name] = tensor
    found["positions"] = found["positions"][2:]  # the code of the authors counts from 2
    return {name: tensor for name, tensor in found.items() if "k_proj" not in name and "v_proj" not in name}


def _tokenizer(path: Path) -> Any:
    """Tokenizer of XLM-RoBERTa with other words, as the authors use it."""
    import google.protobuf  # noqa: F401  # named in the error, which transformers has on several lines
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import XLMRobertaConverter

    special = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    about = SimpleNamespace(vocab_file=path, convert_tokens_to_ids=list(special.values()).index)
    words = XLMRobertaConverter(about).converted()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, mask_token="<mask>", **special)
    check_words(tokenizer)
    return tokenizer
