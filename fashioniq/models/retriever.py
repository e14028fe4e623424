"""The dialog retriever: everything said so far → a query in the space of the images (Fashion IQ, section 4.2).

Each turn gives 18 tokens: one special, eight words, eight attributes of the item shown, its image. A transformer
attends over the tokens of all turns; the mean of its outputs, through a ReLU and a linear map, is the query. Images of
the gallery and of the dialog go through one shared embedding, and the search is by Euclidean distance.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.models.layers import Encoder, small_embedding


class Turn(NamedTuple):
    """One turn as the retriever sees it: the words, and the attributes and the image feature of the item shown."""

    words_BL: Tensor
    attributes_BA: Tensor
    image_BD: Tensor


class State(NamedTuple):
    """The tokens of all turns so far and which of them are not padding."""

    tokens_BLD: Tensor
    mask_BL: Tensor
    turns: int


class DialogRetriever(nn.Module):
    """Dialog → query. `attributes` is the number of attribute words known, 0 for none to be used.

    With a `word_vector_size` the words' vectors are pretrained and frozen, as GloVe's (`set_word_vectors`); else they are learnt.
    """

    def __init__(
        self,
        vocabulary: int,
        features: int,
        attributes: int,
        width: int = 256,
        heads: int = 8,
        hidden: int = 1024,
        layers: int = 6,
        dropout: float = 0.0,
        max_words: int = 8,
        max_turns: int = 5,
        word_vector_size: int = 0,
    ) -> None:
        super().__init__()
        self.max_words, self.max_turns, self.width = max_words, max_turns, width
        self.image = nn.Linear(features, width, bias=False)
        self.attribute = small_embedding(attributes + 1, width, padding=0) if attributes else None
        if word_vector_size:
            self.word: nn.Module = nn.Sequential(nn.Embedding(vocabulary, word_vector_size), nn.Linear(word_vector_size, width))
            self.word[0].weight.requires_grad_(False)
        else:
            self.word = small_embedding(vocabulary, width, padding=0)
        self.special = nn.Parameter(torch.randn(width) * width**-0.5)
        self.place = small_embedding(1 + max_words + 2, width)  # special, each word, an attribute, the image
        self.turn = small_embedding(max_turns, width)
        self.encoder = Encoder(width, heads, hidden, layers, dropout)
        self.query = nn.Linear(width, width)
        nn.init.normal_(self.query.weight, std=0.1 * width**-0.5)  # queries start short, about as far from every image:
        nn.init.zeros_(self.query.bias)  # the loss starts near its chance value

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Put pretrained vectors in place of the words' random ones; they stay frozen."""
        self.word[0].weight.data.copy_(vectors_VD)  # type: ignore[index]

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """The shared image embedding, of unit length: for the gallery, the items shown, targets and negatives."""
        return F.normalize(self.image(features_BD), dim=-1)

    def start(self, batch: int) -> State:
        """No history."""
        device = self.special.device
        return State(torch.empty(batch, 0, self.width, device=device), torch.empty(batch, 0, dtype=torch.bool, device=device), 0)

    def step(self, state: State, turn: Turn) -> tuple[Tensor, State]:
        """The query after one more turn, B×D. Turns past the last that training knew carry the mark of that one."""
        tokens_BLD, mask_BL = self._embed(turn)
        tokens_BLD = tokens_BLD + self.turn.weight[min(state.turns, self.max_turns - 1)]
        state = State(torch.cat([state.tokens_BLD, tokens_BLD], 1), torch.cat([state.mask_BL, mask_BL], 1), state.turns + 1)
        outputs_BLD = self.encoder(state.tokens_BLD, state.mask_BL)
        weight_BL1 = state.mask_BL.unsqueeze(-1).to(outputs_BLD.dtype)
        mean_BD = (outputs_BLD * weight_BL1).sum(1) / weight_BL1.sum(1)
        return self.query(F.relu(mean_BD)), state

    def _embed(self, turn: Turn) -> tuple[Tensor, Tensor]:
        batch, place = len(turn.words_BL), self.place.weight
        words_BL = turn.words_BL
        places_L = torch.arange(1, 1 + words_BL.shape[1], device=words_BL.device).clamp(max=self.max_words)  # later words carry the last mark
        special_B1D = (self.special + place[0]).expand(batch, 1, -1)
        words_BLD = self.word(words_BL) + place[places_L]
        image_B1D = self.embed_images(turn.image_BD).unsqueeze(1) + place[-1]
        always_B1 = torch.ones(batch, 1, dtype=torch.bool, device=words_BL.device)
        tokens, masks = [special_B1D, words_BLD, image_B1D], [always_B1, words_BL != 0, always_B1]
        if self.attribute is not None:
            tokens.insert(2, self.attribute(turn.attributes_BA) + place[-2])
            masks.insert(2, turn.attributes_BA != 0)
        return torch.cat(tokens, 1), torch.cat(masks, 1)
