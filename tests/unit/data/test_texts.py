import json

import pytest

from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import LONGEST_TITLE, title_of
from fashioniq.data.titles import product_rows, text_of, values_of
from fashioniq.files import UserError


@pytest.fixture
def catalog(tmp_path):
    for folder in ("image_splits", "titles"):
        (tmp_path / folder).mkdir()
    (tmp_path / "image_splits/split.dress.train.json").write_text('["b", "a", "c"]')
    (tmp_path / "titles/dress.train.json").write_text(
        json.dumps({"a": {"title": "A"}, "b": {"title": "B"}, "z": {"title": "Z"}})
    )
    return Catalog(tmp_path, "dresses")


def test_rows_are_those_of_the_split_in_its_order(catalog):
    assert list(product_rows(catalog, "train")) == ["b", "a"]


def test_a_missing_file_or_a_row_that_is_none_is_told(catalog):
    (catalog.root / "titles/dress.train.json").write_text('{"a": "A"}')
    with pytest.raises(UserError, match="for a, found"):
        product_rows(catalog, "train")
    (catalog.root / "titles/dress.train.json").unlink()
    with pytest.raises(UserError, match="cannot find the train titles of dresses"):
        product_rows(catalog, "train")


def test_any_of_the_texts_may_be_missing():
    assert (
        text_of({"title": "Red dress", "summary": None, "description": ["Long.", "Of lace."]})
        == "Red dress | Long. | Of lace."
    )
    assert text_of({"description": "Of lace."}) == "Of lace."
    assert text_of({"title": 7, "summary": {"no": "text"}}) == ""


def test_a_title_that_is_too_long_is_none():
    assert title_of({"title": " dress "}) == "dress"
    assert title_of({"title": "x" * (LONGEST_TITLE + 1)}) == ""


def test_values_of_a_column_are_none_one_or_several():
    assert values_of({"colour": "Navy  Blue"}, "colour") == ["navy blue"]
    assert values_of({"colour": "Red | NA|Blue"}, "colour") == ["red", "blue"]
    assert values_of({"colour": "Red, Blue;NA; Dark Green"}, "colour") == ["red", "blue", "dark green"]
    assert values_of({"heel": "2,5 cm"}, "heel") == ["2,5 cm"]
    assert values_of({"size": [38, "M", None, True]}, "size") == ["38", "m"]
    assert values_of({}, "colour") == values_of({"colour": "-"}, "colour") == []
