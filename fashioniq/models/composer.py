"""Single-turn retrieval (Fashion IQ, appendix B, Table 5): reference, attributes and one caption → a query for the target.

    A  image, attributes and caption, with a gate on the caption     D  caption only
    B  image and caption, with a gate on the caption                 E  image only
    C  image and caption, concatenated (Guo et al. 2018)             F  attributes only

A composer is a retriever that keeps no history, so that it serves wherever a dialog retriever does. Where the paper has scores of
attributes, it sees the names of the surest ones, as the dialog retriever does.
"""

import torch
from torch import Tensor, nn

from fashioniq.data.words import PAD
from fashioniq.loop.messages import Turn
from fashioniq.models.configs import WORD_WIDTH, ComposerConfig
from fashioniq.models.layers import mean_embedding, small_embedding
from fashioniq.models.retriever import BaseRetriever

PARTS = {
    "A": ("image", "attributes", "caption"),
    "B": ("image", "caption"),
    "C": ("image", "caption"),
    "D": ("caption",),
    "E": ("image",),
    "F": ("attributes",),
}
GATED = ("A", "B")


class Composer(BaseRetriever):
    """One turn → query. `attributes` is the number of attribute words, which the compositions A and F need.

    With a `word_vector_size` the words' vectors are pretrained and frozen (`set_word_vectors`); otherwise they are learned.
    """

    def __init__(
        self,
        config: ComposerConfig,
        *,
        vocabulary: int,
        features: int,
        attributes: int,
        max_words: int = 8,
        word_vector_size: int = 0,
    ) -> None:
        super().__init__(config, features=features, max_words=max_words)
        self.parts, self.gated, width = PARTS[config.composition], config.composition in GATED, config.width
        if "attributes" in self.parts:
            self.attribute = small_embedding(attributes + 1, width, padding=0)
        if "caption" in self.parts:
            self.word = nn.Embedding(vocabulary, word_vector_size or WORD_WIDTH, padding_idx=PAD)
            self.word.weight.requires_grad_(not word_vector_size)
            self.sentence = nn.GRU(self.word.embedding_dim, width, batch_first=True)
            self.caption = nn.Linear(width, width)
        self.join = nn.Linear(len(self.parts) * width, width)  # to the query, or with a gate to its weights

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Put pretrained vectors in place of the words' random ones; they stay frozen."""
        if "caption" in self.parts:
            self.word.weight.data.copy_(vectors_VD)

    def start(self, batch: int) -> None:
        """No history, ever."""

    def step(self, state: None, turn: Turn) -> tuple[Tensor, None]:
        """The query of this turn alone, B×D."""
        seen = []
        if "image" in self.parts:
            seen.append(self.embed_images(turn.image_BD))
        if "attributes" in self.parts:
            seen.append(mean_embedding(self.attribute, turn.attributes_BA))
        heard = [self._hear(turn.words_BL)] if "caption" in self.parts else []
        joined_BD = self.join(torch.cat([*seen, *heard], 1))
        if not self.gated:
            return joined_BD, None
        return torch.stack(seen).sum(0) + joined_BD.sigmoid() * heard[0], None

    def _hear(self, words_BL: Tensor) -> Tensor:
        outputs_BLD, _ = self.sentence(self.word(words_BL))
        last_B = (words_BL != PAD).sum(1).clamp(min=1) - 1
        return self.caption(outputs_BLD[torch.arange(len(words_BL), device=words_BL.device), last_B])
