import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from fashioniq.encoders.identity import Identity
from fashioniq.features.cards import AttributeWords
from fashioniq.features.store import FeatureStore, StoreIdentity
from fashioniq.files import UserError

IDENTITY = {
    "encoder": "efficientnet-b0",
    "weights": "abc",
    "image_size": 64,
    "dimensions": 3,
    "attribute_words": ["red", "blue", "green"],
}
FILES = ["attributes.npy", "features.npy", "ids.json", "store.json"]


@pytest.fixture
def root(tmp_path):
    """A finished store of P0 to P3."""
    numbers = np.arange(4)
    np.save(tmp_path / "features.npy", np.sqrt(numbers[:, None] + [[0.5, 1.5, 2.5]]).astype(np.float16))
    np.save(tmp_path / "attributes.npy", numbers[:, None] * np.eye(1, 8, dtype=np.int64))
    (tmp_path / "ids.json").write_text('["P0", "P1", "P2", "P3"]')
    (tmp_path / "store.json").write_text(
        json.dumps({**IDENTITY, "attributes": "labels", "count": 4, "failures": {"P9": "no picture"}})
    )
    return tmp_path


def test_a_store_gives_what_lies_in_it(root):
    store = FeatureStore(root)
    items = store.items(["P3", "P9", "nobody", "P1"])
    assert items.ids == ["P3", "P1"] and len(items) == 2
    torch.testing.assert_close(
        items.features_ND[:], torch.tensor([[3.5, 4.5, 5.5], [1.5, 2.5, 3.5]]).sqrt(), rtol=1e-3, atol=0
    )
    assert (
        items.attributes_NA.tolist() == [[3] + [0] * 7, [1] + [0] * 7]
        and items.features_ND[:].dtype == torch.float32
    )
    assert (store.size, store.attribute_words, "P2" in store, "P9" in store) == (
        3,
        ["red", "blue", "green"],
        True,
        False,
    )
    assert store.identity == StoreIdentity(**IDENTITY)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "html"])
def test_a_damaged_store_is_refused(root, name, damage):
    path = root / name
    before = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(
            {"empty": b"", "truncated": before[: len(before) // 2], "html": b"<html>404</html>"}[damage]
        )
    with pytest.raises(UserError):
        FeatureStore(root)


@pytest.mark.parametrize(
    "names", [["P0", "P1", "P2"], ["P0", "P1", "P2", "P3", "P4"]], ids=["shorter", "longer"]
)
def test_files_of_another_length_are_refused(root, names):
    (root / "ids.json").write_text(json.dumps(names))
    with pytest.raises(UserError, match="differ in length"):
        FeatureStore(root)


def test_pickled_arrays_are_refused(root):
    np.save(root / "features.npy", np.array([{}] * 4, dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="damaged"):
        FeatureStore(root)


def test_while_products_are_added_the_store_is_the_rows_that_it_counts(root):
    (root / "parts").mkdir()
    (root / "parts" / "plan.json").write_text("{}")
    (root / "ids.json").write_text('["P0", "P1", "P2", "P3", "P4"]')
    store = FeatureStore(root)
    assert store.ids == ["P0", "P1", "P2", "P3"] and "P4" not in store
    (root / "ids.json").write_text('["P0", "P1", "P2"]')
    with pytest.raises(UserError, match="differ in length"):
        FeatureStore(root)


def test_a_missing_store_is_told_and_so_is_one_without_the_products_asked_for(root):
    with pytest.raises(UserError, match="is missing: create it with"):
        FeatureStore(root / "nowhere")
    with pytest.raises(UserError, match="has none of the 1 requested products"):
        FeatureStore(root).items(["nobody"])


def test_an_unfinished_store_is_told(root):
    os.remove(root / "store.json")
    (root / "parts").mkdir()
    (root / "parts" / "plan.json").write_text("{}")
    with pytest.raises(UserError, match="unfinished: run the same"):
        FeatureStore(root)


def test_only_the_rows_in_use_are_read(root):
    rows = np.load(root / "features.npy")
    rows[2, 1] = np.nan
    np.save(root / "features.npy", rows)
    items = FeatureStore(root).items(["P2", "P3", "P0"], read=False)
    assert items.features_ND[torch.tensor([1])].tolist() == [rows[3].astype(np.float32).tolist()]
    assert items.inputs(torch.tensor([2])).features_BD.tolist() == [rows[0].astype(np.float32).tolist()]
    for used in (lambda: items.features_ND[torch.tensor([0])], lambda: items.embedded(lambda x_BD: x_BD)):
        with pytest.raises(UserError, match="a vector is not finite"):
            used()


def test_vectors_are_computed_block_by_block(root, monkeypatch):
    monkeypatch.setattr("fashioniq.data.items.BLOCK", 3)
    seen = []
    items = FeatureStore(root).items(["P3", "P1", "P2", "P0"])
    vectors_ND = items.embedded(lambda x_BD: seen.append(len(x_BD)) or 2 * x_BD)
    assert seen == [3, 1] and vectors_ND.equal(2 * items.features_ND[:])


def test_large_stores_stay_on_disk_and_small_ones_are_loaded(root, monkeypatch):
    loaded = FeatureStore(root).items(["P3", "P1"])
    monkeypatch.setattr("fashioniq.features.store.IN_MEMORY", 4 * 2 * 3 - 1)
    rows = FeatureStore(root).items(["P3", "P1"])
    assert isinstance(loaded.features_ND, torch.Tensor) and not isinstance(rows.features_ND, torch.Tensor)
    assert loaded.features_ND.equal(rows.features_ND[:])


def test_words_of_attributes_stay_on_disk(root):
    words = AttributeWords(FeatureStore(root))
    assert (words["P3"], words["P0"], words.get("P9", []), len(words)) == (["green"], [], [], 4)


@pytest.mark.parametrize("length", [300, 5000])
def test_a_folder_whose_name_is_too_long_is_refused(length):
    with pytest.raises(UserError, match="is too long for a path; shorten it"):
        FeatureStore(Path("x" * length))


@pytest.mark.parametrize(
    ("encoder", "image_size", "of_words"),
    [
        ("metadata", None, True),
        ("bert", None, True),
        ("clip", 224, False),
        ("vectors of ours.npy", None, False),
    ],
)
def test_vectors_of_an_encoder_without_pictures_are_of_words(encoder, image_size, of_words):
    made = Identity(encoder=encoder, weights="0", image_size=image_size, dimensions=8)
    assert made.of_words == of_words
