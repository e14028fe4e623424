"""Evaluations read the catalog, the category and the feature store that their run was trained on."""

import json
import shutil
from pathlib import Path

import torch

from fashioniq.cli import main


def test_eval_dialogs_needs_only_the_run(vector_runs, tmp_path, project):
    options = {"run": vector_runs.retriever, "user": vector_runs.captioner, "beam": 1}
    project.run("eval-dialogs", **options, out=tmp_path)
    assert (tmp_path / "dialogs.jsonl").read_text() == (vector_runs.dialogs / "dialogs.jsonl").read_text()
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert (found["category"], Path(found["data"])) == ("dresses", vector_runs.catalog)
    assert Path(found["store"]) == vector_runs.store


def test_the_baselines_of_a_table_have_the_data_of_the_run(vector_runs, tmp_path, project):
    project.run(
        "eval-dialogs", run=vector_runs.retriever, user=["human", "differences"], split="val", out=tmp_path
    )
    for name in ("human-bm25", "human-last-shown"):
        found = json.loads((tmp_path / name / "metrics.json").read_text())
        assert Path(found["store"]) == vector_runs.store and Path(found["data"]) == vector_runs.catalog


def test_eval_captions_needs_only_the_run(vector_runs, tmp_path, project):
    project.run("eval-captions", run=vector_runs.captioner, out=tmp_path)
    found = json.loads((tmp_path / "metrics.json").read_text())
    assert (found["category"], Path(found["data"])) == ("dresses", vector_runs.catalog)


def test_another_folder_has_its_own_feature_store(vector_runs, tmp_path, refused):
    error = refused("eval-dialogs", run=vector_runs.retriever, data=vector_runs.catalog, out=tmp_path / "out")
    assert f"there is no feature store {vector_runs.catalog}/features/dress" in error
    assert not (tmp_path / "out").exists()


def test_without_a_run_the_category_is_asked_for(capsys, tmp_path):
    for arguments in (["eval-dialogs", "--run", "bm25", "--user", "human"], ["eval-captions"]):
        assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
        assert "no category given; give --category" in capsys.readouterr().err


def test_a_resumed_run_has_the_folder_of_its_data_though_no_epoch_is_better(vector_runs, tmp_path, project):
    run, moved = tmp_path / "run", tmp_path / "moved"
    options = {"category": "dresses", "features": vector_runs.store, "run": run, "users": "recorded"}
    options |= {"model.kind": "linear", "schedule": "constant"}
    project.run("train-retriever", **options, data=vector_runs.catalog, epochs=1)
    checkpoint = torch.load(run / "last.ckpt")
    checkpoint["callbacks"]["KeepBest"]["best"]["val_score"] = 1e9
    torch.save(checkpoint, run / "last.ckpt")
    shutil.copytree(vector_runs.catalog, moved)
    project.run("train-retriever", **options, data=moved, epochs=2, resume=True)
    assert Path(json.loads((run / "model.json").read_text())["data"]["folder"]) == moved
