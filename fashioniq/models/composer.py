"""Single-turn retrieval (Fashion IQ, appendix B, Table 5): reference, attributes and one caption → a query
for the target.

    A  image, attributes and caption, with a gate on the caption     D  caption only
    B  image and caption, with a gate on the caption                 E  image only
    C  image and caption, concatenated (Guo et al. 2018)             F  attributes only

A composer is a retriever without history, so it can be used wherever a dialog retriever can. Attributes are the ids
of the most confident ones, as in the dialog retriever, or, as in the paper, the output of the predictor.
"""

import torch
from torch import Tensor, nn

from fashioniq.data.words import PAD
from fashioniq.loop.messages import Turn
from fashioniq.models.attributes import AttributeScores
from fashioniq.models.configs import COMPOSITIONS, WORD_WIDTH, ComposerConfig
from fashioniq.models.layers import mean_embedding, small_embedding
from fashioniq.models.retriever import BaseRetriever

GATED = ("A", "B")


class Composer(BaseRetriever):
    """Single-turn retriever, one turn → query.

    `attributes` is the size of the attribute vocabulary, which compositions A and F need; with `scores`, all scores
    are read instead of the ids of the highest. If `word_vector_size` is not 0, word vectors are pretrained and frozen
    (`set_word_vectors`); otherwise they are learned.
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
        scores: bool = False,
    ) -> None:
        super().__init__(config, features=features, max_words=max_words)
        self.parts, self.gated, width = (
            COMPOSITIONS[config.composition],
            config.composition in GATED,
            config.width,
        )
        self.scores = None
        if "attributes" in self.parts and scores:
            self.scores = AttributeScores(features=features, attributes=attributes, width=width)
        elif "attributes" in self.parts:
            self.attribute = small_embedding(attributes + 1, width, padding=0)
        if "caption" in self.parts:
            self.word = nn.Embedding(vocabulary, word_vector_size or WORD_WIDTH, padding_idx=PAD)
            self.word.weight.requires_grad_(not word_vector_size)
            self.sentence = nn.GRU(self.word.embedding_dim, width, batch_first=True)
            self.caption = nn.Linear(width, width)
        self.join = nn.Linear(len(self.parts) * width, width)  # the query itself, or the gate's logits

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Replace the word embeddings by pretrained vectors, which stay frozen."""
        if "caption" in self.parts:
            self.word.weight.data.copy_(vectors_VD)

    def start(self, batch: int) -> None:
        """Return None: a composer has no history."""

    def step(self, state: None, turn: Turn) -> tuple[Tensor, None]:
        """Return the query of this turn alone, B×D."""
        seen = []
        if "image" in self.parts:
            seen.append(self.offered(turn))
        if "attributes" in self.parts:
            seen.append(
                mean_embedding(self.attribute, turn.attributes_BA)
                if self.scores is None
                else self.scores(turn.image_BD)
            )
        caption = [self._encode_caption(turn.words_BL)] if "caption" in self.parts else []
        joined_BD = self.join(torch.cat([*seen, *caption], 1))
        if not self.gated:
            return joined_BD, None
        return torch.stack(seen).sum(0) + joined_BD.sigmoid() * caption[0], None

    def _encode_caption(self, words_BL: Tensor) -> Tensor:
        outputs_BLD, _ = self.sentence(self.word(words_BL))
        last_B = (words_BL != PAD).sum(1).clamp(min=1) - 1
        return self.caption(outputs_BLD[torch.arange(len(words_BL), device=words_BL.device), last_B])
