"""Shared parts of the systems that search with generated pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from PIL.Image import Image
from torch import Tensor

from fashioniq.categories import file_name
from fashioniq.config import DescribedProducts, Generation
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.features.cards import cards_of
from fashioniq.features.queries import PictureFeatures
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError
from fashioniq.generators.by_name import generator_by_name
from fashioniq.generators.cache import Cached
from fashioniq.generators.drawn import Drawn
from fashioniq.generators.pictures import Generator
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message
from fashioniq.models.text import unit
from fashioniq.systems.questions import topics
from fashioniq.systems.search_space import EncoderSource, SearchSpace, encode_search_space
from fashioniq.trained import pick_device
from fashioniq.users.correcting import Describer, Words

DRAWN = "drawn:"


def describer_of(catalog: Catalog) -> Describer:
    """Writer of descriptions in the words of the labels. Raises UserError if there are none."""
    return Describer(topics(catalog), catalog.labels, file_name(catalog.category))


@dataclass(frozen=True)
class World:
    """Catalog, text encoder and gallery of an evaluation with generated pictures."""

    options: DescribedProducts
    catalog: Catalog
    store: FeatureStore
    space: SearchSpace

    @classmethod
    def of(cls, options: DescribedProducts) -> "World":
        """Open all files. Raises UserError if one is missing or does not match."""
        catalog = Catalog(options.data, options.category)
        store = open_store(options.data, options.category, options.features)
        source = EncoderSource(str(options.encoder), pick_device(options.device), features=store.root)
        return cls(options, catalog, store, encode_search_space(source, catalog.ids(options.split), {}))

    @cached_property
    def gallery(self) -> Gallery:
        """Gallery of the products that have features."""
        return self.space.gallery()

    @cached_property
    def describer(self) -> Describer:
        """Writer of descriptions in the words of the catalog's labels."""
        return describer_of(self.catalog)

    @property
    def _generation(self) -> Generation:
        assert isinstance(self.options, Generation), "only GenIR and DAR generate pictures"
        return self.options

    @cached_property
    def features_of(self) -> PictureFeatures:
        """Encoder of pictures that are no products."""
        return PictureFeatures(self.store, self._generation.predictor, self.options.device)

    @cached_property
    def generator(self) -> Generator:
        """The generator of the options, with a cache. Raises UserError if there is none."""
        name = self._generation.generator
        if name is None:
            raise UserError("no generator of pictures given; give --generator")
        if not name.startswith(DRAWN):
            return Cached(generator_by_name(name, pick_device(self.options.device)), self._generation.cache)
        try:
            quality = float(name.removeprefix(DRAWN))
        except ValueError:
            quality = -1.0
        if not 0 <= quality <= 1:
            raise UserError(
                f"expected drawn:SHARE with a share from 0 to 1, found {name}; correct --generator"
            )
        return Drawn(self.catalog.category, quality)

    def encode(self, pictures: Sequence[Image]) -> Tensor:
        """Vectors of unit length of pictures in the space of the gallery, N×D."""
        encoder = self.space.encoder
        assert encoder is not None and hasattr(encoder, "embed_images"), "a run of train-dialog-encoder"
        with torch.no_grad():
            vectors_ND: Tensor = unit(encoder.embed_images(self.features_of(pictures)))
        return vectors_ND

    def seen(self, offer: Message) -> list[Words | None]:
        """What the attribute predictor sees in the picture or product offered in each dialog."""
        if offer.item_B is not None:
            names = [self.gallery.items.ids[item] for item in offer.item_B.tolist()]
            return list(self._words(self.store.items(names).features_ND))
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

    def facts(self, **further: object) -> dict[str, object]:
        """Facts of metrics.json."""
        options = self.options
        generates = isinstance(options, Generation) and options.generator is not None
        generator = dict(self.generator.identity) if generates else None
        coverage = len(self.space.ids) / len(self.catalog.ids(options.split))
        about = {"split": options.split, "category": self.catalog.category, "coverage": coverage}
        return {**about, **self.space.facts, "generator": generator, "seed": options.seed, **further}

    @cached_property
    def cards(self) -> ItemCards:
        """Titles, attributes and pictures of the products."""
        return cards_of(self.catalog, self.store, self.space.ids)
