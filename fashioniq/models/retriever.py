"""Dialog retriever: dialog history → query in the image space (Fashion IQ, section 4.2).

Each turn has 18 tokens: a special token, eight words, eight attributes of the item shown, and its image. A
transformer attends over the tokens of all turns. The query is the mean of its outputs after a ReLU and a
linear layer. Images of the gallery and of the dialog share one embedding; the search uses Euclidean distance.

With the paper's "both-ways" `attention`, every turn encodes the whole history again. With "turn-causal", a
turn attends to itself and to earlier turns, whose keys and values are cached, so each turn is encoded
once.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.items import ItemInputs
from fashioniq.data.words import PAD
from fashioniq.files import UserError
from fashioniq.loop.messages import Message, Turn
from fashioniq.models.configs import ComposerConfig, RetrieverConfig
from fashioniq.models.layers import TransformerLayers


class HistoryState(NamedTuple):
    """Dialog history: the token mask, the number of turns, and the tokens (both-ways attention) or their
    encoding.

    Turn-causal attention stores the keys and values of every layer in `cache`, and the sum of the outputs.
    """

    mask_BL: Tensor
    turns: int
    tokens_BLD: Tensor
    cache: list[Tensor] | None = None
    sum_BD: Tensor | None = None


class BaseRetriever(nn.Module):
    """Base class of retrievers: image embedding of size `width`, captions of at most `max_words` words."""

    scale = 1.0  # by which losses multiply distances

    def __init__(self, config: RetrieverConfig | ComposerConfig, *, features: int, max_words: int) -> None:
        super().__init__()
        self.width, self.max_words = config.width, max_words
        self.image = nn.Linear(features, config.width, bias=False)
        if standardized := isinstance(config, RetrieverConfig) and config.embedding == "standardized":
            self.scale = config.width**0.5
        self.standardize = nn.LayerNorm(config.width) if standardized else None

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """Embed image features: gallery, items shown, targets and negatives.

        They have unit length, or are standardized over their elements with a learned scale and shift (released code)
        and divided by `scale`, which is their length at first: searches are the same, and losses undo it.
        """
        embedded_BD = self.image(features_BD)
        if self.standardize is not None:
            return self.standardize(embedded_BD) / self.scale
        return F.normalize(embedded_BD, dim=-1)

    def offered(self, turn: Turn) -> Tensor:
        """Points of the products offered in the search space, B×D; of the whole gallery where none was named."""
        if turn.item is not None and turn.item.embedded_BD is not None:
            return turn.item.embedded_BD
        return self.embed_images(turn.image_BD)

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Replace the word embeddings by pretrained vectors, which stay frozen."""
        raise UserError(f"{type(self).__name__} has no word embeddings to replace; leave --word-vectors out")

    def start(self, batch: int) -> Any:
        """Return the state of `batch` dialogs without history."""
        raise NotImplementedError

    def step(self, state: Any, turn: Turn) -> tuple[Tensor, Any]:
        """Return the query after one more turn, B×D, and the new state."""
        raise NotImplementedError

    def forward(
        self, words_BTL: Tensor, attributes_BTA: Tensor, image_BTD: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Return the query after the last turn of whole dialogs, B×D: the same as that of `step`, without a state.

        `image_BTD` are the features of the products offered. `mask_BT` is false for turns that pad a dialog
        on the right; each dialog has at least one turn. Composers, which have no history, do not have it.
        """
        raise NotImplementedError


def joined_turns(words_BTL: Tensor, attributes_BTA: Tensor, image_BTD: Tensor) -> Turn:
    """All turns of B dialogs as one turn of B·T dialogs."""
    items = ItemInputs(image_BTD.flatten(0, 1), attributes_BTA.flatten(0, 1))
    return Turn(Message(), Message(words_BL=words_BTL.flatten(0, 1)), items)


class DialogRetriever(BaseRetriever):
    """Transformer retriever, dialog → query.

    `attributes` is the size of the attribute vocabulary; with 0 the model uses no attributes. If
    `word_vector_size` is not 0, word vectors are pretrained and frozen, such as GloVe's
    (`set_word_vectors`); otherwise they are learned. Token embeddings have a standard deviation of about
    1: smaller initial scales are swamped by the first layer's residual.
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
            self.word: nn.Module = nn.Sequential(
                nn.Embedding(vocabulary, word_vector_size), nn.Linear(word_vector_size, width)
            )
            self.word[0].weight.requires_grad_(False)
        else:
            self.word = nn.Embedding(vocabulary, width, padding_idx=PAD)
        self.special = nn.Parameter(torch.randn(width))
        self.place = nn.Embedding(1 + max_words + 2, width)  # special, words, attributes, image
        self.turn = nn.Embedding(max_turns, width)
        self.encoder = TransformerLayers(width, config.heads, config.hidden, config.layers, dropout=0.0)
        self.query = nn.Linear(width, width)
        # Queries start short, so they are about equally far from every image and the loss starts near chance.
        nn.init.normal_(self.query.weight, std=0.1 * width**-0.5 * self.scale)
        nn.init.zeros_(self.query.bias)

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Replace the word embeddings by pretrained vectors, which stay frozen.

        The linear layer after them is initialized so that words have the scale of the other tokens.
        """
        vectors, linear = self.word[0], self.word[1]  # type: ignore[index]
        vectors.weight.data.copy_(vectors_VD)
        length = vectors_VD.square().mean().sqrt().clamp_min(1e-6)
        nn.init.normal_(linear.weight, std=float(1 / (length * vectors_VD.shape[1] ** 0.5)))

    def start(self, batch: int) -> HistoryState:
        """Return the state of `batch` dialogs without history."""
        device = self.special.device
        return HistoryState(
            torch.empty(batch, 0, dtype=torch.bool, device=device),
            0,
            torch.empty(batch, 0, self.width, device=device),
        )

    def step(self, state: HistoryState, turn: Turn) -> tuple[Tensor, HistoryState]:
        """Return the query after one more turn, B×D, and the new state.

        Turns after the last one of the training share its turn embedding.
        """
        tokens_BLD, turn_mask_BL = self._embed(turn)
        tokens_BLD = tokens_BLD + self.turn.weight[min(state.turns, self.max_turns - 1)]
        state = state._replace(mask_BL=torch.cat([state.mask_BL, turn_mask_BL], 1), turns=state.turns + 1)
        if self.turn_causal:
            outputs_BLD, cache = self.encoder.extend(tokens_BLD, state.mask_BL, state.cache)
            sum_BD = _masked_sum(outputs_BLD, turn_mask_BL) + (0 if state.sum_BD is None else state.sum_BD)
            state = state._replace(cache=cache, sum_BD=sum_BD)
        else:
            state = state._replace(tokens_BLD=torch.cat([state.tokens_BLD, tokens_BLD], 1))
            sum_BD = _masked_sum(self.encoder(state.tokens_BLD, state.mask_BL), state.mask_BL)
        return self._query(sum_BD, state.mask_BL), state

    def forward(
        self, words_BTL: Tensor, attributes_BTA: Tensor, image_BTD: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Return the query after the last turn of whole dialogs, B×D."""
        tokens_NLD, token_mask_NL = self._embed(joined_turns(words_BTL, attributes_BTA, image_BTD))
        place_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
        tokens_BTLD = tokens_NLD.unflatten(0, mask_BT.shape)
        tokens_BTLD = tokens_BTLD + self.turn(place_T.clamp(max=self.max_turns - 1)).unsqueeze(1)
        mask_BTL = token_mask_NL.unflatten(0, mask_BT.shape) & mask_BT.unsqueeze(-1)
        mask_BL, turn_L = mask_BTL.flatten(1), place_T.unsqueeze(1).expand(mask_BTL.shape[1:]).flatten()
        # Tokens see all of their own turn, not only what is to the left of them, because a turn is read as a whole;
        # they see no later turn, so that the cache of `step` gives the same outputs.
        seen = mask_BL.unsqueeze(1) & (turn_L <= turn_L.unsqueeze(1)) if self.turn_causal else mask_BL
        sum_BD = _masked_sum(self.encoder(tokens_BTLD.flatten(1, 2), seen), mask_BL)
        return self._query(sum_BD, mask_BL)

    def _query(self, sum_BD: Tensor, mask_BL: Tensor) -> Tensor:
        query_BD = self.query(F.relu(sum_BD / mask_BL.sum(1, keepdim=True)))
        return query_BD if self.scale == 1 else query_BD / self.scale

    def _embed(self, turn: Turn) -> tuple[Tensor, Tensor]:
        batch, place = turn.words_BL.shape[0], self.place.weight  # len() is frozen in an exported graph
        words_BL = turn.words_BL
        # Words after the first `max_words` share the last position embedding.
        places_L = torch.arange(1, 1 + words_BL.shape[1], device=words_BL.device).clamp(max=self.max_words)
        special_B1D = (self.special + place[0]).expand(batch, 1, -1)
        words_BLD = self.word(words_BL) + place[places_L]
        image_B1D = self.width**0.5 * self.offered(turn).unsqueeze(1) + place[-1]
        always_B1 = torch.ones(batch, 1, dtype=torch.bool, device=words_BL.device)
        tokens, masks = [special_B1D, words_BLD, image_B1D], [always_B1, words_BL != PAD, always_B1]
        if self.attribute is not None:
            tokens.insert(2, self.attribute(turn.attributes_BA) + place[-2])
            masks.insert(2, turn.attributes_BA != 0)
        return torch.cat(tokens, 1), torch.cat(masks, 1)


def _masked_sum(x_BLD: Tensor, mask_BL: Tensor) -> Tensor:
    return (x_BLD * mask_BL.unsqueeze(-1).to(x_BLD.dtype)).sum(1)
