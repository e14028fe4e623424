"""train-dialog-encoder: the run that it leaves, resuming, and what is refused."""

import csv
import json
import random

import numpy as np
import pytest
import torch

from fashioniq.cli import main
from fashioniq.data.dialogues import Dialogue, write_dialogues
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, write_json
from fashioniq.runs.trained import load_dialog_encoder

TINY = {
    "model.width": 16,
    "model.heads": 2,
    "model.hidden": 32,
    "model.layers": 1,
    "batch_size": 12,
    "micro_batch": 5,
    "epochs": 4,
    "learning_rate": 0.003,
    "device": "cpu",
}
COUNTS = {"train": 24, "val": 10}


def write_store(folder, ids, seed=0):
    folder.mkdir(parents=True)
    np.save(
        folder / "features.npy", np.random.default_rng(seed).normal(size=(len(ids), 8)).astype(np.float32)
    )
    np.save(folder / "attributes.npy", np.zeros((len(ids), 8), np.int64))
    write_json(folder / "ids.json", ids)
    facts = {
        "encoder": "own",
        "weights": str(seed),
        "image_size": 1,
        "dimensions": 8,
        "attribute_words": [],
        "count": len(ids),
        "failures": {},
    }
    write_json(folder / "store.json", facts)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder as a drawn sample's, of dialogs and features alone; the features of one image of train are
    missing.
    """
    folder, rng = tmp_path_factory.mktemp("chat"), random.Random(0)
    for split, count in COUNTS.items():
        rounds = [
            tuple(f"is it w{rng.randrange(9)}? w{rng.randrange(9)}" for _ in range(4)) for _ in range(count)
        ]
        write_dialogues(
            folder / f"dialogues/dress.{split}.json",
            [Dialogue(f"{split}{n}", some) for n, some in enumerate(rounds)],
        )
    write_store(
        folder / "features/dress",
        [f"{split}{n}" for split, count in COUNTS.items() for n in range(count)][1:],
    )
    return folder


@pytest.fixture(scope="module")
def run(data, project):
    folder = data / "whole"
    project.run("train-dialog-encoder", data=data, category="dresses", run=folder, **TINY)
    return folder


def rows_of(run):
    with open(run / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_run_is_complete_and_gives_the_encoder_back(run, data):
    facts = json.loads((run / "model.json").read_text())
    assert facts["data"]["coverage"] == {"train": 23 / 24, "val": 1.0} and facts["mask"] == "caption"
    model, joined = load_dialog_encoder(run, FeatureStore(data / "features/dress"))
    query_ND = model.texts(["w1 w2", "", "w3 unheard " * 100])
    assert joined == ", " and query_ND.shape == (3, model.size) and model.lengths(["w1 w2"]) == [2]
    torch.testing.assert_close(query_ND.norm(dim=1), torch.ones(3))
    torch.testing.assert_close(model.embed_images(torch.ones(2, 8)).norm(dim=1), torch.ones(2))
    assert len({row["train_loss"] for row in rows_of(run)}) == 4


def test_two_epochs_and_two_more_are_four(run, data, project, tmp_path):
    options = {"data": data, "category": "dresses", "run": tmp_path / "run", **TINY}
    project.run("train-dialog-encoder", **{**options, "epochs": 2})
    project.run("train-dialog-encoder", **options, resume=True)
    assert rows_of(tmp_path / "run") == rows_of(run)
    assert (tmp_path / "run/weights.safetensors").read_bytes() == (run / "weights.safetensors").read_bytes()


def test_another_seed_is_another_training_and_files_may_be_named_one_by_one(run, data, project, tmp_path):
    files = {
        "dialogues": "dialogues/dress.train.json",
        "val_dialogues": "dialogues/dress.val.json",
        "features": "features/dress",
    }
    files = {option: data / path for option, path in files.items()}
    project.run("train-dialog-encoder", **files, run=tmp_path / "run", **{**TINY, "epochs": 1}, seed=3)
    assert rows_of(tmp_path / "run")[0]["train_loss"] != rows_of(run)[0]["train_loss"]


def refusal(capsys, project, **options):
    capsys.readouterr()
    assert main(project.arguments("train-dialog-encoder", **{**TINY, **options})) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_what_is_not_said_or_does_not_fit_is_refused(data, project, tmp_path, capsys):
    given = {"data": data, "category": "dresses", "run": tmp_path / "run"}
    assert "--features" in refusal(capsys, project, data=data, run=tmp_path / "run")
    write_dialogues(
        tmp_path / "alone.json", [Dialogue(f"train{n}", ("a dress", "a red dress")) for n in range(1, 9)]
    )
    assert "--mask none" in refusal(capsys, project, **given, dialogues=tmp_path / "alone.json")
    write_dialogues(
        tmp_path / "strange.json", [Dialogue(f"strange{n}", ("a dress", "red? no")) for n in range(8)]
    )
    told = refusal(capsys, project, **given, dialogues=tmp_path / "strange.json")
    assert "expected features for at least two dialogs" in told and "found 0 in" in told
    assert not (tmp_path / "run").exists()


def test_features_of_another_encoder_are_refused(run, tmp_path):
    write_store(tmp_path / "other", ["a", "b"], seed=1)
    with pytest.raises(UserError, match="with different weights"):
        load_dialog_encoder(run, FeatureStore(tmp_path / "other"))
