"""The attribute predictor by its command: on DeepFashion's files, on a Fashion IQ folder, both stages, and
after a death.
"""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from safetensors.torch import load_file

from fashioniq.cli import main
from fashioniq.training.callbacks import KeepBest

WORDS = [("red", 1), ("blue", 1), ("wide", 3), ("polka dot", 1), ("never seen", 5)]
TINY = {
    "encoder": "test_efficientnet",
    "weights": "none",
    "image_size": 32,
    "batch_size": 8,
    "workers": 0,
    "learning_rate": 0.003,
}


def draw(path, red, wide, dots):
    """A garment in a corner of the picture; returns its box."""
    image = Image.new("RGB", (60, 60), "white")
    draw = ImageDraw.Draw(image)
    box = (5, 10, 50, 30) if wide else (10, 5, 30, 50)
    draw.rectangle((box[0], box[1], box[2] - 1, box[3] - 1), "red" if red else "blue")
    if dots:
        for place in range(12, 28, 6):
            draw.ellipse((place, place, place + 3, place + 3), "yellow")
    image.save(path)
    return box


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory):
    """Forty drawn garments in DeepFashion's format: two pictures are missing, one box lies outside, some
    labels are unknown.
    """
    root = tmp_path_factory.mktemp("deepfashion")
    (root / "img/Drawn").mkdir(parents=True)
    rng = np.random.default_rng(0)
    files = {
        name: [] for name in ("Anno/list_attr_img.txt", "Anno/list_bbox.txt", "Eval/list_eval_partition.txt")
    }
    for number in range(40):
        name = f"img/Drawn/img_{number:08}.jpg"
        red, wide, dots = (bool(value) for value in rng.integers(0, 2, 3))
        box = draw(root / name, red, wide, dots)
        values = [
            1 if red else -1,
            -1 if red else 1,
            1 if wide else -1,
            0 if number % 7 == 0 else 1 if dots else -1,
            -1,
        ]
        files["Anno/list_attr_img.txt"].append(f"{name}  " + " ".join(f"{value:2}" for value in values))
        files["Anno/list_bbox.txt"].append(
            f"{name}  " + " ".join(map(str, (99, 99, 120, 120) if number == 3 else box))
        )
        files["Eval/list_eval_partition.txt"].append(
            f"{name}  {'train' if number < 26 else 'val' if number < 36 else 'test'}"
        )
    files["Anno/list_attr_cloth.txt"] = [f"{word:20} {kind}" for word, kind in WORDS]
    for name, rows in files.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("\n".join([str(len(rows)), "header", *rows]) + "\n")
    for number in (5, 30):
        (root / f"img/Drawn/img_{number:08}.jpg").unlink()
    return root


@pytest.fixture(scope="module")
def options(benchmark):
    return {"deepfashion": benchmark, "min_count": 2, "epochs": 3, **TINY}


@pytest.fixture(scope="module")
def first(project, options, tmp_path_factory):
    """A first stage on the drawn benchmark."""
    run = tmp_path_factory.mktemp("first") / "run"
    project.run("train-attributes", **options, run=run)
    return run


def test_the_configurations_of_the_paper_train_its_network_and_compute_its_features(
    project, sample, benchmark, tmp_path
):
    config, run, store = project.root / "configs/paper", tmp_path / "run", tmp_path / "store"
    small = {"weights": "none", "image_size": 32, "epochs": 1, "workers": 0, "device": "cpu"}
    project.run(
        "train-attributes", config=config / "attributes.yaml", deepfashion=benchmark, run=run, **small
    )
    facts = json.loads((run / "model.json").read_text())
    assert facts["encoder"] == "efficientnet-b7" and facts["attribute_words"] == [
        word for word, _ in WORDS[:4]
    ]
    of_sample = {"data": sample, "category": "dresses", "predictor": run, "features": store, "device": "cpu"}
    project.run("extract-features", config=config / "features.yaml", **of_sample)
    features = np.load(store / "features.npy", mmap_mode="r")
    assert features.shape[1] == 2560 and features.dtype == np.float32
    assert (features[:] != features[:].astype(np.float16)).any()  # nothing is rounded


