"""Linear baselines of dialog retrieval, which search among the image features themselves.

linear       ridge regression from the item shown and the words of the reply to the target's features
last shown   the item shown, whatever the reply
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.words import SPECIAL
from fashioniq.loop.messages import Turn
from fashioniq.models.configs import LinearConfig
from fashioniq.models.retriever import BaseRetriever


class _InFeatureSpace(BaseRetriever):
    """Retriever without an image embedding of its own: images are their features at unit length."""

    def __init__(self, features: int, max_words: int) -> None:
        nn.Module.__init__(self)  # no image layer
        self.width, self.max_words = features, max_words

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """Image features at unit length."""
        return F.normalize(features_BD, dim=-1)


class LastShown(_InFeatureSpace):
    """Floor: the query is the item shown last."""

    def __init__(self, features: int, max_words: int = 1) -> None:
        super().__init__(features, max_words)

    def start(self, batch: int) -> None:
        """Return None: only the last turn counts."""

    def step(self, state: None, turn: Turn) -> tuple[Tensor, None]:
        """Return the item of this turn."""
        return self.embed_images(turn.image_BD), None


class LinearRetriever(_InFeatureSpace):
    """Linear retriever: a turn predicts the target's features from the item shown and the words of the reply.

    The words are a bag of the words and pairs of neighbors (`bigrams` of them), each 0 or 1. The query of a
    turn is the prediction plus `shown` times the item shown; earlier queries are added with weights `decay`,
    `decay`², …
    """

    def __init__(
        self, config: LinearConfig, *, vocabulary: int, features: int, bigrams: int, max_words: int
    ) -> None:
        super().__init__(features, max_words)
        self.shown, self.decay, self.vocabulary = config.shown, config.decay, vocabulary
        self.register_buffer("bigram_G", torch.zeros(bigrams, dtype=torch.long))  # sorted codes, see `bag`
        self.image_DD = nn.Parameter(torch.zeros(features, features), requires_grad=False)
        self.bag_GD = nn.Parameter(torch.zeros(vocabulary + bigrams, features), requires_grad=False)
        self.bias_D = nn.Parameter(torch.zeros(features), requires_grad=False)

    def bag(self, words_BL: Tensor) -> Tensor:
        """Bags of words and bigrams, B×(V+G) of zeros and ones; unknown words are left out.

        A bigram has the code V·first + second.
        """
        bag_BG = self.bias_D.new_zeros(len(words_BL), len(self.bag_GD))
        bag_BG.scatter_(1, words_BL, 1.0)
        codes: Tensor = self.bigram_G  # type: ignore[assignment]
        if len(codes):
            code_BL = self.vocabulary * words_BL[:, :-1] + words_BL[:, 1:]
            place_BL = torch.searchsorted(codes, code_BL.contiguous()).clamp(max=len(codes) - 1)
            found_BL = codes[place_BL] == code_BL
            # places of pairs that are no bigrams of the model go to the padding, which is cleared below
            bag_BG.scatter_(1, torch.where(found_BL, place_BL + self.vocabulary, 0), 1.0)
        bag_BG[:, : len(SPECIAL)] = 0
        return bag_BG

    def start(self, batch: int) -> Tensor:
        """Return the sum of no queries."""
        return self.bias_D.new_zeros(batch, self.width)

    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return the weighted sum of the queries of all turns, B×D, twice: as query and as state."""
        image_BD = self.embed_images(turn.image_BD)
        predicted_BD = image_BD @ self.image_DD + self.bag(turn.words_BL) @ self.bag_GD + self.bias_D
        query_BD = predicted_BD + self.shown * image_BD + self.decay * state
        return query_BD, query_BD
