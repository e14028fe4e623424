"""The picture generator by its command: a run, its evaluation, a death, and mistakes."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import fashioniq
from fashioniq.cli import main
from fashioniq.generators.pictures import PictureRequest
from fashioniq.generators.trained import RunGenerator
from fashioniq.models.denoiser import Denoiser

TINY = {
    "category": "dresses",
    "image_size": 16,
    "model.patch": 4,
    "model.width": 32,
    "model.heads": 2,
    "model.layers": 1,
    "min_count": 3,
    "epochs": 3,
    "workers": 0,
}


@pytest.fixture(scope="module")
def options(sample, attribute_runs):
    return {"data": sample, "predictor": attribute_runs[1], **TINY}


@pytest.fixture(scope="module")
def run(project, options, tmp_path_factory):
    """A whole run."""
    run = tmp_path_factory.mktemp("generator") / "run"
    project.run("train-generator", **options, run=run)
    return run


def test_the_example_of_the_documentation_makes_a_picture(run):
    page = (Path(fashioniq.__file__).parents[1] / "docs/generator.md").read_text(encoding="utf-8")
    block = page.partition("```python\n")[2].partition("```")[0]
    given = {}
    exec(block.replace("runs/generator-dresses", str(run)), given)
    assert given["made"].picture.size == (16, 16) and "maxi" in given["made"].sent


def rows_of(run):
    with open(run / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_a_run_holds_a_generator_its_evaluation_and_a_contact_sheet(run):
    about = json.loads((run / "model.json").read_text())
    assert about["kind"] == "generator" and about["category"] == "dresses"
    assert about["sizes"]["vocabulary"] == len(about["words"]) == len(about["types"])
    assert list(about)[-1] == "provenance" and about["provenance"]["data"] == about["data"]["fingerprints"]
    figures = about["evaluation"]
    assert figures["products"] == 12
    for kind in ("real", "generated", "control"):
        assert 0 <= figures[kind]["colors"] <= 100 and 0 <= figures[kind]["others"] <= 100
        assert figures[kind]["families"].keys() == figures["real"]["families"].keys()
    with Image.open(run / "contact_sheet.png") as sheet:
        assert sheet.width > 1000


def test_a_run_is_in_the_layout_of_diffusers_and_holds_its_weights_once(run):
    loaded = Denoiser.from_pretrained(run / "denoiser")
    assert loaded.config["width"] == 32 and (run / "scheduler/scheduler_config.json").exists()
    (weights,) = run.rglob("*.safetensors")
    saved = load_file(weights)
    assert saved.keys() == loaded.state_dict().keys()
    assert all(torch.equal(saved[name], weight) for name, weight in loaded.state_dict().items())


def test_a_run_generates_pictures_for_texts(run):
    one, other = RunGenerator(run).generate(
        [PictureRequest("a red dress with long sleeves, not blue", 3), PictureRequest("red", 4)]
    )
    assert one.status == other.status == "ok" and one.picture.size == (16, 16)
    assert "red" in one.sent and "dress" in one.sent and "blue" not in one.sent


def test_a_training_that_died_goes_on_to_the_same_run(project, options, run, tmp_path, interrupt):
    other = tmp_path / "run"
    interrupt("train-generator", 1, **options, run=other)
    assert len(rows_of(other)) == 1
    project.run("train-generator", **options, run=other, resume=True)
    assert rows_of(other) == rows_of(run) and len({row["train_loss"] for row in rows_of(run)}) == 3
    for name in ("contact_sheet.png", "denoiser/diffusion_pytorch_model.safetensors"):
        assert (other / name).read_bytes() == (run / name).read_bytes()
    assert project.content(other / "model.json") == project.content(run / "model.json")


def test_photographs_of_another_shape_are_padded(project, sample, tmp_path, capsys):
    """A catalog without labels, of upright photographs, one of which cannot be read."""
    catalog = tmp_path / "catalog"
    shutil.copytree(sample, catalog, ignore=shutil.ignore_patterns("features", "attributes"))
    pictures = sorted((catalog / "images/dress").iterdir())
    for number, path in enumerate(pictures):
        Image.fromarray(np.full((80, 60, 3), number, dtype=np.uint8)).save(path)
    pictures[0].write_bytes(b"no picture")
    project.run("train-generator", **{**TINY, "data": catalog, "epochs": 1}, run=tmp_path / "run")
    printed = capsys.readouterr().out
    assert "train: 35 of 36" in printed and "no evaluation without --predictor" in printed
    assert "evaluation" not in json.loads((tmp_path / "run/model.json").read_text())


MISTAKES = {
    "the category is missing": ({"category": "hats"}, "no category 'hats'"),
    "words are too rare": ({"min_count": 999}, "lower --min-count"),
    "patches do not fit": ({"model.patch": 5}, "--model.patch is 5, which does not divide --image-size 16"),
    "heads do not fit": ({"model.heads": 5}, "--model.heads is 5, which does not divide --model.width 32"),
    "the predictor is missing": ({"predictor": "nowhere"}, "expected an attribute predictor in nowhere"),
    "nothing can be resumed": ({"resume": True}, "nothing to resume"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_leaves_no_run(mistake, project, options, tmp_path, capsys):
    changed, expected = MISTAKES[mistake]
    assert main(project.arguments("train-generator", **{**options, **changed}, run=tmp_path / "run")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and expected in line and not (tmp_path / "run").exists()


def test_a_run_that_is_there_is_refused(project, options, run, capsys):
    assert main(project.arguments("train-generator", **options, run=run)) == 2
    assert "already has a run" in capsys.readouterr().err


def test_a_generator_is_refused_where_a_predictor_is_expected(run, project, options, tmp_path, capsys):
    assert (
        main(project.arguments("train-generator", **{**options, "predictor": run}, run=tmp_path / "run")) == 2
    )
    assert "expected an attribute predictor, found a generator" in capsys.readouterr().err