def rows_of(run):
    with open(run / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_deepfashion_is_trained_on_and_what_is_not_there_is_told(project, options, tmp_path, capsys):
    run = tmp_path / "run"
    project.run("train-attributes", **{**options, "epochs": 1}, run=run)
    told = capsys.readouterr().out
    assert (
        "train: 25 of 26 have labels and a readable picture" in told
        and "val: 9 of 10 have labels and a readable picture" in told
    )
    assert "img_00000005.jpg: no such file" in told and "1 have a box outside the picture" in told
    facts = json.loads((run / "model.json").read_text())
    assert facts["attribute_words"] == ["red", "blue", "wide", "polka dot"]  # never seen in training
    assert (
        facts["attribute_types"] == ["texture", "texture", "shape", "texture"] and facts["category"] == "all"
    )
    assert facts["coverage"] == {"train": 25 / 26, "val": 9 / 10}
    assert "recall@8" in told and "chance" in told and "worst" in told


def test_a_run_holds_its_figures_its_curves_and_a_contact_sheet(first):
    figures = json.loads((first / "attributes.json").read_text())
    best = max(rows_of(first), key=lambda row: float(row["val_mAP"]))
    assert figures["epoch"] == int(float(best["epoch"])) and figures["mAP"] == pytest.approx(
        float(best["val_mAP"]), abs=1e-3
    )
    assert {row["type"]: row["mAP"] for row in figures["types"]} == pytest.approx(
        {kind: float(best[f"val_mAP_{kind}"]) for kind in ("shape", "texture")}, abs=1e-3
    )
    assert [row["word"] for row in figures["words"]] == ["red", "blue", "wide", "polka dot"]
    red, blue = figures["words"][:2]
    assert red["train"] + blue["train"] == 25 and red["val"] + blue["val"] == 9
    for name, least in (("curves.png", 1000), ("contact_sheet.jpg", 1000)):
        with Image.open(first / name) as image:
            assert image.width > least


def test_the_second_stage_keeps_the_encoder_and_begins_with_the_words_of_the_first(
    project, sample, first, tmp_path, capsys
):
    run = tmp_path / "run"
    common = {
        "data": sample,
        "category": "dresses",
        "init_from": first,
        "min_count": 3,
        "epochs": 1,
        "workers": 0,
        "batch_size": 16,
    }
    project.run("train-attributes", **common, learning_rate=0.0, run=run)
    words = [json.loads((path / "model.json").read_text())["attribute_words"] for path in (first, run)]
    shared = [word for word in words[1] if word in words[0]]
    assert (
        shared and f"{len(shared)} of {len(words[1])} attribute words start with" in capsys.readouterr().out
    )
    before, after = (load_file(path / "weights.safetensors") for path in (first, run))
    assert all(
        torch.equal(tensor, after[name]) for name, tensor in before.items() if name.startswith("encoder.")
    )
    for word in shared:
        assert torch.equal(
            before["head.weight"][words[0].index(word)], after["head.weight"][words[1].index(word)]
        )


def test_a_training_that_died_goes_on_to_the_same_losses(project, options, first, tmp_path, interrupt):
    """`test_resume.py` has the second stage."""
    run = tmp_path / "run"
    interrupt("train-attributes", 1, **options, run=run)
    assert len(rows_of(run)) == 1
    project.run("train-attributes", **options, run=run, resume=True)
    assert rows_of(run) == rows_of(first) and len({row["train_loss"] for row in rows_of(run)}) == 3
    for name in ("weights.safetensors", "attributes.json", "contact_sheet.jpg"):
        assert (run / name).read_bytes() == (first / name).read_bytes()


def test_a_run_that_is_there_is_refused_before_any_picture_is_opened(
    project, options, first, monkeypatch, capsys
):
    monkeypatch.setattr("fashioniq.training.labelled_images.PictureReader", lambda *_: pytest.fail("opened"))
    assert main(project.arguments("train-attributes", **options, run=first)) == 2
    assert "already has a run" in capsys.readouterr().err


@pytest.mark.parametrize("others", [{"category": "dresses"}, {"init_from": "runs/attributes"}], ids=str)
def test_deepfashion_is_for_the_first_stage_alone(others, project, options, tmp_path, capsys):
    assert main(project.arguments("train-attributes", **options, **others, run=tmp_path / "run")) == 2
    assert (
        "--deepfashion cannot be combined with --category or --init-from" in capsys.readouterr().err
        and not (tmp_path / "run").exists()
    )


def test_a_folder_without_pictures_is_refused(project, options, benchmark, tmp_path, capsys):
    copy = tmp_path / "copy"
    for name in ("Anno", "Eval"):
        (copy / name).mkdir(parents=True)
        for path in (benchmark / name).iterdir():
            (copy / name / path.name).write_bytes(path.read_bytes())
    assert (
        main(project.arguments("train-attributes", **{**options, "deepfashion": copy}, run=tmp_path / "run"))
        == 2
    )
    (line,) = capsys.readouterr().err.splitlines()
    assert "no train picture can be read" in line and "no such file" in line


@pytest.mark.parametrize("workers", [0, 1])
def test_a_photo_that_vanishes_during_training_is_named_and_the_training_can_be_resumed(
    project, sample, tmp_path, monkeypatch, capfd, workers
):
    catalog, run = tmp_path / "catalog", tmp_path / "run"
    shutil.copytree(sample, catalog, ignore=shutil.ignore_patterns("features"))
    name = json.loads((catalog / "image_splits/split.dress.train.json").read_text())[0]
    (picture,) = (catalog / "images/dress").glob(f"{name}.*")

    def vanish(self, trainer, module, real=KeepBest.on_train_epoch_end):
        real(self, trainer, module)
        picture.unlink(missing_ok=True)

    monkeypatch.setattr(KeepBest, "on_train_epoch_end", vanish)
    monkeypatch.setattr("fashioniq.training.labelled_images.KEPT", 0)  # else no photo is read again
    options = {**TINY, "learning_rate": 0.001, "workers": workers, "min_count": 3, "epochs": 3}
    assert (
        main(project.arguments("train-attributes", data=catalog, category="dresses", run=run, **options)) == 2
    )
    printed = capfd.readouterr().err  # of all processes
    assert "Traceback" not in printed
    assert (
        printed.strip().splitlines()[-1].startswith("error: ")
        and str(picture) in printed
        and "--resume" in printed
    )
    assert (run / "last.ckpt").exists()
