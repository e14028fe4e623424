"""Sentence encoders: a BERT or a model like it, pooled over the tokens (sentence-transformers)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import TokenizingEncoder, check_finite, check_words, fingerprint, unit

TYPES = (
    "bert",
    "distilbert",
    "electra",
    "modernbert",
    "mpnet",
    "roberta",
    "xlm-roberta",
)  # values of model_type
Read = Callable[[str], Any]  # a JSON file of the model, None if there is none


class SentenceEncoder(TokenizingEncoder):
    """Vector of a text: the mean of its tokens, or the first one."""

    def __init__(self, kind: str, model: Any, tokenizer: Any, limit: int, pooling: str) -> None:
        self.model, self.tokenizer = model.eval().requires_grad_(False), tokenizer
        self.size, self.limit, self._pooling = int(model.config.hidden_size), limit, pooling
        self.identity = Identity(
            encoder=kind,
            weights=fingerprint([model]),
            image_size=None,
            dimensions=self.size,
            preprocessing=f"{pooling} of {limit} tokens",
        )

    def embed(self, tokens: Any) -> Tensor:
        """Encode the output of `tokens`, B×D."""
        hidden_BLD = self.model(**tokens).last_hidden_state
        if self._pooling == "first":
            return unit(hidden_BLD[:, 0])
        mask_BL1 = tokens["attention_mask"].unsqueeze(-1).to(hidden_BLD.dtype)
        return unit((hidden_BLD * mask_BL1).sum(1) / mask_BL1.sum(1))

    def text_half(self) -> dict[str, nn.Module]:
        """Return the model by its name."""
        return {"model": self.model}


def load(name: str, kind: str, read: Read, device: torch.device | str) -> SentenceEncoder:
    """Load a model from a folder or the hub. Raises ValueError for modules beyond pooling, and other exceptions."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    pooling, about = "mean", read("sentence_bert_config.json")
    limit = about.get("max_seq_length") if isinstance(about, dict) else None
    for module in read("modules.json") or []:
        what = module["type"].rpartition(".")[2]
        if what == "Pooling":
            pooling = _pooling(read(f"{module['path']}/config.json"))
        elif what not in ("Transformer", "Normalize") or (what == "Transformer" and module["path"]):
            raise ValueError(f"its module {what} {module['path']} is not supported")
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    check_words(tokenizer)
    model, info = transformers.AutoModel.from_pretrained(name, output_loading_info=True)
    if lacking := sorted(one for one in info["missing_keys"] if not one.startswith("pooler.")):
        raise ValueError(f"{len(lacking)} tensors are missing, such as {lacking[0]}")
    model.pooler = None  # unused, and random in files that lack it
    check_finite(model)
    limit = min(limit or tokenizer.model_max_length, model.config.max_position_embeddings)
    return SentenceEncoder(kind, model.to(device), tokenizer, limit, pooling)


def _pooling(config: Any) -> str:
    """Pooling of 1_Pooling/config.json. Raises ValueError unless it is the mean of the tokens, or the first one."""
    modes = [key for key, value in dict(config or {}).items() if key.startswith("pooling_mode_") and value]
    found = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "first"}.get("".join(modes))
    if found is None:
        raise ValueError(f"its pooling {', '.join(modes) or 'is missing, it'} is not supported")
    return found
