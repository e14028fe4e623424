"""Shared parts of the systems that search with descriptions and generated pictures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from PIL.Image import Image
from torch import Tensor

from fashioniq.askers.by_name import topics
from fashioniq.categories import singular
from fashioniq.config import DescribedProducts, Generation
from fashioniq.config.generation import numbers
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.descriptions import Describer, Words
from fashioniq.data.facts import RoundFacts
from fashioniq.data.parts import PartInputs
from fashioniq.encoders.protocol import Encoder, unit
from fashioniq.features.cards import cards_of
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.generators.by_name import generator_by_name
from fashioniq.generators.cache import Cached
from fashioniq.generators.photographs import Photographs
from fashioniq.generators.pictures import Generator
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.models.device import pick_device
from fashioniq.models.dialog_encoder import TextTower
from fashioniq.models.text import TextEncoder
from fashioniq.runs.predictor import PictureFeatures
from fashioniq.runs.search_space import SearchSpace, search_space

WEIGHTS = {  # of the text after each round; of DAR's paper, and of its released code
    "paper": [0.7, 0.7, 0.5],
    "code": [0.8, 0.8, 0.5],
    "text": [1.0],
    "pictures": [0.0],
}


def describer_of(catalog: Catalog) -> Describer:
    """Writer of descriptions in the words of the labels. Raises UserError if there are none."""
    return Describer(topics(catalog), catalog.labels, singular(catalog.category), catalog.language)


def generator_of(
    options: Generation, data: Path, category: str | None, device: str, *, keep: bool = False
) -> Generator:
    """The generator of the options, with a cache: with `keep` also of pictures that are quick to make again.

    Raises UserError if there is none.
    """
    if options.generator is None:
        raise UserError("no generator of pictures given; give --generator")
    own = getattr(options, "generator_options", None)
    made = generator_by_name(options.generator, pick_device(device), data, category, own)
    quick = made.identity.get("backend") in ("folder", "drawn", "photographs")
    return made if quick and not keep else Cached(made, options.cache)


def photographs(inputs: PartInputs) -> Photographs:
    """The generator photographs:SPLIT, of the pictures of a catalog."""
    if inputs.category is None or (split := inputs.argument) not in SPLITS:
        raise UserError(
            f"expected --category and photographs: with {', '.join(SPLITS)}, found photographs:{inputs.argument}; "
            "correct --generator"
        )
    catalog = Catalog(inputs.data or Path(), inputs.category)
    images = {name: catalog.images[name] for name in catalog.ids(split) if name in catalog.images}
    return Photographs(describer_of(catalog).read, catalog.labels, images, f"{catalog.fingerprint()} {split}")


def picture_encoder(
    encoder: TextEncoder | None, features_of: Callable[[], PictureFeatures]
) -> Callable[[Sequence[Image]], Tensor]:
    """Function from pictures to vectors of unit length in the space of the gallery, N×D.

    A pretrained encoder encodes pictures by itself; a run of train-dialog-encoder embeds their features. Raises
    UserError without an encoder, or without its picture half.
    """
    if encoder is None:
        raise UserError("generated pictures need --encoder, which embeds texts and pictures")
    if not isinstance(encoder, TextTower):
        pretrained = cast(Encoder, encoder)
        pretrained.images([])  # refuses an encoder of texts alone
        return lambda pictures: pretrained.images([picture.convert("RGB") for picture in pictures])
    embed, features = encoder.embed_images, features_of()

    @torch.no_grad()
    def encode(pictures: Sequence[Image]) -> Tensor:
        return unit(embed(features(pictures)))

    return encode


def weights_of(options: Generation) -> list[float]:
    """Weights of the text after each round, the last one for all further rounds."""
    return WEIGHTS.get(options.fusion_weights) or numbers(options.fusion_weights)


def illustrating(options: Generation) -> dict[str, Any]:
    """Options of `Illustrated` that all systems with generated pictures share."""
    return {"weights": weights_of(options), "fusion": options.fusion, "count": options.pictures}


def facts_of_pictures(options: Generation, generator: Generator) -> dict[str, Any]:
    """Facts of metrics.json about the pictures and their weights."""
    return {
        "generator": dict(generator.identity),
        "weights_of_text": {"name": options.fusion_weights, "rounds": weights_of(options)},
        "fusion": options.fusion,
        "pictures_per_round": options.pictures,
    }


def features_of_pictures(predictor: Path | None, store: FeatureStore, device: str) -> PictureFeatures:
    """Encoder of pictures that are no products. Raises UserError without --predictor."""
    if predictor is None:
        raise UserError(
            "an attribute predictor embeds generated pictures, and reads what is shown to --user labels; give the run "
            "of train-attributes that computed the features with --predictor"
        )
    return PictureFeatures(store, predictor, device)


@dataclass(frozen=True)
class World:
    """Catalog, text encoder and gallery of an evaluation with descriptions of products."""

    options: DescribedProducts
    catalog: Catalog
    store: FeatureStore
    space: SearchSpace

    @classmethod
    def of(cls, options: DescribedProducts) -> "World":
        """Open all files. Raises UserError if one is missing or does not match."""
        catalog = Catalog(options.data, options.category)
        space = search_space(
            options.encoder,
            catalog.ids(options.split),
            pick_device(options.device),
            store=options.features,
            catalog=catalog,
        )
        return cls(options, catalog, FeatureStore(Path(space.facts["store"])), space)

    @cached_property
    def gallery(self) -> Gallery:
        """Gallery of the products that have features."""
        return self.space.gallery()

    @cached_property
    def targets(self) -> Tensor:
        """Positions of the targets: all products, or as many as asked for, drawn with the seed."""
        count = len(self.gallery)
        if (asked := self.options.targets) is None or asked >= count:
            return torch.arange(count)
        drawn = torch.randperm(count, generator=torch.Generator().manual_seed(self.options.seed))
        return drawn[:asked].sort().values

    @cached_property
    def describer(self) -> Describer:
        """Writer of descriptions in the words of the catalog's labels."""
        return describer_of(self.catalog)

    @cached_property
    def features_of(self) -> PictureFeatures:
        """Encoder of pictures that are no products."""
        assert isinstance(self.options, Generation), "a system that generates pictures"
        return features_of_pictures(self.options.predictor, self.store, self.options.device)

    def seen(self, offer: Message) -> list[Words | None]:
        """What the attribute predictor sees in the picture or product offered in each dialog."""
        if offer.item_B is not None:
            names = [self.gallery.items.ids[item] for item in offer.item_B.tolist()]
            return list(self._words(self.store.items(names).features_ND[:]))
        pictures = [one for one in offer.pictures or () if one is not None]
        words = iter(self._words(self.features_of(pictures)) if pictures else ())
        return [None if one is None else next(words) for one in offer.pictures or ()]

    def _words(self, features_BD: Tensor) -> list[Words]:
        """The most probable answer to each topic, as words; topics without predicted words are left out."""
        chance_BA = self.features_of.chances(features_BD.to(pick_device(self.options.device)).float())
        column_of = {word: column for column, word in enumerate(self.features_of.words)}
        found: list[list[str]] = [[] for _ in chance_BA]
        for topic in self.describer.topics:
            words = [word for word in topic.words if word in column_of]
            for row, chance_A in enumerate(
                chance_BA[:, [column_of[word] for word in words]] if words else ()
            ):
                best = int(chance_A.argmax())
                if chance_A[best] >= 0.5 or (not topic.yes_no and chance_A[best] > (1 - chance_A).prod()):
                    found[row].append(words[best])
        return [tuple(words) for words in found]

    def facts(self, **further: Any) -> RoundFacts:
        """Facts of metrics.json."""
        options = self.options
        coverage = len(self.space.ids) / len(self.catalog.ids(options.split))
        about: dict[str, Any] = {
            "data": str(self.catalog.root),
            "split": options.split,
            "category": self.catalog.category,
            "coverage": coverage,
        }
        return RoundFacts(**about, **self.space.facts, seed=options.seed, **further)

    @cached_property
    def cards(self) -> ItemCards:
        """Titles, attributes and pictures of the products."""
        return cards_of(self.catalog, self.store, self.space.ids)
