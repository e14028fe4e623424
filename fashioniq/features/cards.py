"""Item cards for the products of a catalog, with attribute words from a feature store."""

from collections.abc import Sequence

from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.features.store import FeatureStore


def attribute_words(store: FeatureStore, ids: Sequence[str]) -> dict[str, list[str]]:
    """Attribute words of the products in the store, most certain first."""
    words, items = store.attribute_words, store.items(ids)
    rows = zip(items.ids, items.attributes_NA.tolist(), strict=True)
    return {name: [words[number - 1] for number in row if number] for name, row in rows}


def cards_of(catalog: Catalog, store: FeatureStore | None, ids: Sequence[str]) -> ItemCards:
    """Cards of these products.

    Attributes come from the store, or from the catalog's labels if the store has none.
    """
    if store and store.attribute_words:
        return ItemCards(catalog.images, catalog.titles, attribute_words(store, ids))
    labels = {name: [word for words in catalog.labels.get(name, ()) for word in words] for name in ids}
    return ItemCards(catalog.images, catalog.titles, labels)
