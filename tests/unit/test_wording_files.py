"""wording.json and labels.safetensors of a run: written, read and refused."""

import json

import msgspec
import pytest
import torch

from fashioniq.data.wording import Weights, WordingRun
from fashioniq.files import UserError
from fashioniq.models.labels import LabelModel
from fashioniq.runs import LABELS, WORDING
from fashioniq.runs.weights import load_wording, save_wording

WEIGHTS = Weights(0.02, 2.0, 1.5)
ABOUT = WordingRun(
    weights=WEIGHTS,
    labels=["red", "maxi", "lace"],
    figures={"captions": 12.0},
    said={"lace": 2},
    hues={"p1": {"red": 0.25}},
)


def model_of(seed=0, features=4, labels=3):
    torch.manual_seed(seed)
    model = LabelModel(features, labels)
    torch.nn.init.normal_(model.linear.weight)
    model.standardize(torch.randn(9, features))
    return model


@pytest.fixture
def run(tmp_path):
    save_wording(tmp_path, model_of(), ABOUT)
    return tmp_path


@torch.no_grad()
def test_what_was_saved_is_loaded(run):
    about, model = load_wording(run, 4)
    assert msgspec.structs.replace(about, checksum="") == ABOUT
    features_BD = torch.randn(5, 4)
    assert torch.equal(model(features_BD), model_of()(features_BD)) and not model.training


def test_a_run_without_wording_has_none(tmp_path):
    assert load_wording(tmp_path, 4) is None


def damaged(run, change):
    change(run)
    with pytest.raises(UserError) as refused:
        load_wording(run, 4)
    assert "\n" not in str(refused.value) and str(run) in str(refused.value)
    return str(refused.value)


def written(**changes):
    """Function that writes other values to wording.json."""

    def change(run):
        content = json.loads((run / WORDING).read_text())
        (run / WORDING).write_text(json.dumps(content | changes))

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: (run / LABELS).unlink(), "there is no file"),
        (lambda run: (run / LABELS).write_bytes(b""), "damaged"),
        (lambda run: (run / LABELS).write_bytes((run / LABELS).read_bytes()[:-3]), "damaged"),
        (lambda run: (run / WORDING).write_text("{"), WORDING),
        (lambda run: (run / WORDING).write_text("[]"), WORDING),
        (lambda run: (run / WORDING).write_text("{}"), WORDING),
        (written(weights={"lexical": "much"}), WORDING),
        (written(weights={"wanted": -1.0}), WORDING),
        (written(weights={"wanted": 1e30}), WORDING),
        (written(weights={"denied": float("nan")}), WORDING),
        (written(labels=["red"]), "damaged or belongs to another model"),
        (written(labels=[1, 2, 3]), WORDING),
        (written(labels="red"), WORDING),
        (written(hues={"p1": {"red": 1.5}}), WORDING),
        (written(hues={"p1": ["red"]}), WORDING),
        (written(checksum="0"), "is not the file that was written with"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(run, change, told):
    assert told in damaged(run, change)


def test_labels_of_another_fit_are_refused(run, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    save_wording(other, model_of(seed=1), ABOUT)
    assert "is not the file" in damaged(run, lambda run: (other / LABELS).replace(run / LABELS))


def test_labels_of_other_features_are_refused(run):
    with pytest.raises(UserError, match="damaged or belongs to another model"):
        load_wording(run, 5)


def test_a_label_model_that_is_not_finite_is_refused(run):
    model = model_of()
    torch.nn.init.constant_(model.linear.bias, float("nan"))
    save_wording(run, model, ABOUT)
    assert "is not finite" in damaged(run, lambda run: None)
