"""GenIR, its baselines and DAR on the drawn sample, with a generator that draws the garment described."""

import json
from itertools import pairwise

import pytest

from fashioniq.data.dialogues import read_dialogues

SIZES = {"model.width": 16, "model.heads": 2, "model.hidden": 32, "model.layers": 1, "batch_size": 12,
         "epochs": 2, "learning_rate": 0.003, "device": "cpu"}  # fmt: skip


def make_encoder(folder, project, runs):
    for split in ("train", "val"):
        project.run(
            "make-descriptions",
            data=runs.catalog,
            category="dresses",
            split=split,
            out=folder / f"{split}.json",
        )
    files = {"dialogues": folder / "train.json", "val_dialogues": folder / "val.json", "mask": "none"}
    project.run(
        "train-dialog-encoder", data=runs.catalog, category="dresses", run=folder / "run", **files, **SIZES
    )
    return folder


@pytest.fixture(scope="session")
def encoder(once, project, runs):
    """Descriptions of two splits, and a text encoder that has learned from them. Not to be written to."""
    return once("encoder of descriptions", make_encoder, project, runs)


@pytest.fixture
def world(runs, attribute_runs, encoder):
    common = {"data": runs.catalog, "category": "dresses", "features": runs.store, "device": "cpu"}
    return common | {"encoder": encoder / "run", "predictor": attribute_runs[1], "rounds": 3}


@pytest.fixture
def evaluate(project, world, tmp_path):
    """Evaluate a system; return its metrics and its dialogs."""

    def evaluate(system, **options):
        out = tmp_path / "out"
        project.run("eval-dialogs", **{"system": system, **world, **options, "out": out})
        lines = (out / "dialogs.jsonl").read_text().splitlines()
        return json.loads((out / "metrics.json").read_text()), [json.loads(line) for line in lines]

    return evaluate


def ranks(dialogs):
    return [[turn["rank"] for turn in one["turns"]] for one in dialogs]


def test_descriptions_grow_and_every_one_is_a_query_of_its_own(encoder):
    dialogues = read_dialogues(encoder / "train.json")
    assert all(one.alone and len(one.rounds) == 6 for one in dialogues)
    for one in dialogues:
        words = [set(text.split()) for text in one.rounds]
        assert all(before <= after for before, after in pairwise(words)) and words[0] < words[-1]


@pytest.mark.parametrize("count", [1, 2])
def test_genir_generates_pictures_in_every_round_and_the_user_corrects_them(evaluate, count):
    metrics, dialogs = evaluate("genir", generator="drawn:1", pictures=count)
    assert [row["round"] for row in metrics["rounds"]] == [0, 1, 2, 3] and metrics["gallery"] == 12
    for row in metrics["costs"]:
        assert row["pictures"] == pytest.approx(count * (1 - row["unchanged"]))
        assert row["failed"] == row["without_picture"] == 0
    assert metrics["generator"]["backend"] == "drawn" and metrics["feedback"] == "visual"
    replies = [[turn["reply"]["text"] for turn in one["turns"]] for one in dialogs]
    assert any(len(set(texts)) > 1 for texts in replies)


def test_genir_twice_is_the_same_and_another_seed_is_not(evaluate):
    first, again, other = (
        ranks(evaluate("genir", generator="drawn:0.5", seed=seed)[1]) for seed in (0, 0, 1)
    )
    assert first == again != other


@pytest.mark.parametrize("feedback", ["verbal", "prediction"])
def test_the_baselines_search_with_the_text_and_need_no_generator(evaluate, feedback):
    metrics, dialogs = evaluate("genir", feedback=feedback)
    assert "generator" not in metrics or metrics["generator"] is None
    assert metrics.get("costs", []) == [] or not any(row["pictures"] for row in metrics["costs"])
    offered = [turn["offer"].get("item") for one in dialogs for turn in one["turns"][1:]]
    assert all(offered) if feedback == "prediction" else not any(offered)


def test_dar_without_pictures_in_the_query_has_the_ranks_of_chatir(evaluate, project, world, runs, tmp_path):
    _, dialogs = evaluate("dar", generator="drawn:1", weights="text", rounds=10)
    recorded = runs.catalog / "dialogues" / "dress.test.json"
    space = runs.catalog / "image_splits" / "split.dress.test.json"
    options = {"features": runs.store, "encoder": world["encoder"], "out": tmp_path / "chatir"}
    project.run("eval-chatir", dialogues=[recorded], search_space=space, **options)
    lines = (tmp_path / "chatir" / "dialogs.jsonl").read_text().splitlines()
    assert ranks(dialogs) == ranks([json.loads(line) for line in lines])


@pytest.mark.parametrize(
    "changed", [{"weights": "pictures"}, {"fusion": "mean"}, {"weights": "agreement"}, {"rewrite": "join"}]
)
def test_the_options_of_dar_change_the_ranks(evaluate, changed):
    options = {"generator": "drawn:1", "pictures": 3, "rounds": 4}
    assert ranks(evaluate("dar", **options)[1]) != ranks(evaluate("dar", **options, **changed)[1])


@pytest.mark.parametrize(
    ("system", "changed", "said"),
    [
        ("genir", {}, "give --generator"),
        ("genir", {"generator": "drawn:2"}, "a share from 0 to 1"),
        ("dar", {"generator": "drawn:x"}, "a share from 0 to 1"),
        ("dar", {"generator": "drawn:1", "rounds": 11}, "give fewer --rounds"),
        ("genir", {"feedback": "verbal", "encoder": "missing"}, "missing"),
    ],
)
def test_a_mistake_is_refused_in_one_line(refused, world, tmp_path, system, changed, said):
    assert said in refused("eval-dialogs", **{"system": system, **world, **changed, "out": tmp_path / "out"})
    assert not (tmp_path / "out").exists()


def test_features_of_another_predictor_are_refused(refused, world, attribute_runs, tmp_path):
    options = {**world, "predictor": attribute_runs[0], "feedback": "prediction", "out": tmp_path / "out"}
    assert "extract them with --predictor" in refused("eval-dialogs", system="genir", **options)
