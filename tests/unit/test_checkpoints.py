import os
import pickle
import resource

import pytest
import torch
from torch import nn

from fashioniq import __version__
from fashioniq.checkpoints import check_fits, load_weights, read_facts, save_model
from fashioniq.files import UserError, write_json

IDENTITY = {"encoder": "efficientnet-b0", "weights": "abc", "image_size": 64, "dimensions": 1280, "attribute_words": ["red"]}


class Store:
    root, identity = "features/dress", IDENTITY


class Trap:
    """Whoever unpickles it, calls this."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), nn.Linear(4, 2))


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def test_a_model_comes_back_as_it_was_saved(tmp_path):
    saved, loaded = model().to(memory_format=torch.channels_last), model(1)
    facts = {"kind": "captioner", "category": "tops", "attrs": True, "model": "transformer"}
    facts |= {"sizes": {"width": 4}, "words": ["red"], "features": {}, "data": {}}
    save_model(tmp_path / "run", saved, facts)
    load_weights(tmp_path / "run", loaded)
    assert same(saved, loaded)
    assert read_facts(tmp_path / "run", "captioner") == {"version": __version__, **facts}


def test_facts_that_lack_something_are_refused_by_name(tmp_path):
    save_model(tmp_path / "run", model(), {"kind": "captioner", "category": "tops"})
    with pytest.raises(UserError, match="lacks attrs, data, features, model, sizes, words"):
        read_facts(tmp_path / "run", "captioner")


@pytest.mark.parametrize("save", [lambda trap, path: path.write_bytes(pickle.dumps(trap)), torch.save], ids=["pickle", "torch"])
def test_a_pickle_is_never_loaded(tmp_path, save):
    opened, before = tmp_path / "opened", model()
    save(Trap(opened), tmp_path / "weights.safetensors")
    with pytest.raises(UserError, match="damaged or belongs to another model"):
        load_weights(tmp_path, before)
    assert not opened.exists() and same(before, model())


@pytest.mark.parametrize("content", [b"", b"<html>", b"\x10\0\0\0\0\0\0\0{}"])
def test_damaged_weights_are_refused(tmp_path, content):
    (tmp_path / "weights.safetensors").write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        load_weights(tmp_path, model())


def test_truncated_weights_are_refused(tmp_path):
    save_model(tmp_path, model(), {"kind": "captioner"})
    path = tmp_path / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="damaged"):
        load_weights(tmp_path, model())


def test_weights_of_another_model_are_refused_in_one_line(tmp_path):
    save_model(tmp_path, model(), {"kind": "captioner"})
    with pytest.raises(UserError, match="another model") as caught:
        load_weights(tmp_path, nn.Linear(2, 2))
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(UserError, match=r"expected a captioner in .*nowhere, found no such folder; train it first"):
        read_facts(tmp_path / "nowhere", "captioner")
    with pytest.raises(UserError, match=r"there is no file .*model.json"):
        read_facts(tmp_path, "captioner")
    with pytest.raises(UserError, match=r"there is no file .*weights.safetensors"):
        load_weights(tmp_path, model())


def test_a_run_of_another_kind_is_refused(tmp_path):
    write_json(tmp_path / "model.json", {"kind": "captioner"})
    with pytest.raises(UserError, match="expected a retriever, found a captioner"):
        read_facts(tmp_path, "retriever")


def test_interrupted_saving_keeps_the_model_before(tmp_path, monkeypatch):
    save_model(tmp_path, model(), {"kind": "captioner"})

    def interrupted(handle):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", interrupted)
        save_model(tmp_path, model(1), {"kind": "captioner"})
    loaded = model(1)
    load_weights(tmp_path, loaded)
    assert same(loaded, model()) and sorted(path.name for path in tmp_path.iterdir()) == ["model.json", "weights.safetensors"]


def test_weights_that_the_disk_has_no_room_for_are_told(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, before[1]))  # no file may be longer: writing fails as on a full disk
    try:
        with pytest.raises(UserError, match=r"weights\.safetensors"):
            save_model(tmp_path / "run", torch.nn.Linear(100, 100), {"kind": "captioner"})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((tmp_path / "run").iterdir())


def test_a_run_fits_the_store_that_it_was_trained_on():
    check_fits("run", {"category": "toptee", "features": dict(IDENTITY)}, "tops", Store)


@pytest.mark.parametrize("key", IDENTITY)
def test_a_run_of_other_features_is_refused_by_name(key):
    facts = {"category": "dresses", "features": {**IDENTITY, key: "another"}}
    with pytest.raises(UserError, match=rf"other features than features/dress provides \({key}: "):
        check_fits("run", facts, "dresses", Store)


def test_a_run_of_another_category_is_refused():
    with pytest.raises(UserError, match="trained on dresses, not on shirts"):
        check_fits("run", {"category": "dresses", "features": IDENTITY}, "shirts", Store)
