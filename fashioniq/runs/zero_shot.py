"""The retriever of a search without training: the vectors of a pretrained encoder.

The query of a turn is the vector of the words that ask for something, plus `shown` times that of the product talked
about, at unit length; the query of the turns before is added with weight DECAY. All vectors are taken from the mean of
their kind, since those of all products, and of all texts, are alike.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from fashioniq import encoders
from fashioniq.data.catalog import Catalog
from fashioniq.encoders.protocol import Encoder, unit
from fashioniq.features.store import FeatureStore
from fashioniq.features.stores import check_encoder
from fashioniq.loop.messages import Turn
from fashioniq.loop.rollout import MAX_WORDS
from fashioniq.runs import ZeroShotRun, read_run
from fashioniq.runs.weights import load_weights

SHOWN = 0.5  # weight of the product talked about, beside the words of a reply, where no captions say another
DECAY = 0.5  # weight of the query of the turn before


class Means(nn.Module):
    """Means of the vectors of products and of texts; without them, all vectors would be near each other."""

    products_D: Tensor
    texts_D: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("products_D", torch.zeros(size))
        self.register_buffer("texts_D", torch.zeros(size))


class ZeroShotRetriever:
    """Words and products → query, by an encoder of texts. The state is the weighted sum of the queries so far."""

    max_words = MAX_WORDS  # of a reply; the service splits longer ones into clauses

    def __init__(self, encoder: Encoder, means: Means, device: torch.device, shown: float = SHOWN) -> None:
        self.encoder, self.device, self.shown = encoder, device, shown
        self._means = means.to(device)
        self.wanted: Callable[[str], str] = str  # the words of a text that ask for something

    def embed_images(self, features_ND: Tensor) -> Tensor:
        """Points of products in the search space, N×D."""
        return unit(unit(features_ND) - self._means.products_D)

    def start(self, batch: int) -> Tensor:
        """Return the sum of no queries."""
        return torch.zeros(batch, self.encoder.size, device=self.device)

    @torch.no_grad()
    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return the query after one more turn, at unit length, and the weighted sum of the turns' queries."""
        own_BD = self.words(turn.reply.texts or [""] * len(state))
        if turn.item is not None and turn.item.embedded_BD is None:  # a mean says nothing
            own_BD = own_BD + self.shown * self.embed_images(turn.item.features_BD)
        sum_BD = unit(own_BD) + DECAY * state
        return unit(sum_BD), sum_BD

    @torch.no_grad()
    def words(self, texts: Sequence[str]) -> Tensor:
        """Vectors of what texts ask for, B×D; zero for denials alone."""
        wanted = [self.wanted(text) for text in texts]
        vectors_BD = self.encoder.texts(wanted).to(self.device)
        some_B1 = (vectors_BD != 0).any(1, keepdim=True) & torch.tensor(
            [[bool(one)] for one in wanted], device=self.device
        )
        return torch.where(some_B1, unit(vectors_BD - self._means.texts_D), 0.0)


def load_zero_shot_retriever(
    run: Path, catalog: Catalog, store: FeatureStore, device: torch.device
) -> ZeroShotRetriever:
    """Retriever of a run that `prepare_zero_shot` wrote, for a store with vectors of its encoder."""
    about = read_run(run, ZeroShotRun)
    encoder = encoders.load(about.encoder, device=device, catalog=catalog)
    check_encoder(store, about.encoder, encoder)
    means = Means(encoder.size)
    load_weights(run, means)
    return ZeroShotRetriever(encoder, means, device, about.shown)
