"""A retriever that begins with the weights of another."""

import torch
from safetensors.torch import load_file

from fashioniq.cli import main
from fashioniq.runs import CaptionerRun, RetrieverRun, read_run


def options(project, runs, folder, **others):
    common = {
        "data": runs.catalog,
        "category": "dresses",
        "attrs": True,
        "captioner": runs.captioner,
        "init_from": runs.retriever,
        "run": folder,
    }
    return {**project.retriever, **common, "epochs": 1, **others}


def test_a_started_retriever_goes_on_from_the_weights_of_the_other(project, runs, tmp_path):
    project.run("train-retriever", **options(project, runs, tmp_path / "same", learning_rate=0.0))
    project.run("train-retriever", **options(project, runs, tmp_path / "on", learning_rate=0.001))
    before, same, on = (
        load_file(folder / "weights.safetensors")
        for folder in (runs.retriever, tmp_path / "same", tmp_path / "on")
    )
    assert all(torch.equal(same[name], tensor) for name, tensor in before.items())
    assert any(not torch.equal(on[name], tensor) for name, tensor in before.items())


def test_a_start_of_other_sizes_is_refused_and_leaves_nothing(project, runs, tmp_path, capsys):
    assert (
        main(
            project.arguments(
                "train-retriever", **options(project, runs, tmp_path / "run", **{"model.width": 16})
            )
        )
        == 2
    )
    assert "other sizes" in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_retriever_may_see_attributes_that_its_user_does_not(project, vector_runs, tmp_path):
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    project.run(
        "train-retriever",
        **project.retriever,
        **common,
        captioner=vector_runs.captioner,
        attrs=True,
        run=tmp_path / "run",
    )
    sizes = [
        read_run(run, kind).sizes
        for run, kind in ((tmp_path / "run", RetrieverRun), (vector_runs.captioner, CaptionerRun))
    ]
    assert sizes[0]["attributes"] > 0 == sizes[1]["attributes"]
    project.run("eval-dialogs", **common, run=tmp_path / "run", beam=1, turns=2)


def test_a_linear_retriever_needs_no_captions_for_its_second_stage(project, runs, tmp_path):
    linear = {"model.kind": "linear", "loss": "cross-entropy", "epochs": 1}
    first = options(project, runs, tmp_path / "first", **linear, users=["differences", "recorded"])
    del first["init_from"]
    project.run("train-retriever", **first)
    second = {"init_from": tmp_path / "first", "stage": "policy", "users": "captioner"}
    project.run("train-retriever", **options(project, runs, tmp_path / "second", **linear, **second))
    assert (
        read_run(tmp_path / "second", RetrieverRun).words == read_run(tmp_path / "first", RetrieverRun).words
    )


def test_a_second_stage_improves_the_policy_of_a_trained_retriever(project, runs, tmp_path, capsys):
    given = options(project, runs, tmp_path / "run", stage="policy", temperature=None)
    del given["temperature"]
    project.run("train-retriever", **given)
    before, after = (
        load_file(folder / "weights.safetensors") for folder in (runs.retriever, tmp_path / "run")
    )
    assert any(not torch.equal(after[name], tensor) for name, tensor in before.items())
    capsys.readouterr()
    for changed, message in (
        ({"init_from": None}, "give its run with --init-from"),
        ({"turns": 1}, "two turns or more"),
        ({"users": ["captioner", "recorded"]}, "--users captioner or differences"),
    ):
        wrong = {name: value for name, value in (given | changed).items() if value is not None}
        assert main(project.arguments("train-retriever", **wrong, seed=1)) == 2
        assert message in capsys.readouterr().err
