import json
import os
import pickle
import resource

import msgspec
import pytest
import torch
from torch import nn

from fashioniq import __version__
from fashioniq.features.store import DIFFERENT, StoreIdentity
from fashioniq.files import UserError, checksum, write_json
from fashioniq.provenance import Provenance
from fashioniq.runs import KINDS, CaptionerRun, RetrieverRun, read_run, weights_file
from fashioniq.runs.checks import check_fits, described
from fashioniq.runs.weights import load_weights, save_model

IDENTITY = {
    "encoder": "efficientnet-b0",
    "weights": "abc",
    "image_size": 64,
    "dimensions": 1280,
    "attribute_words": ["red"],
}
ORIGIN = {
    "folder": "d",
    "fingerprint": "f",
    "pictures": "photographs",
    "captions": "people",
    "coverage": {"train": 1.0, "val": 0.5},
}
SPEAKING = {
    "category": "tops",
    "attrs": True,
    "model": "transformer",
    "sizes": {"width": 4},
    "words": ["red"],
    "features": IDENTITY,
    "data": ORIGIN,
}
LEARNT = {
    "loss": "triplet",
    "negatives": "batch",
    "users": ["captioner"],
    "dialogs": "simulated",
    "errors": 0.0,
    "exclude_shown": False,
}
FILES = {"dialogues": {"train": "t.json"}, "checksums": {"train": "c"}, "coverage": {"train": 0.5}}
WRITTEN = {
    "captioner": {"kind": "captioner", **SPEAKING},
    "retriever": {"kind": "retriever", **SPEAKING, "user": None, **LEARNT},
    "dialog encoder": {
        "model": "transformer", "sizes": {}, "words": [], "kind": "dialog encoder", "encoder": "transformer", "features": IDENTITY,
        "joined": ", ", "loss": "both", "mask": "none", "data": FILES,
    },
    "attribute predictor": {
        "kind": "attribute predictor", "category": "all", "encoder": "efficientnet-b0", "image_size": 64, "attribute_words": ["red"],
        "attribute_types": [1], "pictures": "photographs", "coverage": {"train": 1.0},
    },
    "generator": {
        "kind": "generator", "category": "all", "sizes": {}, "words": [], "types": [], "language": "en",
        "pictures": "photographs", "coverage": {"train": 1.0},
    },
    "chatsearcher": {
        "kind": "chatsearcher", "stage": "conversations", "language_model": "", "tuned": "all", "sizes": {"width": 4}, "words": ["red"],
        "features": {"weights": "abc", "tokens": 1}, "negatives": "queue of 1000", "data": FILES,
    },
    "zero-shot search": {
        "kind": "zero-shot search", "category": "dresses", "encoder": "clip", "features": IDENTITY, "data": ORIGIN,
        "shown": 0.5,
    },
}  # fmt: skip  # keys and their order, as the trainings give them
CAPTIONER = described(WRITTEN["captioner"])


class Store:
    root, identity = "features/dress", StoreIdentity(**IDENTITY)


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
    return all(
        torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )


def saved_checksum(run):
    return checksum(weights_file(run))


