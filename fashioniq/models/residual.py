"""Residual retriever: the linear retriever plus what a transformer adds to its query, which is zero at first.

The linear retriever starts from ridge regression on captions, so that people's words are understood before the
training. The transformer reads what a bag of words cannot: the order of words and turns, and which attribute or product
a word is about. It is the one of Fashion IQ (section 4.2), with products as vectors of the search space.
"""

from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.items import ItemInputs
from fashioniq.loop.messages import Turn
from fashioniq.models.configs import TOKENS, RetrieverConfig
from fashioniq.models.linear import LinearRetriever
from fashioniq.models.retriever import BaseRetriever, DialogRetriever, HistoryState


class ResidualRetriever(BaseRetriever):
    """A query is that of `linear` plus that of `transformer`, at unit length.

    The last layer of the transformer is zero before the training.
    """

    def __init__(
        self,
        config: RetrieverConfig,
        *,
        vocabulary: int,
        features: int,
        attributes: int,
        bigrams: int,
        max_words: int,
        max_turns: int = 5,
        word_vector_size: int = 0,
    ) -> None:
        nn.Module.__init__(self)  # images are embedded by `linear`
        self.width, self.max_words = config.width, max_words
        sizes: dict[str, int] = {"vocabulary": vocabulary, "attributes": attributes, "max_words": max_words}
        self.linear = LinearRetriever(config, features=features, bigrams=bigrams, **sizes)
        self.transformer = DialogRetriever(
            replace(config, width=TOKENS),
            features=config.width,
            max_turns=max_turns,
            word_vector_size=word_vector_size,
            **sizes,
        )
        self.transformer.query = nn.Linear(TOKENS, config.width)
        nn.init.zeros_(self.transformer.query.weight)
        nn.init.zeros_(self.transformer.query.bias)

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """Embed image features at unit length."""
        return self.linear.embed_images(features_BD)

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Replace the word embeddings of the transformer by pretrained vectors, which stay frozen."""
        self.transformer.set_word_vectors(vectors_VD)

    def start(self, batch: int) -> tuple[Tensor, HistoryState]:
        """Return the states of both parts without history."""
        return self.linear.start(batch), self.transformer.start(batch)

    def step(self, state: Any, turn: Turn) -> tuple[Tensor, tuple[Tensor, HistoryState]]:
        """Return the query after one more turn, at unit length, and the states of both parts."""
        query_BD, sum_BD = self.linear.step(state[0], turn)
        seen = turn._replace(item=ItemInputs(self.offered(turn), turn.attributes_BA))
        added_BD, history = self.transformer.step(state[1], seen)
        return F.normalize(query_BD + added_BD, dim=-1), (sum_BD, history)

    def forward(
        self, words_BTL: Tensor, attributes_BTA: Tensor, image_BTD: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Return the query after the last turn of whole dialogs, B×D, at unit length."""
        query_BD = self.linear(words_BTL, attributes_BTA, image_BTD, mask_BT)
        added_BD = self.transformer(words_BTL, attributes_BTA, self.embed_images(image_BTD), mask_BT)
        return F.normalize(query_BD + added_BD, dim=-1)
