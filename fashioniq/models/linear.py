"""Linear retriever: the query is a linear function of the item shown and the words of the reply.

It starts from ridge regression on captioned pairs, and it can be trained further like the other retrievers.
`LastShown` is the baseline beside it, whose query is the item shown, whatever the reply; `NoVectors` leaves all to
words.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.words import SPECIAL, Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Turn
from fashioniq.models.configs import RetrieverConfig
from fashioniq.models.retriever import BaseRetriever, joined_turns

Example = tuple[str, str, str]  # candidate, text, target
SHOWN = 0.5  # weight of the item shown, which is added to the prediction, before training
DECAY = 0.5  # weight of the query of the turn before, before training
_AT_A_TIME = 1024  # examples


class LastShown(BaseRetriever):
    """Baseline: the query is the item shown last; images are their features at unit length."""

    def __init__(self, features: int, max_words: int = 1) -> None:
        nn.Module.__init__(self)  # no image layer
        self.width, self.max_words = features, max_words

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """Image features at unit length."""
        return F.normalize(features_BD, dim=-1)

    def start(self, batch: int) -> None:
        """Return None: only the last turn counts."""

    def step(self, state: None, turn: Turn) -> tuple[Tensor, None]:
        """Return the item of this turn."""
        return self.offered(turn), None


class NoVectors(LastShown):
    """Retriever for which all products are alike, so that words alone decide."""

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """Zeros, B×1."""
        return features_BD.new_zeros(len(features_BD), 1)


class LinearRetriever(BaseRetriever):
    """Linear retriever: a turn predicts the target's embedding from the item shown and the words of the reply.

    The words are a bag of the words and pairs of neighbors (`bigrams` of them), each 0 or 1. The query of a
    turn is the prediction plus `shown` times the item shown, at unit length; earlier queries are added with
    weights `decay`, `decay`², … Images are embedded by a linear layer on their features. With `attributes`,
    the size of the attribute vocabulary, the attributes of the item shown are inputs too. All weights are
    zero before `fashioniq.training.linear` fits them.
    """

    image: nn.Linear
    bigram_G: Tensor  # sorted codes, see `bag`

    def __init__(
        self,
        config: RetrieverConfig,
        *,
        vocabulary: int,
        features: int,
        bigrams: int,
        max_words: int,
        attributes: int = 0,
    ) -> None:
        nn.Module.__init__(self)
        self.width, self.max_words, self.vocabulary = config.width, max_words, vocabulary
        self.image = nn.Linear(features, config.width)
        self.shown, self.decay = nn.Parameter(torch.tensor(SHOWN)), nn.Parameter(torch.tensor(DECAY))
        self.register_buffer("bigram_G", torch.zeros(bigrams, dtype=torch.long))
        self.image_DD = nn.Parameter(torch.zeros(config.width, config.width))
        self.bag_GD = nn.Parameter(torch.zeros(vocabulary + bigrams, config.width))
        self.bias_D = nn.Parameter(torch.zeros(config.width))
        self.attribute = nn.Embedding(attributes + 1, config.width, padding_idx=0) if attributes else None
        if self.attribute is not None:
            nn.init.zeros_(self.attribute.weight)

    def embed_images(self, features_BD: Tensor) -> Tensor:
        """Embed image features at unit length."""
        return F.normalize(self.image(F.normalize(features_BD, dim=-1)), dim=-1)

    def bag(self, words_BL: Tensor) -> Tensor:
        """Bags of words and bigrams, B×(V+G) of zeros and ones; unknown words are left out.

        A bigram has the code V·first + second.
        """
        bag_BG = self.bias_D.new_zeros(words_BL.shape[0], len(self.bag_GD))
        bag_BG.scatter_(1, self._places(words_BL), 1.0)
        bag_BG[:, : len(SPECIAL)] = 0
        return bag_BG

    def bag_sum(self, words_BL: Tensor) -> Tensor:
        """Bags of words and bigrams times their vectors, B×D, without reading those of the many zeros."""
        if torch.compiler.is_exporting():
            return self.bag(words_BL) @ self.bag_GD
        place_BM = self._places(words_BL).sort(dim=1).values
        counts_BM = place_BM >= len(SPECIAL)
        counts_BM[:, 1:] &= place_BM[:, 1:] != place_BM[:, :-1]  # each once
        return F.embedding_bag(
            place_BM, self.bag_GD, mode="sum", per_sample_weights=counts_BM.to(self.bag_GD.dtype)
        )

    def _places(self, words_BL: Tensor) -> Tensor:
        """Places in a bag of words and their bigrams, B×M; pairs that are no bigrams of the model are padding."""
        codes = self.bigram_G
        if not len(codes):
            return words_BL
        code_BL = self.vocabulary * words_BL[:, :-1] + words_BL[:, 1:]
        search = _bisect if torch.compiler.is_exporting() else torch.searchsorted
        place_BL = search(codes, code_BL.contiguous()).clamp(max=len(codes) - 1)
        found_BL = codes[place_BL] == code_BL
        return torch.cat([words_BL, torch.where(found_BL, place_BL + self.vocabulary, 0)], 1)

    def query_of(self, image_BD: Tensor, words_BL: Tensor, attributes_BA: Tensor | None = None) -> Tensor:
        """Query of a turn alone, at unit length: from the embedding of the item shown and a text."""
        query_BD = image_BD @ self.image_DD + self.bag_sum(words_BL) + self.bias_D + self.shown * image_BD
        if self.attribute is not None and attributes_BA is not None:
            query_BD = query_BD + self.attribute(attributes_BA).sum(1)
        return F.normalize(query_BD, dim=-1)

    def start(self, batch: int) -> Tensor:
        """Return the sum of no queries."""
        return self.bias_D.new_zeros(batch, self.width)

    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return the query after one more turn, at unit length, and the weighted sum of the turns' queries."""
        attributes_BA = turn.attributes_BA if self.attribute is not None else None
        own_BD = self.query_of(self.offered(turn), turn.words_BL, attributes_BA)
        sum_BD = own_BD + self.decay * state
        return F.normalize(sum_BD, dim=-1), sum_BD

    def forward(
        self, words_BTL: Tensor, attributes_BTA: Tensor, image_BTD: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Return the query after the last turn of whole dialogs, B×D, at unit length."""
        turn = joined_turns(words_BTL, attributes_BTA, image_BTD)
        attributes_NA = turn.attributes_BA if self.attribute is not None else None
        own_ND = self.query_of(self.embed_images(turn.image_BD), turn.words_BL, attributes_NA)
        later_BT = mask_BT.sum(1, keepdim=True) - 1 - torch.arange(mask_BT.shape[1], device=mask_BT.device)
        weight_BT = self.decay ** later_BT.clamp(min=0) * mask_BT
        return F.normalize((weight_BT.unsqueeze(-1) * own_ND.unflatten(0, mask_BT.shape)).sum(1), dim=-1)


def _bisect(codes_G: Tensor, code_BL: Tensor) -> Tensor:
    """The same as torch.searchsorted, which ONNX does not have."""
    place_BL, size = torch.zeros_like(code_BL), len(codes_G)
    for bit in reversed(range(size.bit_length())):
        further_BL = place_BL + 2**bit
        smaller_BL = codes_G[(further_BL - 1).clamp(max=size - 1)] < code_BL
        place_BL = torch.where((further_BL <= size) & smaller_BL, further_BL, place_BL)
    return place_BL


@torch.no_grad()
def caption_ranks(
    model: LinearRetriever, vocabulary: Vocabulary, gallery: Gallery, examples: Sequence[Example]
) -> Tensor:
    """0-based ranks of the targets N among the products, from the text of each example as the only turn."""
    candidates, texts, targets = zip(*examples, strict=True)
    position_of = gallery.items.positions
    shown_N, target_N = (
        torch.tensor([position_of[name] for name in names]) for names in (candidates, targets)
    )
    words_NL = vocabulary.encode(texts, 2 * model.max_words)
    queries = [
        model.query_of(gallery.vectors_ND[shown_N[part]], words_NL[part])
        for part in torch.arange(len(texts)).split(_AT_A_TIME)
    ]
    return gallery.rank(torch.cat(queries), target_N)
