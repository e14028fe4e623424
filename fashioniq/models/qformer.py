"""Q-Former of BLIP-2 (Li et al. 2023, section 3.1) as the perceiver of a ChatSearcher, without its text half."""

from typing import Any

import torch
from torch import Tensor, nn

from fashioniq.files import explaining


class QFormer(nn.Module):
    """Learned queries that attend to each other and to the token features of a picture: R×T×F → R×N×D.

    `every` is the distance of the layers that attend to the picture. The weights have the names that they have in
    `transformers`, which is needed. Raises UserError without it.
    """

    def __init__(
        self, features: int, tokens: int, *, width: int, heads: int, hidden: int, layers: int, every: int
    ) -> None:
        super().__init__()
        with explaining(
            "a Q-Former needs the package transformers", "; pip install 'fashioniq[chat]'", ImportError
        ):
            from transformers import Blip2QFormerConfig, Blip2QFormerModel
        if any(type(size) is not int for size in (features, tokens, width, heads, hidden, layers, every)):
            raise TypeError("the sizes of a Q-Former are whole numbers")
        self.query_tokens = nn.Parameter(torch.zeros(1, tokens, width))
        self.post_layernorm = nn.LayerNorm(features, eps=1e-6)  # of the image encoder, trained with it
        self.qformer: Any = Blip2QFormerModel(
            Blip2QFormerConfig(
                encoder_hidden_size=features,
                hidden_size=width,
                num_attention_heads=heads,
                intermediate_size=hidden,
                num_hidden_layers=layers,
                cross_attention_frequency=every,
            )
        )

    def forward(self, tokens_RTF: Tensor) -> Tensor:
        x_RND = self.query_tokens.expand(len(tokens_RTF), -1, -1)
        made = self.qformer(x_RND, encoder_hidden_states=self.post_layernorm(tokens_RTF))
        return made.last_hidden_state  # type: ignore[no-any-return]