def test_a_model_comes_back_as_it_was_saved(tmp_path):
    saved, loaded = model().to(memory_format=torch.channels_last), model(1)
    save_model(tmp_path / "run", saved, CAPTIONER)
    load_weights(tmp_path / "run", loaded)
    assert same(saved, loaded)
    about = read_run(tmp_path / "run", CaptionerRun)
    assert (
        about == msgspec.structs.replace(CAPTIONER, checksum=saved_checksum(tmp_path / "run"))
        and about.version == __version__
        and about.features == StoreIdentity(**IDENTITY)
        and about.data.fingerprint == "f"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_of_model_json_are_those_of_earlier_versions_and_a_checksum(tmp_path, kind):
    facts, metrics = WRITTEN[kind], {"epoch": 1.0, "val_loss": float("nan")}
    save_model(tmp_path, model(), msgspec.structs.replace(described(facts), metrics=metrics))
    content = {"version": __version__, **facts, "metrics": metrics, "checksum": saved_checksum(tmp_path)}
    written = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    assert (tmp_path / "model.json").read_text() == written


@pytest.mark.parametrize("kind", KINDS)
def test_provenance_is_the_last_key_and_absent_in_runs_of_earlier_versions(tmp_path, kind):
    about = described(WRITTEN[kind])
    save_model(tmp_path, model(), about)
    assert not read_run(tmp_path, KINDS[kind]).provenance
    about = msgspec.structs.replace(about, provenance=Provenance(commit=None), metrics={"epoch": 1.0})
    save_model(tmp_path, model(), about)
    assert read_run(tmp_path, KINDS[kind]) == msgspec.structs.replace(
        about, checksum=saved_checksum(tmp_path)
    )
    assert list(json.loads((tmp_path / "model.json").read_text()))[-1] == "provenance"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_a_later_version_is_accepted(tmp_path, kind):
    write_json(tmp_path / "model.json", {"version": "9", **WRITTEN[kind], "later": {"a": 1}})
    assert read_run(tmp_path, KINDS[kind]) == msgspec.structs.replace(described(WRITTEN[kind]), version="9")


def test_a_run_of_an_earlier_version_needs_what_rebuilds_the_model_alone(tmp_path):
    facts = {key: value for key, value in WRITTEN["retriever"].items() if key not in LEARNT}
    write_json(tmp_path / "model.json", {**facts, "data": {"fingerprint": "f"}})
    about = read_run(tmp_path, RetrieverRun)
    assert about.user is None and about.data.captions == "" and not about.exclude_shown


def test_a_description_with_an_unknown_key_is_not_written():
    with pytest.raises(ValueError, match=r"model\.json of a captioner has no colour"):
        described({**WRITTEN["captioner"], "colour": "red"})


def test_a_description_that_lacks_keys_is_refused_by_name(tmp_path):
    write_json(tmp_path / "model.json", {"kind": "captioner", "category": "tops"})
    with pytest.raises(
        UserError, match="lacks attrs, data, features, model, sizes, words: train the captioner again"
    ):
        read_run(tmp_path, CaptionerRun)


def test_a_value_of_a_wrong_type_is_refused_with_its_place(tmp_path):
    write_json(tmp_path / "model.json", {**WRITTEN["captioner"], "words": "red"})
    with pytest.raises(UserError, match=r"model.json is malformed .*words.*: train the captioner again"):
        read_run(tmp_path, CaptionerRun)


@pytest.mark.parametrize("most", ["8", 0, -1, 2.5, True, None, [8]])
def test_the_length_of_a_text_is_a_number(tmp_path, most):
    write_json(tmp_path / "model.json", WRITTEN["captioner"])
    read_run(tmp_path, CaptionerRun)
    sizes = WRITTEN["captioner"]["sizes"] | {"max_words": most}
    write_json(tmp_path / "model.json", {**WRITTEN["captioner"], "sizes": sizes})
    with pytest.raises(UserError, match=r"is damaged, it has max_words .*; train the captioner again"):
        read_run(tmp_path, CaptionerRun)


@pytest.mark.parametrize(
    "save", [lambda trap, path: path.write_bytes(pickle.dumps(trap)), torch.save], ids=["pickle", "torch"]
)
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
    save_model(tmp_path, model(), CAPTIONER)
    path = tmp_path / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="damaged"):
        load_weights(tmp_path, model())


def test_weights_of_another_model_are_refused_in_one_line(tmp_path):
    save_model(tmp_path, model(), CAPTIONER)
    with pytest.raises(UserError, match="another model") as caught:
        load_weights(tmp_path, nn.Linear(2, 2))
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(
        UserError, match=r"expected a captioner in .*nowhere, found no such folder; train it first"
    ):
        read_run(tmp_path / "nowhere", CaptionerRun)
    with pytest.raises(UserError, match=r"expected a captioner in .*, found no model.json"):
        read_run(tmp_path, CaptionerRun)
    with pytest.raises(UserError, match=r"there is no file .*weights.safetensors"):
        load_weights(tmp_path, model())


def test_a_run_of_another_kind_is_refused(tmp_path):
    write_json(tmp_path / "model.json", {"kind": "captioner"})
    with pytest.raises(UserError, match="expected a retriever, found a captioner"):
        read_run(tmp_path, RetrieverRun)


def test_interrupted_saving_keeps_the_model_before(tmp_path, monkeypatch):
    save_model(tmp_path, model(), CAPTIONER)

    def interrupted(handle):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", interrupted)
        save_model(tmp_path, model(1), CAPTIONER)
    loaded = model(1)
    load_weights(tmp_path, loaded)
    assert same(loaded, model()) and sorted(path.name for path in tmp_path.iterdir()) == [
        "model.json",
        "weights.safetensors",
    ]


def test_weights_that_the_disk_has_no_room_for_are_told(tmp_path, apart):
    def save_on_a_full_disk():
        # no file may be longer: writing fails as on a full disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        with pytest.raises(UserError) as error:
            save_model(tmp_path / "run", torch.nn.Linear(100, 100), described(WRITTEN["captioner"]))
        return str(error.value)

    assert "weights.safetensors" in apart(save_on_a_full_disk)
    assert not list((tmp_path / "run").iterdir())


def retriever(**changed):
    return described({**WRITTEN["retriever"], **changed})


def test_a_run_fits_the_store_that_it_was_trained_on():
    check_fits("run", retriever(category="toptee"), "tops", Store)


@pytest.mark.parametrize("key", IDENTITY)
def test_a_run_of_other_features_is_refused_by_name(key):
    other = {
        **IDENTITY,
        key: ["another"] if key == "attribute_words" else 7 if isinstance(IDENTITY[key], int) else "another",
    }
    with pytest.raises(UserError, match=f"{DIFFERENT[key]} than features/dress provides"):
        check_fits("run", retriever(category="dresses", features=other), "dresses", Store)


def test_a_run_of_another_category_is_refused():
    with pytest.raises(UserError, match="trained on dresses, not on shirts"):
        check_fits("run", retriever(category="dresses"), "shirts", Store)
