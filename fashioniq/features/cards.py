"""Item cards for the products of a catalog, with attribute words from a feature store."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence

from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.features.store import FeatureStore


class AttributeWords(Mapping[str, list[str]]):
    """Attribute words of the products in a store, most certain first; they stay on disk."""

    def __init__(self, store: FeatureStore) -> None:
        self._store = store

    def __getitem__(self, name: str) -> list[str]:
        return self._store.attributes(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.ids)

    def __len__(self) -> int:
        return len(self._store.ids)


def cards_of(catalog: Catalog, store: FeatureStore | None, ids: Sequence[str]) -> ItemCards:
    """Cards of these products.

    Attributes are the catalog's labels; those of a product without labels come from the store, if it has any.
    """
    labels = {
        name: [word for words in catalog.labels[name] for word in words]
        for name in ids
        if name in catalog.labels
    }
    if not store or not store.attribute_words:
        return ItemCards(catalog.images, catalog.titles, labels)
    return ItemCards(catalog.images, catalog.titles, ChainMap(labels, AttributeWords(store)))  # type: ignore[arg-type]
