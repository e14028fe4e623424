"""The configurations of the papers' settings run to the end on the tiny sample."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file

from fashioniq.data.dialogues import read_dialogues

CONFIG = "configs/paper/{}.yaml"
SMALL = {"model.width": 16, "model.heads": 2, "model.hidden": 16, "model.layers": 1}


@pytest.fixture(scope="module")
def paper(project, runs, tmp_path_factory):
    """Train with a configuration for an epoch, at the paper's sizes; return the run."""
    root = tmp_path_factory.mktemp("paper")
    common = {"data": runs.catalog, "category": "dresses", "device": "cpu"}

    def train(command, name, **options):
        given = {"config": project.root / CONFIG.format(name), "features": runs.store, "epochs": 1, **options}
        run = root / f"{name}{len(list(root.iterdir()))}"
        project.run(command, **common, **given, run=run)
        return run

    return train


@pytest.fixture(scope="module")
def captioner(paper):
    return paper("train-captioner", "captioner")


def test_the_captioner_has_the_papers_sizes(captioner):
    sizes = json.loads((captioner / "model.json").read_text())["sizes"]
    assert (sizes["width"], sizes["layers"], sizes["heads"], sizes["max_words"]) == (512, 6, 8, 8)
    assert "select: BLEU-4" in (captioner / "config.yaml").read_text()


def test_the_released_captioner_reads_the_scores_of_the_predictor(
    paper, project, runs, attribute_runs, tmp_path
):
    run = paper("train-captioner", "released_captioner", predictor=attribute_runs[1], **SMALL)
    weights, head = (
        load_file(run / "weights.safetensors"),
        load_file(attribute_runs[1] / "weights.safetensors"),
    )
    assert torch.equal(weights["scores.head_AD"], head["head.weight"])
    assert weights["scores.norm.running_var"].ne(1).all()  # of the training pairs
    assert "attribute.weight" not in weights and "select: BLEU-3" in (run / "config.yaml").read_text()
    out = tmp_path / "captions"
    project.run("eval-captions", data=runs.catalog, category="dresses", features=runs.store, run=run, out=out)
    assert json.loads((out / "metrics.json").read_text())["attributes"]


