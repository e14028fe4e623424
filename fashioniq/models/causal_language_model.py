"""Language models of a ChatSearcher: a small decoder, or a pretrained one, of `ids` tokens and vectors of `width`.

`spread` is the standard deviation of the numbers in the vectors of tokens.
"""

from typing import Any

import torch
from torch import Tensor, nn

from fashioniq.models.configs import ChatSearcherConfig
from fashioniq.models.layers import TransformerLayers, small_embedding

LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.05, "target_modules": "all-linear"}


class SmallDecoder(nn.Module):
    """Pre-norm decoder, trained from scratch. The vectors of the words are also those of the output."""

    def __init__(self, config: ChatSearcherConfig, ids: int) -> None:
        super().__init__()
        self.ids, self.width = ids, config.width
        self.word = small_embedding(ids, config.width)
        self.place = small_embedding(config.max_tokens, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.encoder = TransformerLayers(
            config.width, config.heads, config.hidden, config.layers, config.dropout
        )

    def embed(self, ids_BL: Tensor) -> Tensor:
        """Vectors of tokens, B×L×D."""
        return self.word(ids_BL)

    def forward(self, x_BLD: Tensor, there_BL: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        """Hidden states of positions that follow those in `cache`, B×L×D, and the extended cache.

        `there_BL` are the positions that are no padding, those in the cache included. In training there is no
        cache.
        """
        length, total = x_BLD.shape[1], there_BL.shape[1]
        x_BLD = self.drop(x_BLD + self.place.weight[total - length : total])
        # With a cache, the rows are the last `length` of `total` tokens: the diagonal is shifted by the cached ones,
        # or the first new token would see nothing but the first token of all.
        earlier_LL = torch.ones(length, total, dtype=torch.bool, device=x_BLD.device).tril(total - length)
        return self.encoder.extend(x_BLD, earlier_LL & there_BL.unsqueeze(1), cache)

    def logits(self, hidden_PD: Tensor) -> Tensor:
        """Scores of the next token, P×V."""
        return hidden_PD @ self.word.weight.T

    def spread(self) -> float:
        return self.width**-0.5


class PretrainedDecoder(nn.Module):
    """Causal language model of `transformers`, such as LLaMA or Qwen."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.ids = model.get_output_embeddings().weight.shape[0]
        self.width = model.get_input_embeddings().weight.shape[1]

    def embed(self, ids_BL: Tensor) -> Tensor:
        return self.model.get_input_embeddings()(ids_BL)

    def forward(self, x_BLD: Tensor, there_BL: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        made = self.model.base_model(
            inputs_embeds=x_BLD,
            attention_mask=there_BL.long(),
            past_key_values=cache,
            use_cache=not torch.is_grad_enabled(),
        )
        return made.last_hidden_state, made.past_key_values

    def logits(self, hidden_PD: Tensor) -> Tensor:
        return self.model.get_output_embeddings()(hidden_PD)

    def spread(self) -> float:
        return float(self.model.get_input_embeddings().weight.detach().float().std())

    def add_lora(self) -> None:
        """Train low-rank additions to all linear layers instead of the weights. Raises ImportError without peft."""
        from peft import LoraConfig, inject_adapter_in_model

        self.model = inject_adapter_in_model(LoraConfig(**LORA), self.model)
        for name, weight in self.model.named_parameters():
            if weight.requires_grad and "lora_" in name:
                weight.data = weight.data.float()


CausalLanguageModel = SmallDecoder | PretrainedDecoder


def load_language_model(name: str, dtype: torch.dtype) -> tuple[PretrainedDecoder, Any]:
    """A causal language model and its tokenizer, from a folder or the hub; only safetensors are read.

    Raises the exceptions of `transformers`, and ImportError without it.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, use_safetensors=True, dtype=dtype)
    return PretrainedDecoder(model), tokenizer
