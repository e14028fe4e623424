import errno
import json
import os

import numpy as np
import pytest
import torch

from fashioniq.data import features
from fashioniq.data.features import FeatureStore, Part, fill_store
from fashioniq.files import UserError

IDS = [f"P{n:02}" for n in range(10)]
IDENTITY = {"encoder": "efficientnet-b0", "weights": "abc", "image_size": 64, "dimensions": 3, "attribute_words": ["red", "blue"]}
FACTS = {**IDENTITY, "attributes": "labels"}
FILES = ["attributes.npy", "features.npy", "ids.json", "store.json"]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(features, "PART", 4)


def extract(ids):
    """What an encoder would make of some products; P03 has no picture."""
    there = [name for name in ids if name != "P03"]
    numbers = np.array([int(name[1:]) for name in there])
    vectors_ND = np.sqrt(numbers[:, None] + [[0.5, 1.5, 2.5]]).astype(np.float16)
    return Part(there, vectors_ND, numbers[:, None] % 3 * np.eye(1, 8, dtype=np.int64), {name: "no picture" for name in ids if name not in there})


def fill(root, ids=IDS, facts=FACTS, extract=extract):
    return fill_store(root, ids, facts, extract, lambda done: None)


def content(root):
    return {path.name: path.read_bytes() for path in root.iterdir()}


def killed_at(call):
    calls = []

    def extract_or_die(ids):
        calls.append(ids)
        if len(calls) == call:
            raise KeyboardInterrupt
        return extract(ids)

    return extract_or_die


def test_a_store_gives_back_what_was_put_in(tmp_path):
    store = fill(tmp_path / "dress")
    assert sorted(os.listdir(tmp_path / "dress")) == FILES
    items = store.items(["P07", "P03", "nobody", "P02"])
    assert items.ids == ["P07", "P02"] and len(items) == 2
    torch.testing.assert_close(items.features_ND, torch.tensor([[7.5, 8.5, 9.5], [2.5, 3.5, 4.5]]).sqrt(), rtol=1e-3, atol=0)
    assert items.attributes_NA.tolist() == [[1] + [0] * 7, [2] + [0] * 7] and items.features_ND.dtype == torch.float32
    assert (store.size, store.attribute_words, "P02" in store, "P03" in store) == (3, ["red", "blue"], True, False)
    assert store.facts["count"] == 9 and store.facts["failures"] == {"P03": "no picture"}
    assert store.identity == IDENTITY


@pytest.mark.parametrize("call", [1, 2, 3])
def test_killed_between_parts_it_goes_on_to_the_same_bytes(tmp_path, call):
    fill(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "killed", extract=killed_at(call))
    with pytest.raises(UserError, match="unfinished: run the same"):
        FeatureStore(tmp_path / "killed")
    asked = []
    fill(tmp_path / "killed", extract=lambda ids: asked.append(ids) or extract(ids))
    assert len(asked) == 4 - call  # what was done is not done again
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


