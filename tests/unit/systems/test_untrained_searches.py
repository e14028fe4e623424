"""The untrained search that a new model has to be better than."""

import shutil

from fashioniq.data.catalog import Catalog
from fashioniq.service.learning.start import untrained_searches


def test_the_search_by_words_is_made_without_writing_to_the_catalog(shop, tmp_path):
    data = shutil.copytree(shop.data, tmp_path / "data")  # its store has vectors of pictures

    def files():
        return {path: path.stat().st_mtime_ns for path in data.rglob("*")}

    before, catalog = files(), Catalog(data, "dresses")
    ((name, search),) = untrained_searches(catalog, "all", "cpu", tmp_path / "place")
    assert name == "metadata" and set(search.gallery.items.ids) == set(catalog.all_ids())
    assert files() == before
