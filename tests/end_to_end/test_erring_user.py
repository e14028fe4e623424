"""A user that errs, in training and in evaluation."""

import csv
import json

import pytest

from fashioniq.cli import main


def losses_of(run):
    with open(run / "metrics.csv", newline="") as file:
        return [row["train_loss"] for row in csv.DictReader(file)]


@pytest.fixture
def words(project, vector_runs, tmp_path):
    """Evaluate with errors; return the metrics and the words of every target's first turn."""

    def words(name, **options):
        common = {
            "data": vector_runs.catalog,
            "category": "dresses",
            "features": vector_runs.store,
            "user": vector_runs.captioner,
            "turns": 2,
            "beam": 1,
            "out": tmp_path / name,
        }
        project.run("eval-dialogs", **{**common, "run": vector_runs.retriever, **options})
        dialogs = [json.loads(line) for line in (tmp_path / name / "dialogs.jsonl").read_text().splitlines()]
        return json.loads(project.content(tmp_path / name / "metrics.json")), [
            [turn["words"] for turn in dialog["turns"]] for dialog in dialogs
        ]

    return words


def test_errors_are_named_and_heard_and_come_again(words, capsys):
    plain, said = words("plain")
    metrics, heard = words("erring", word_noise=0.5)
    assert "word noise 50 %" in capsys.readouterr().out
    assert (plain["errors"], metrics["errors"], metrics["decoding"]) == (
        0.0,
        0.5,
        "most informative of 32 samples that are true by the labels",
    )
    assert sum(one[0] != other[0] for one, other in zip(said, heard, strict=True)) >= len(said) // 2
    assert words("again", word_noise=0.5, batch_size=5) == (metrics, heard)
    assert [dialog[0] for dialog in words("longer", word_noise=0.5, turns=3)[1]] == [
        dialog[0] for dialog in heard
    ]
    assert words("seed", word_noise=0.5, seed=1)[1] != heard


def test_recorded_captions_can_err_too(words):
    _, said = words("said", user="human", split="val")
    metrics, heard = words("heard", user="human", split="val", word_noise=0.5)
    assert metrics["errors"] == 0.5 and len(said) == len(heard) and said != heard


def test_training_with_errors_is_another_training_and_resumes_to_the_same_losses(
    project, vector_runs, tmp_path
):
    common = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "captioner": vector_runs.captioner,
    }
    options = {**project.retriever, **common}
    project.run("train-retriever", **options, run=tmp_path / "whole", word_noise=0.3)
    project.run("train-retriever", **{**options, "epochs": 1}, run=tmp_path / "parts", word_noise=0.3)
    project.run("train-retriever", **options, run=tmp_path / "parts", word_noise=0.3, resume=True)
    assert losses_of(tmp_path / "parts") == losses_of(tmp_path / "whole") != losses_of(vector_runs.retriever)
    for name in ("metrics.csv", "model.json", "weights.safetensors"):
        assert project.content(tmp_path / "parts" / name) == project.content(tmp_path / "whole" / name)
    assert json.loads((tmp_path / "whole" / "model.json").read_text())["errors"] == 0.3


@pytest.mark.parametrize(
    ("option", "told"),
    [({"word_noise": 0.1}, "--word-noise 0.1")],
)
def test_training_without_a_captioner_has_no_words_to_err_in_and_no_second_turn(
    option, told, project, vector_runs, tmp_path, capsys
):
    options = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "run": tmp_path / "run",
    }
    assert (
        main(
            project.arguments(
                "train-retriever", **{**project.retriever, **options, **option, "users": "recorded"}
            )
        )
        == 2
    )
    assert told in capsys.readouterr().err and not (tmp_path / "run").exists()
