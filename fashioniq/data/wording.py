"""Weights of words in the score of a product, as they are stored in a run."""

from typing import Annotated

import msgspec

from fashioniq.data.catalog_files import ATTRIBUTE_LISTS

Weight = Annotated[float, msgspec.Meta(ge=0, le=100)]
Kind = Annotated[int, msgspec.Meta(ge=0, lt=ATTRIBUTE_LISTS)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
OUTWEIGHS = 2.0  # any difference of cosines
INTERPRETED = (
    0.5  # of a step or another name, where wishes outweigh any similarity: requests are obeyed as with more
)


class Weights(msgspec.Struct, frozen=True):
    """Weights of BM25, of a wish that a product meets, and of a denied attribute that it has.

    With each later turn, the share `memory` of the weight of what is wanted is left; denials keep their weight. A wish
    that was `interpreted`, a step, "less" or another name of a label, has a weight of its own, unless it is None: then
    what it denies weighs as a whole wish. With `full`, these are small weights, of what is said about a product;
    denials, and what is said about none, are obeyed.
    """

    lexical: Weight = 0.0
    wanted: Weight = 0.0
    denied: Weight = 0.0
    memory: Share = 1.0
    interpreted: Weight | None = None
    full: Weight | None = None

    @property
    def whole(self) -> float:
        """Weight of a whole wish, which vectors do not follow: `full`, or, in runs without it, that of denials."""
        return self.denied if self.full is None else self.full


def obeying(lexical: float) -> Weights:
    """Weights of a search that obeys: named labels, wanted or denied, outweigh any similarity."""
    return Weights(lexical, OUTWEIGHS, OUTWEIGHS, interpreted=INTERPRETED)


class WordingRun(msgspec.Struct, kw_only=True):
    """wording.json of a run: the weights, and the labels of the model in labels.safetensors with its checksum.

    `figures` describe the choice of the weights on held-out captions. `said` are the labels that captions gave, which
    no product of the catalog has, with the number of their list of attributes. `hues` are those of products by the
    pixels of their pictures, where the catalog has no colors, with their probabilities.
    """

    weights: Weights
    labels: list[str]
    checksum: str = ""
    figures: dict[str, float] = {}
    said: dict[str, Kind] = {}
    hues: dict[str, dict[str, Share]] = {}