def test_the_composer_reads_the_output_of_the_attribute_network(
    paper, project, runs, attribute_runs, tmp_path
):
    run = paper("train-composer", "composer", attrs=True, margin=0.1, predictor=attribute_runs[1])
    assert json.loads((run / "model.json").read_text())["sizes"]["scores"] is True
    weights, head = (load_file(one / "weights.safetensors") for one in (run, attribute_runs[1]))
    assert torch.equal(weights["scores.head_AD"], head["head.weight"])
    options = {"data": runs.catalog, "category": "dresses", "features": runs.store, "device": "cpu"}
    project.run("eval-single-turn", **options, run=run, out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["rows"][0]["R@10"] > 0


def test_scores_need_attributes_and_features_of_the_same_predictor(refused, runs, attribute_runs, tmp_path):
    common = {
        "data": runs.catalog,
        "category": "dresses",
        "predictor": attribute_runs[0],
        "features": runs.store,
    }
    assert "give --attrs" in refused("train-captioner", **common)
    assert "were not computed by" in refused("train-captioner", **common, attrs=True)
    assert "--model.kind transformer" in refused(
        "train-captioner", **common, attrs=True, **{"model.kind": "rnn"}
    )
    cut = shutil.copytree(attribute_runs[1], tmp_path / "cut")
    (cut / "weights.safetensors").unlink()
    assert "train it again" in refused("train-captioner", **common | {"predictor": cut}, attrs=True)
    assert "leave it out" in refused("train-composer", **common, **{"model.composition": "B"})


@pytest.mark.parametrize("name", ["retriever", "released_retriever"])
def test_the_retrievers_of_the_paper_and_of_the_released_code_are_trained_and_evaluated(
    paper, captioner, project, runs, name, tmp_path, capsys
):
    run = paper("train-retriever", name, captioner=captioner, turns=2)
    assert "the paper has GloVe's of 300 numbers: --word-vectors FILE" in capsys.readouterr().out
    model = json.loads((run / "model.json").read_text())
    assert model["users"] == [str(captioner)] and model["sizes"]["layers"] == 6
    assert model["sizes"]["embedding"] == ("unit" if name == "retriever" else "standardized")
    config = project.root / CONFIG.format("dialogs")
    of_data = {"data": runs.catalog, "category": "dresses", "features": runs.store, "user": captioner}
    project.run(
        "eval-dialogs", config=config, run=run, out=tmp_path / "out", turns=2, device="cpu", **of_data
    )
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert len(metrics["turns"]) == 2 and metrics["decoding"] == "beam 5"


def test_the_composer_of_appendix_b_is_trained_with_the_ranking_loss(paper):
    run = paper("train-composer", "composer", attrs=True, margin=0.1)
    assert json.loads((run / "model.json").read_text())["loss"] == "ranking"


def test_the_dialog_encoder_of_chatir_is_trained_and_evaluated(project, runs, tiny_blip, tmp_path):
    dialogues = {
        split: runs.catalog / "dialogues" / f"dress.{split}.json" for split in ("train", "val", "test")
    }
    store = tmp_path / "store"
    project.run(
        "extract-features",
        data=runs.catalog,
        category="dresses",
        encoder=tiny_blip,
        features=store,
        device="cpu",
    )
    project.run(
        "train-dialog-encoder", config=project.root / CONFIG.format("dialog_encoder"), epochs=1, device="cpu",
        dialogues=dialogues["train"], val_dialogues=dialogues["val"], features=store, encoder=tiny_blip,
        run=tmp_path / "run",
    )  # fmt: skip
    project.run(
        "eval-dialogs", config=project.root / CONFIG.format("chatir"), dialogues=dialogues["test"], device="cpu",
        search_space=runs.catalog / "image_splits" / "split.dress.test.json", features=store,
        encoder=tmp_path / "run", out=tmp_path / "out",
    )  # fmt: skip
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["query"] == "rounds joined by ' [SEP] '"
    assert len(metrics["rounds"]) == len(read_dialogues(dialogues["test"])[0].rounds)


@pytest.mark.parametrize("name", ["genir", "dar", "plugir"])
def test_the_systems_of_pictures_and_questions_are_evaluated(project, runs, tmp_path, name, attribute_runs):
    """By drawn pictures and labels in place of the papers' models."""
    given = {"config": project.root / CONFIG.format(name), "data": runs.catalog, "category": "dresses"}
    encoder = tmp_path / "encoder"
    project.run(
        "train-dialog-encoder", data=runs.catalog, category="dresses", features=runs.store, epochs=1, run=encoder,
        device="cpu", **{"model.width": 16, "model.heads": 2, "model.hidden": 16, "model.layers": 1},
    )  # fmt: skip
    own = {
        "genir": {"rounds": 1, "targets": 3, "generator": "drawn:1"},
        "dar": {
            "generator": "drawn:1",
            "rewrite": "join",
            "features": runs.store,
            "dialogues": runs.catalog / "dialogues" / "dress.test.json",
            "search_space": runs.catalog / "image_splits" / "split.dress.test.json",
        },
        "plugir": {"rounds": 1, "targets": 3, "candidates": 500},
    }[name]
    if name != "plugir":
        own |= {"predictor": attribute_runs[1], "cache": tmp_path / "cache"}
    project.run("eval-dialogs", **given, encoder=encoder, **own, out=tmp_path / "out", device="cpu")
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    weights = metrics.get("weights_of_text", {}).get("name")
    assert weights == {"genir": "pictures", "dar": "paper", "plugir": None}[name]
    assert metrics["rounds"]
