"""What a person sees of products: pictures, titles and attribute words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from fashioniq.data.catalog import Catalog
from fashioniq.data.features import FeatureStore


class Product(NamedTuple):
    """A product that was found; `distance` is Euclidean, from the query."""

    id: str
    title: str
    distance: float
    attributes: list[str]
    picture: Path | None


@dataclass(frozen=True)
class ItemCards:
    """Pictures, titles and attribute words of products, by product id."""

    images: dict[str, Path] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, list[str]] = field(default_factory=dict)

    def product(self, name: str, distance: float) -> Product:
        """A product at a distance from the query; title and attributes are empty where they are missing."""
        return Product(name, self.titles.get(name, ""), distance, self.attributes.get(name, []), self.images.get(name))


def attribute_words(store: FeatureStore, ids: Sequence[str]) -> dict[str, list[str]]:
    """The attribute words in the store, most certain first, of those products that it contains."""
    words, items = store.attribute_words, store.items(ids)
    rows = zip(items.ids, items.attributes_NA.tolist(), strict=True)
    return {name: [words[number - 1] for number in row if number] for name, row in rows}


def cards_of(catalog: Catalog, store: FeatureStore | None, ids: Sequence[str]) -> ItemCards:
    """The cards of these products; attributes are the catalog's labels where the store has none."""
    if store and store.attribute_words:
        return ItemCards(catalog.images, catalog.titles, attribute_words(store, ids))
    labels = {name: [word for words in catalog.labels.get(name, ()) for word in words] for name in ids}
    return ItemCards(catalog.images, catalog.titles, labels)
