import json

import numpy as np
import pytest

from fashioniq.data.catalog import Catalog, text_of
from fashioniq.data.words import tokenize
from fashioniq.encoders.metadata import Metadata
from fashioniq.files import UserError

COLOURS, KINDS = ["red", "blue", "green"], ["gown", "skirt", "tunic"]
TITLES = {f"P{n}": f"{COLOURS[n % 3].title()} {KINDS[n // 3 % 3]}" for n in range(18)}


def catalog(root, titles=TITLES, labels=None):
    ids = [f"P{n}" for n in range(18)]
    for name, content in {
        "image_splits/split.dress.train.json": ids,
        "image_splits/split.dress.val.json": ["V0", "V1", "V2"],
        "titles/dress.train.json": {name: {"title": title} for name, title in titles.items()},
        "titles/dress.val.json": {"V0": {"title": "A RED gown, new"}, "V1": {"title": "unheard of"}},
        "attributes/asin2attr.dress.train.json": labels or {},
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(json.dumps(content))
    return Catalog(root, "dresses")


def vectors(made, names, dimensions):
    return Metadata(made, dimensions).texts([text_of(made, name) for name in names]).numpy()


def test_the_words_are_those_of_title_and_labels(tmp_path):
    made = catalog(tmp_path, labels={"P0": [["dress"], ["floral print"], [], [], [], ["casual"]]})
    assert tokenize(text_of(made, "P0")) == ["red", "gown", "dress", "floral", "print", "casual"]
    assert tokenize(text_of(made, "V2")) == []


def test_vectors_have_unit_length_and_the_nearest_has_the_same_words(tmp_path):
    vectors_ND = vectors(catalog(tmp_path), [*TITLES, "V0"], 5)
    assert vectors_ND.shape == (19, 5) and vectors_ND.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors_ND, axis=1), 1, rtol=1e-5)
    nearest = list(TITLES)[int((vectors_ND[:18] @ vectors_ND[18]).argmax())]
    assert TITLES[nearest] == "Red gown"


def test_a_text_without_a_known_word_is_zero(tmp_path):
    vectors_ND = vectors(catalog(tmp_path), ["V1", "P3", "V2", "P1"], 4)
    assert vectors_ND.any(1).tolist() == [False, True, False, True]


def test_no_more_dimensions_than_words_and_always_the_same_ones(tmp_path):
    made = catalog(tmp_path)
    one, other = vectors(made, list(TITLES), 256), vectors(made, list(TITLES), 256)
    assert one.shape == (18, 5) and np.array_equal(one, other)


def test_vectors_do_not_depend_on_who_else_is_asked_for(tmp_path):
    made = catalog(tmp_path)
    one, other = vectors(made, ["V0"], 4), vectors(made, [*TITLES, "V0"], 4)
    np.testing.assert_allclose(one[0], other[-1], atol=1e-6)


@pytest.mark.parametrize(
    "titles",
    [{}, {"P0": "one title"}, {name: "dress" for name in TITLES}],
    ids=["none", "one", "all the same"],
)
def test_a_catalog_of_too_few_words_is_told(tmp_path, titles):
    with pytest.raises(UserError, match="title"):
        Metadata(catalog(tmp_path, titles))