@pytest.mark.parametrize("name", ["attributes.npy", "ids.json", "store.json"])
def test_killed_while_parts_are_joined_it_goes_on_to_the_same_bytes(tmp_path, monkeypatch, name):
    fill(tmp_path / "whole")
    whole = features.whole

    def killed(path):
        if path.name == name:
            raise KeyboardInterrupt
        return whole(path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(features, "whole", killed)
        patch.setattr("fashioniq.files.whole", killed)
        fill(tmp_path / "killed")
    fill(tmp_path / "killed")
    assert content(tmp_path / "killed") == content(tmp_path / "whole")


@pytest.mark.parametrize("key", FACTS)
@pytest.mark.parametrize("finished", [True, False], ids=["finished", "unfinished"])
def test_another_encoder_or_size_is_refused_by_name(tmp_path, key, finished):
    if finished:
        fill(tmp_path)
    else:
        with pytest.raises(KeyboardInterrupt):
            fill(tmp_path, extract=killed_at(2))
    before = content(tmp_path / "parts" if not finished else tmp_path)
    with pytest.raises(UserError, match=f"is of another {key} .*another"):
        fill(tmp_path, facts={**FACTS, key: "another"})
    assert content(tmp_path / "parts" if not finished else tmp_path) == before


def test_a_finished_store_is_opened_and_not_made_again(tmp_path):
    fill(tmp_path)
    assert len(fill(tmp_path, extract=killed_at(1)).ids) == 9


def test_other_products_are_refused(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "begun", extract=killed_at(2))
    with pytest.raises(UserError, match="begun for other products"):
        fill(tmp_path / "begun", ids=IDS[:5])
    fill(tmp_path / "made")
    with pytest.raises(UserError, match="lacks 1 products, as P99"):
        fill(tmp_path / "made", ids=[*IDS, "P99"])


@pytest.mark.parametrize("full", ["000001.npz", "features.npy", "attributes.npy"])
def test_a_full_disk_is_told_and_leaves_no_half_of_a_file(tmp_path, monkeypatch, full):
    real, written = {"savez": np.savez, "save": np.save}, []

    def until_full(kind):
        def save(file, *arrays, **named):
            if len(written) == {"000001.npz": 1, "features.npy": 3, "attributes.npy": 4}[full]:
                file.write(b"half")
                raise OSError(errno.ENOSPC, "No space left on device")
            written.append(file.name)
            return real[kind](file, *arrays, **named)

        return save

    with monkeypatch.context() as patch, pytest.raises(UserError, match=f"no space left to write .*{full}"):
        patch.setattr(np, "savez", until_full("savez"))
        patch.setattr(np, "save", until_full("save"))
        fill(tmp_path / "dress")
    left = [path.name for path in (tmp_path / "dress").rglob("*") if path.is_file()]
    assert full not in left and not [name for name in left if name.startswith(".")]
    fill(tmp_path / "whole")
    fill(tmp_path / "dress")
    assert content(tmp_path / "dress") == content(tmp_path / "whole")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "html"])
def test_a_damaged_store_is_refused(tmp_path, name, damage):
    fill(tmp_path)
    path = tmp_path / name
    before = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"empty": b"", "truncated": before[: len(before) // 2], "html": b"<html>404</html>"}[damage])
    with pytest.raises(UserError):
        FeatureStore(tmp_path)


def test_files_of_another_length_are_refused(tmp_path):
    fill(tmp_path)
    (tmp_path / "ids.json").write_text(json.dumps(IDS))
    with pytest.raises(UserError, match="differ in length"):
        FeatureStore(tmp_path)


def test_pickled_arrays_are_refused(tmp_path):
    fill(tmp_path)
    np.save(tmp_path / "features.npy", np.array([{}] * 9, dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match="damaged"):
        FeatureStore(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"PK\3\4 and no more", b"<html>404</html>"], ids=["empty", "truncated", "html"])
def test_a_damaged_part_is_told(tmp_path, damage):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path, extract=killed_at(3))
    (tmp_path / "parts" / "000000.npz").write_bytes(damage)
    with pytest.raises(UserError, match=r"000000.npz is damaged"):
        fill(tmp_path)


def test_a_truncated_part_is_told(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path, extract=killed_at(3))
    path = tmp_path / "parts" / "000000.npz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"000000.npz is damaged"):
        fill(tmp_path)


def test_what_cannot_be_read_at_all_is_told_with_a_reason(tmp_path):
    def none(ids):
        return Part([], np.empty((0, 3)), np.empty((0, 8)), dict.fromkeys(ids, "no picture"))

    with pytest.raises(UserError, match=r"not one of 10 products could be read.*no picture"):
        fill(tmp_path, extract=none)


def test_a_part_without_one_readable_product_does_not_spoil_the_rest(tmp_path):
    none = Part([], np.empty((0, 3)), np.empty((0, 8)), dict.fromkeys(IDS[4:8], "no picture"))
    store = fill(tmp_path, extract=lambda ids: none if ids[0] == "P04" else extract(ids))
    assert len(store.ids) == 5 and len(store.facts["failures"]) == 5


def test_a_missing_store_is_told_and_so_is_one_without_the_products_asked_for(tmp_path):
    with pytest.raises(UserError, match="is missing: make it with"):
        FeatureStore(tmp_path / "nowhere")
    with pytest.raises(UserError, match="has none of the 1 products"):
        fill(tmp_path / "dress").items(["nobody"])
