"""Item cards for the products of a catalog, with attribute words from a feature store."""

from collections.abc import Iterator, Mapping, Sequence

from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.features.store import FeatureStore


class AttributeWords(Mapping[str, list[str]]):
    """Attribute words of the products in a store, most certain first; they stay on disk."""

    def __init__(self, store: FeatureStore) -> None:
        self._store = store

    def __getitem__(self, name: str) -> list[str]:
        if name not in self._store:
            raise KeyError(name)
        return self._store.attributes(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._store.ids)

    def __len__(self) -> int:
        return len(self._store.ids)


def cards_of(catalog: Catalog, store: FeatureStore | None, ids: Sequence[str]) -> ItemCards:
    """Cards of these products.

    Attributes come from the store, or from the catalog's labels if the store has none.
    """
    if store and store.attribute_words:
        return ItemCards(catalog.images, catalog.titles, AttributeWords(store))
    labels = {name: [word for words in catalog.labels.get(name, ()) for word in words] for name in ids}
    return ItemCards(catalog.images, catalog.titles, labels)
