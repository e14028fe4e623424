"""What `fashioniq.load` passes on: the kind of a run, its data, and where vectors are stored."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fashioniq import plugins, systems
from fashioniq.files import UserError
from fashioniq.systems import genir, load


@pytest.fixture
def loaded(monkeypatch):
    """Function that loads a run of a kind; returns its system, a tuple of what it was made of."""

    def loaded(kind, **options):
        made = {
            "retriever": lambda run, chosen: ("retriever", run, chosen),
            "dialog encoder": lambda run, chosen: ("dialog encoder", run, chosen),
        }
        monkeypatch.setattr(plugins, "find", lambda parts, name: SimpleNamespace(load=made[name]))
        monkeypatch.setattr(systems, "kind_of", lambda run: kind)
        monkeypatch.setattr(systems, "version_of", lambda run, category: f"{category}@today")
        monkeypatch.setattr(systems, "read_json", lambda path, what, kind: {"category": path.name})
        monkeypatch.setattr(systems, "with_search", lambda *searched: searched)
        monkeypatch.setattr(genir, "load", lambda *given: ("generated", *given))
        return load("run", **options)

    return loaded


def test_the_split_and_the_data_of_the_training_are_the_default(loaded):
    kind, run, chosen = loaded("retriever")
    assert (kind, run) == ("retriever", Path("run"))
    assert chosen == (None, "test", "auto", None, None, None, True)


def test_what_is_given_is_passed_on_as_paths(loaded):
    given = {"features": "store", "split": "val", "device": "cpu", "data": "catalog", "category": "dresses"}
    _, _, chosen = loaded("retriever", **given, words=False)
    assert chosen == (Path("store"), "val", "cpu", Path("catalog"), "dresses", None, False)


@pytest.mark.parametrize(
    ("options", "folder", "version"),
    [
        ({"index": "HNSW32"}, "test", "model.json@today"),
        ({"gallery": "milvus://host", "category": "tops", "split": "all"}, "all-toptee", "tops@today"),
    ],
)
def test_an_approximate_search_is_stored_in_the_run_by_split_and_category(loaded, options, folder, version):
    (kind, _, chosen), stored, name, index, gallery = loaded("retriever", **options)
    assert (kind, chosen.stored, stored) == ("retriever", stored, Path("run/gallery") / folder)
    assert (name, index, gallery) == (version, options.get("index"), options.get("gallery"))


def test_only_a_dialog_encoder_searches_with_generated_pictures(loaded):
    with pytest.raises(UserError, match="a generator needs a run of train-dialog-encoder, found a retriever"):
        loaded("retriever", generator="drawn")
    made = loaded("dialog encoder", generator="drawn", predictor="predictor")
    assert (made[0], *made[3:]) == ("generated", "drawn", Path("predictor"))
    assert loaded("dialog encoder", generator="drawn")[-1] is None


def test_other_runs_are_refused(loaded):
    with pytest.raises(UserError, match="or a zero-shot search, found a captioner"):
        loaded("captioner")
