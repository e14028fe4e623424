"""ChatSearcher (arXiv 2410.18715, section 4): a causal language model that searches by the token [IMG].

A picture in a conversation is the block [IMG] <CLS> q1 … qN [/IMG]: a linear map of its frozen vector, and N tokens
that a perceiver makes of its frozen token features. The query is the hidden state at [IMG], mapped by M_v; the
vector of a candidate is its frozen vector, mapped by M_Q. Candidates never pass through the language model.
"""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.models.causal_language_model import CausalLanguageModel, PretrainedDecoder
from fashioniq.models.chat_tokens import VISION, ChatTokens, TokenBatch, Tokenized
from fashioniq.models.configs import ChatSearcherConfig
from fashioniq.models.layers import Attention, FeedForward
from fashioniq.models.qformer import QFormer

PERCEIVER = 768  # largest width of the perceiver, that of BLIP-2's
TEMPERATURE, LOWEST, HIGHEST = 0.07, 0.01, 1.0  # of the image loss at the start, and its bounds


class Perceiver(nn.Module):
    """Learned queries that attend once to the token features of a picture: R×T×F → R×N×D."""

    def __init__(self, features: int, width: int, tokens: int) -> None:
        super().__init__()
        most = max(1, width // 64)
        heads = next(count for count in range(most, 0, -1) if width % count == 0)
        self.queries = nn.Parameter(torch.randn(tokens, width) * width**-0.5)
        self.norm_features, self.attention = nn.LayerNorm(features), Attention(width, heads, dropout=0.0)
        self.attention.key_value = nn.Linear(features, 2 * width)
        self.norm_queries, self.norm_hidden, self.norm = (nn.LayerNorm(width) for _ in range(3))
        self.feed_forward = FeedForward(width, 4 * width, dropout=0.0)

    def forward(self, tokens_RTF: Tensor) -> Tensor:
        key_value_RTE = self.attention.key_value(self.norm_features(tokens_RTF))
        x_RND = self.queries.expand(len(tokens_RTF), -1, -1)
        x_RND = x_RND + self.attention(self.norm_queries(x_RND), key_value_RTE)
        return self.norm(x_RND + self.feed_forward(self.norm_hidden(x_RND)))


class FrozenPictures(NamedTuple):
    """Frozen features of R pictures: one vector each, R×F, and token features, R×T×F."""

    vector_RF: Tensor
    tokens_RTF: Tensor


class ChatSearcher(nn.Module):
    """Language model, perceiver and the heads M_v and M_Q; all vectors of the search space have unit length.

    The perceiver is a Q-Former if its sizes are given. The state has no frozen weights of a pretrained language model:
    they are read from where they are from.
    """

    mean_F: Tensor
    spread_F: Tensor

    def __init__(
        self,
        config: ChatSearcherConfig,
        *,
        language_model: CausalLanguageModel,
        features: int,
        token_features: int | None = None,
        qformer: dict[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.language_model, width = language_model, language_model.width
        self.mark = nn.Embedding(2, width)  # [IMG] and [/IMG] as inputs
        self.mark_out = nn.Linear(width, 2, bias=False)  # and as outputs: with those of the words, M_t
        read, own = token_features or features, qformer["width"] if qformer else min(width, PERCEIVER)
        self.perceiver = (
            QFormer(read, config.image_tokens, **qformer)
            if qformer
            else Perceiver(read, own, config.image_tokens)
        )
        self.vector_in, self.tokens_in = nn.Linear(features, width), nn.Linear(own, width)
        self.query = nn.Linear(width, config.space, bias=False)  # M_v
        self.key = nn.Linear(features, config.space, bias=False)  # M_Q
        self.log_temperature = nn.Parameter(torch.tensor(math.log(TEMPERATURE)))
        self.register_buffer("mean_F", torch.zeros(features))
        self.register_buffer("spread_F", torch.ones(features))
        spread = language_model.spread()  # pictures begin with the scale of words
        for weight in (self.mark.weight, self.mark_out.weight):
            nn.init.normal_(weight, std=spread)
        for linear in (self.vector_in, self.tokens_in):
            nn.init.normal_(linear.weight, std=spread * linear.in_features**-0.5)
            nn.init.zeros_(linear.bias)
        self.register_state_dict_post_hook(_leave_frozen_out)
        self.register_load_state_dict_post_hook(_miss_no_frozen)

    def standardise(self, vector_NF: Tensor) -> None:
        """Set mean and standard deviation of the frozen vectors, which are removed before all linear maps."""
        self.mean_F.copy_(vector_NF.mean(0))
        self.spread_F.copy_(vector_NF.std(0).clamp(min=1e-6))

    def forward(
        self, ids_BL: Tensor, there_BL: Tensor, pictures: FrozenPictures, cache: Any = None
    ) -> tuple[Tensor, Any]:
        """Hidden states B×L×D of sequences of ChatTokens, and the cache; `pictures` are those of all sequences."""
        return self.language_model(self.embed(ids_BL, pictures), there_BL, cache)

    def embed(self, ids_BL: Tensor, pictures: FrozenPictures) -> Tensor:
        """Input vectors B×L×D: of words, of [IMG] and [/IMG], and of pictures at the positions of VISION."""
        words = self.language_model.ids
        x_BLD = self.language_model.embed(ids_BL.clamp(0, words - 1))
        mark_BLD = self.mark((ids_BL - words).clamp(min=0)).to(x_BLD.dtype)
        x_BLD = torch.where((ids_BL >= words).unsqueeze(-1), mark_BLD, x_BLD)
        if len(pictures.vector_RF):
            vector_RD = self.vector_in(self._plain(pictures.vector_RF))
            tokens_RND = self.tokens_in(self.perceiver(pictures.tokens_RTF))
            block_RND = torch.cat([vector_RD.unsqueeze(1), tokens_RND], 1)
            x_BLD[ids_BL == VISION] = block_RND.flatten(0, 1).to(x_BLD.dtype)
        return x_BLD

    def logits(self, hidden_PD: Tensor) -> Tensor:
        """Scores of the next token, P×(V + 2): the words, [IMG], [/IMG]."""
        words_PV = self.language_model.logits(hidden_PD)
        return torch.cat([words_PV, self.mark_out(hidden_PD.to(self.mark_out.weight.dtype))], -1).float()

    def queries(self, hidden_PD: Tensor) -> Tensor:
        """Queries P×S of the hidden states at [IMG]."""
        return F.normalize(self.query(hidden_PD.to(self.query.weight.dtype)).float(), dim=-1)

    def embed_images(self, vector_NF: Tensor) -> Tensor:
        """Vectors N×S of candidates."""
        return F.normalize(self.key(self._plain(vector_NF)).float(), dim=-1)

    @property
    def temperature(self) -> Tensor:
        """Temperature of the image loss, within its bounds."""
        with torch.no_grad():
            self.log_temperature.clamp_(math.log(LOWEST), math.log(HIGHEST))
        return self.log_temperature.exp()

    @torch.no_grad()
    def search(self, batch: TokenBatch, pictures: FrozenPictures) -> tuple[Tensor, Tensor]:
        """Queries B×S of sequences that end with [IMG], and whether it is the likeliest token there, B."""
        hidden_BLD, _ = self(batch.ids_BL, batch.there_BL, pictures)
        row_B, last_B = torch.arange(len(hidden_BLD), device=hidden_BLD.device), batch.there_BL.sum(1) - 1
        shows_B = self.logits(hidden_BLD[row_B, last_B - 1]).argmax(1) == self.language_model.ids
        return self.queries(hidden_BLD[row_B, last_B]), shows_B

    @torch.no_grad()
    def continued(
        self,
        tokens: ChatTokens,
        asked: Tokenized,
        pictures: FrozenPictures,
        most: int,
        *,
        cached: bool = True,
    ) -> tuple[list[int], Tensor | None]:
        """Ids of the answer to one conversation, greedily, up to the end token, [IMG] or `most` tokens.

        It ends at the limit of the conversation, too. If it ends with [IMG], also the query 1×S. Without `cached`,
        every token is a pass through all.
        """
        most = min(most, tokens.limit - len(asked.ids))
        device = self.log_temperature.device
        ids_1L = torch.tensor([asked.ids], device=device)
        there_1L, cache = torch.ones_like(ids_1L, dtype=torch.bool), None
        answer: list[int] = []
        new_1L, none = ids_1L, FrozenPictures(pictures.vector_RF[:0], pictures.tokens_RTF[:0])
        while True:
            given = new_1L if cached else ids_1L
            shown = pictures if cache is None else none
            hidden_1LD, made = self(given, there_1L, shown, cache)
            cache = made if cached else None
            if answer and answer[-1] == tokens.image:
                return answer, self.queries(hidden_1LD[:, -1])
            if len(answer) == most or (answer and answer[-1] == tokens.tokens.end):
                return answer, None
            new_1L = self.logits(hidden_1LD[:, -1]).argmax(-1, keepdim=True)
            ids_1L, there_1L = torch.cat([ids_1L, new_1L], 1), F.pad(there_1L, (0, 1), value=True)
            answer.append(int(new_1L))

    def train(self, mode: bool = True) -> "ChatSearcher":
        """Training mode; a frozen language model has no dropout."""
        super().train(mode)
        if not any(weight.requires_grad for weight in self.language_model.parameters()):
            self.language_model.eval()
        return self

    def _plain(self, vector_NF: Tensor) -> Tensor:
        return (vector_NF - self.mean_F) / self.spread_F


def _own(model: nn.Module) -> set[str]:
    """Names of all weights but those that can be read again; a weight with two names has its first one."""
    again = isinstance(model.language_model, PretrainedDecoder)
    weights = (name for name, weight in model.named_parameters() if weight.requires_grad or not again)
    return {"mean_F", "spread_F", *weights}


def _leave_frozen_out(model: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    kept = {prefix + name for name in _own(model)}
    for name in [name for name in state if name.startswith(prefix) and name not in kept]:
        del state[name]


def _miss_no_frozen(model: nn.Module, incompatible: Any) -> None:
    every = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    again = tuple({name for name, _ in every} - _own(model))
    incompatible.missing_keys[:] = [name for name in incompatible.missing_keys if not name.endswith(again)]


def image_loss(
    query_RS: Tensor, key_NS: Tensor, item_R: Tensor, item_N: Tensor, temperature: Tensor
) -> Tensor:
    """Sum of −log P(picture) over R queries, by the softmax of cosine / temperature over N different items."""
    place_R = (item_R.unsqueeze(1) == item_N).int().argmax(1)
    return F.cross_entropy(query_RS @ key_NS.T / temperature, place_R, reduction="sum")


def enqueued(queue_Q: Tensor, item_R: Tensor) -> Tensor:
    """The queue after the newest items came in and the oldest left; −1 is an empty place."""
    return torch.cat([queue_Q, item_R])[-len(queue_Q) :]


def distinct_items(queue_Q: Tensor, item_R: Tensor) -> Tensor:
    """The different items of a queue and of the targets, ascending: every item counts once."""
    return torch.cat([queue_Q[queue_Q >= 0], item_R]).unique()
