"""The dialog retriever: everything said so far → a query in the space of the images (Fashion IQ, section 4.2).

Each turn gives 18 tokens: one special, eight words, eight attributes of the item shown, its image. A transformer
attends over the tokens of all turns; the mean of its outputs, through a ReLU and a linear map, is the query. Images of
the gallery and of the dialog go through one shared embedding, and the search is by Euclidean distance.

The paper's attention looks both ways, so that every turn encodes the whole history anew. With `attention` "turn-causal" a turn
looks at itself and at the turns before it, and what they were encoded to is kept: a turn costs as much as the first one.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.words import PAD
from fashioniq.loop.messages import Turn
from fashioniq.models.configs import ComposerConfig, RetrieverConfig
from fashioniq.models.layers import Encoder


class State(NamedTuple):
    """What has been heard: which tokens of all turns are not padding, how many turns; both-ways attention keeps the tokens,

    turn-causal attention what they were encoded to: keys and values of every layer, and the sum of the outputs.
    """

    mask_BL: Tensor
    turns: int
    tokens_BLD: Tensor
    seen: list[Tensor] | None = None
    sum_BD: Tensor | None = None


class LinearPlusMLP(nn.Module):
    """A linear map and, added to it, one with `hidden` ReLUs in between: the space may part what lies on one line of features."""

    def __init__(self, features: int, hidden: int, width: int) -> None:
        super().__init__()
        self.straight = nn.Linear(features, width, bias=False)
        self.bent = nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, width))

    def forward(self, features_BD: Tensor) -> Tensor:
        return self.straight(features_BD) + self.bent(features_BD)


class BaseRetriever(nn.Module):
    """What every retriever has: the space that is searched, `width` wide, and the maximum length of a caption, `max_words`."""

    def __init__(self, config: RetrieverConfig | ComposerConfig, *, features: int, max_words: int) -> None:
        super().__init__()
        self.width, self.max_words = config.width, max_words
        if hidden := config.image_mlp_width:
            self.image: nn.Module = LinearPlusMLP(features, hidden, config.width)
        else:
            self.image = nn.Linear(features, config.width, bias=False)

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """The shared image embedding, of unit length: for the gallery, the items shown, targets and negatives."""
        return F.normalize(self.image(features_BD), dim=-1)

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Put pretrained vectors in place of the words' random ones; they stay frozen."""
        raise NotImplementedError

    def start(self, batch: int) -> Any:
        """The state of dialogs without history."""
        raise NotImplementedError

    def step(self, state: Any, turn: Turn) -> tuple[Tensor, Any]:
        """The query after one more turn, B×D, and the state that has heard it."""
        raise NotImplementedError


class DialogRetriever(BaseRetriever):
    """Dialog → query. `attributes` is the number of attribute words known, 0 for none to be used.

    With a `word_vector_size` the words' vectors are pretrained and frozen, as GloVe's (`set_word_vectors`); else they are learnt.
    Tokens have a deviation of about 1: much shorter ones drown in what the first layer adds to them.
    """

    def __init__(
        self,
        config: RetrieverConfig,
        *,
        vocabulary: int,
        features: int,
        attributes: int,
        max_words: int = 8,
        max_turns: int = 5,
        word_vector_size: int = 0,
    ) -> None:
        super().__init__(config, features=features, max_words=max_words)
        self.turn_causal, self.max_turns = config.attention == "turn-causal", max_turns
        width = config.width
        self.attribute = nn.Embedding(attributes + 1, width, padding_idx=0) if attributes else None
        if word_vector_size:
            self.word: nn.Module = nn.Sequential(nn.Embedding(vocabulary, word_vector_size), nn.Linear(word_vector_size, width))
            self.word[0].weight.requires_grad_(False)
        else:
            self.word = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.special = nn.Parameter(torch.randn(width))
        self.place = nn.Embedding(1 + max_words + 2, width)  # special, each word, an attribute, the image
        self.turn = nn.Embedding(max_turns, width)
        self.encoder = Encoder(width, config.heads, config.hidden, config.layers, dropout=0.0)
        self.query = nn.Linear(width, width)
        nn.init.normal_(self.query.weight, std=0.1 * width**-0.5)  # queries start short, about as far from every image:
        nn.init.zeros_(self.query.bias)  # the loss starts near its chance value

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Put pretrained vectors in place of the words' random ones; they stay frozen. The map behind them makes them as long as all tokens."""
        vectors, linear = self.word[0], self.word[1]  # type: ignore[index]
        vectors.weight.data.copy_(vectors_VD)
        length = vectors_VD.square().mean().sqrt().clamp_min(1e-6)
        nn.init.normal_(linear.weight, std=float(1 / (length * vectors_VD.shape[1] ** 0.5)))

    def start(self, batch: int) -> State:
        """No history."""
        device = self.special.device
        return State(torch.empty(batch, 0, dtype=torch.bool, device=device), 0, torch.empty(batch, 0, self.width, device=device))

    def step(self, state: State, turn: Turn) -> tuple[Tensor, State]:
        """The query after one more turn, B×D. Turns past the last that training knew carry the mark of that one."""
        tokens_BLD, turn_mask_BL = self._embed(turn)
        tokens_BLD = tokens_BLD + self.turn.weight[min(state.turns, self.max_turns - 1)]
        state = state._replace(mask_BL=torch.cat([state.mask_BL, turn_mask_BL], 1), turns=state.turns + 1)
        if self.turn_causal:
            outputs_BLD, seen = self.encoder.extend(tokens_BLD, state.mask_BL, state.seen)
            sum_BD = _masked_sum(outputs_BLD, turn_mask_BL) + (0 if state.sum_BD is None else state.sum_BD)
            state = state._replace(seen=seen, sum_BD=sum_BD)
        else:
            state = state._replace(tokens_BLD=torch.cat([state.tokens_BLD, tokens_BLD], 1))
            sum_BD = _masked_sum(self.encoder(state.tokens_BLD, state.mask_BL), state.mask_BL)
        return self.query(F.relu(sum_BD / state.mask_BL.sum(1, keepdim=True))), state

    def _embed(self, turn: Turn) -> tuple[Tensor, Tensor]:
        batch, place = len(turn.words_BL), self.place.weight
        words_BL = turn.words_BL
        places_L = torch.arange(1, 1 + words_BL.shape[1], device=words_BL.device).clamp(max=self.max_words)  # later words carry the last mark
        special_B1D = (self.special + place[0]).expand(batch, 1, -1)
        words_BLD = self.word(words_BL) + place[places_L]
        image_B1D = self.width**0.5 * self.embed_images(turn.image_BD).unsqueeze(1) + place[-1]
        always_B1 = torch.ones(batch, 1, dtype=torch.bool, device=words_BL.device)
        tokens, masks = [special_B1D, words_BLD, image_B1D], [always_B1, words_BL != PAD, always_B1]
        if self.attribute is not None:
            tokens.insert(2, self.attribute(turn.attributes_BA) + place[-2])
            masks.insert(2, turn.attributes_BA != 0)
        return torch.cat(tokens, 1), torch.cat(masks, 1)


def _masked_sum(x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
    return (x_BLD * mask_BL.unsqueeze(-1).to(x_BLD.dtype)).sum(1)
