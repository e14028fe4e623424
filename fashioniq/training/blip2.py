"""Q-Former of a BLIP-2 (Li et al. 2023) in files: a model of `transformers`, or a checkpoint of LAVIS."""

from pathlib import Path

from torch import Tensor

from fashioniq.encoders.weights import read_weights
from fashioniq.files import UserError, explaining, read_json
from fashioniq.models.qformer import QFormer

_RENAMED = (  # in the names of both → as in QFormer
    ("Qformer.bert.embeddings.LayerNorm.", "qformer.layernorm."),
    ("Qformer.bert.", "qformer."),
    (".self.", ".attention."),
    ("ln_vision.", "post_layernorm."),
    ("vision_model.post_layernorm.", "post_layernorm."),
)
_LAYER = "qformer.encoder.layer.0."


def read_qformer(path: Path, features: int, tokens: int) -> tuple[dict[str, int], QFormer]:
    """Sizes and Q-Former of a BLIP-2, for token features of this width and so many tokens per picture.

    Raises UserError if it is for others, or if parts are missing.
    """
    found, about = _tensors(path), {}
    with explaining(
        f"expected a BLIP-2 in {path}, found no whole Q-Former",
        "; give a folder of transformers with its .safetensors files, or a checkpoint of LAVIS such as "
        "blip2_pretrained_vitL.pth",
        (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError),
    ):
        if path.is_dir():
            about = read_json(path / "config.json", "the configuration of the BLIP-2", dict)["qformer_config"]
        _, makes, width = found["query_tokens"].shape
        reads = found[_LAYER + "crossattention.attention.key.weight"].shape[1]
        sizes = {
            "width": width,
            "hidden": len(found[_LAYER + "intermediate_query.dense.bias"]),
            "heads": int(about.get("num_attention_heads", 12)),  # as in BERT, with which LAVIS begins
            "layers": int(about.get("num_hidden_layers", 12)),
            "every": int(about.get("cross_attention_frequency", 2)),
        }
        qformer = QFormer(reads, makes, **sizes)
        qformer.load_state_dict({name: found[name] for name in qformer.state_dict()})
    if reads != features:
        raise UserError(
            f"the Q-Former of {path} is for token features of width {reads}, those of --features have {features}; "
            "give a BLIP-2 of the same image encoder, and stores of extract-features --patches"
        )
    if makes != tokens:
        raise UserError(
            f"the Q-Former of {path} makes {makes} tokens of a picture, not {tokens}; give --model.image-tokens {makes}"
        )
    return sizes, qformer


def _tensors(path: Path) -> dict[str, Tensor]:
    found = {}
    for file in [path] if path.is_file() else sorted(path.glob("*.safetensors")):
        for name, tensor in read_weights(file).items():
            for old, new in _RENAMED:
                name = name.replace(old, new)
            found[name] = tensor
    return found
