"""Old names of options and commands still work for one release: in YAML files, as flags, and in runs to be
resumed.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fashioniq.cli import main, parse
from fashioniq.config import (
    Cross,
    ImportFeatures,
    MakeDialogues,
    Score,
    TrainComposer,
    TrainRetriever,
    WriteQueries,
)
from fashioniq.config.renamed import OLD
from fashioniq.models.configs import ComposerConfig, DialogEncoderConfig, RetrieverConfig
from fashioniq.options import check
from fashioniq.training.fitting import Resumption, begin_run

OLD_FILES = Path(__file__).parent / "old_settings"


def refusal(capsys, command, *arguments):
    with pytest.raises(SystemExit) as caught:
        parse(command, arguments)
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_flat_yaml_keys_are_nested_without_a_word(capsys):
    settings = parse(
        "train-retriever", ["--config", str(OLD_FILES / "retriever.yaml"), "--category", "dresses"]
    )
    assert settings.model == RetrieverConfig(kind="rnn", width=256, image_mlp_width=512)
    assert (settings.users, settings.negatives) == (["captioner", "recorded"], "gallery")
    assert settings.exclude_shown
    arguments = ["--config", str(OLD_FILES / "dialog_encoder.yaml"), "--features", "store"]
    settings = parse("train-dialog-encoder", arguments)
    assert (
        settings.micro_batch == 128 and settings.mask == "caption" and settings.model == DialogEncoderConfig()
    )
    assert capsys.readouterr().err == ""


def test_old_flags_work_with_a_notice_of_one_line(capsys):
    old = "--category dresses --width=64 --model rnn --errors 0.1 --accelerator gpu --seeds 1 --start run --strategy ddp"
    new = (
        "--category dresses --model.width=64 --model.kind rnn --word-noise 0.1 --device cuda --init-from run"
    )
    settings = parse("train-retriever", old.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        line.startswith("note: ")
        and "--width is now --model.width" in line
        and "--seeds is no longer an option" in line
    )
    assert settings == parse("train-retriever", new.split())
    assert capsys.readouterr().err == ""


def test_a_margin_of_cross_entropy_is_now_a_temperature(tmp_path, capsys):
    arguments = ["--category", "dresses", "--loss", "cross-entropy", "--margin", "0.07"]
    settings = parse("train-retriever", arguments)
    assert (settings.margin, settings.temperature) == (None, 0.07)
    (tmp_path / "a.yaml").write_text("category: dresses\nloss: cross-entropy\nmargin: 0.07\n")
    assert parse("train-retriever", ["--config", str(tmp_path / "a.yaml")]) == settings


@pytest.mark.parametrize(
    ("command", "arguments", "expected"),
    [
        (
            "train-retriever",
            "--category tops --model composer --dialogs recorded --composition B --width 8",
            TrainComposer(category="tops", model=ComposerConfig(composition="B", width=8)),
        ),
        (
            "eval-dialogs",
            "--category tops --cross a b,c --users d --errors 0.1",
            Cross(category="tops", retrievers=["a", "b,c"], users=["d"], word_noise=0.1),
        ),
        (
            "eval-single-turn",
            "--category tops --predictions a.json --device cpu",
            Score(category=["tops"], predictions=["a.json"]),
        ),
        (
            "eval-single-turn",
            "--category tops --write-queries q",
            WriteQueries(category=["tops"], out=Path("q")),
        ),
        (
            "extract-features",
            "--category tops --vectors v.npy --ids i.json --attributes a.npy --attribute-words w.json",
            ImportFeatures(
                category="tops",
                vectors=Path("v.npy"),
                ids=Path("i.json"),
                attribute_scores=Path("a.npy"),
                attribute_words=Path("w.json"),
            ),
        ),
        (
            "make-dialogues",
            "--start a.json --attributes run --out b.json",
            MakeDialogues(captions_from=Path("a.json"), predictor=Path("run"), out=Path("b.json")),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_options_that_became_a_command_run_it_with_a_notice(command, arguments, expected, capsys):
    assert parse(command, arguments.split()) == expected
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("note: ")


def test_yaml_files_of_a_split_command_run_the_new_one():
    settings = parse(
        "train-retriever", ["--config", str(OLD_FILES / "composer.yaml"), "--category", "dresses", "--attrs"]
    )
    assert settings == TrainComposer(category="dresses", attrs=True)


@pytest.mark.parametrize(
    ("command", "option", "instead"),
    [
        ("train-retriever", "seeds: 3", "shell loop"),
        ("train-retriever", "strategy: ddp_fork", "ddp"),
        ("train-attributes", "imbalance: focal", "unweighted"),
        ("eval-dialogs", "least_recall: 0.8", "0.95"),
        ("train-retriever", "composition: B", "train-composer"),
    ],
)
def test_a_removed_option_is_refused_with_what_to_do_instead(command, option, instead, tmp_path, capsys):
    name, value = option.split(": ")
    (tmp_path / "a.yaml").write_text(f"category: dresses\n{option}\n")
    for arguments in (
        ["--config", str(tmp_path / "a.yaml")],
        ["--category", "tops", "--" + name.replace("_", "-"), value],
    ):
        line = refusal(capsys, command, *arguments)
        assert f"--{name.replace('_', '-')} {value} is no longer supported" in line and instead in line


def test_no_new_name_is_also_an_old_name_with_another_meaning():
    for (given, run), old in OLD.items():
        if given == run:
            news = set(old.names.values())
            assert not (news & old.names.keys()) and not (news & old.removed.keys()), given


def test_a_run_with_the_flat_config_of_an_earlier_version_is_resumed_and_other_settings_are_refused(
    tmp_path, capsys
):
    run = tmp_path / "rnn"
    run.mkdir()
    torch.save({}, run / "last.ckpt")
    old = (OLD_FILES / "run_of_train_retriever.yaml").read_text().replace("run: rnn", f"run: {run}")
    (run / "config.yaml").write_text(old)
    settings = parse("train-retriever", ["--config", str(run / "config.yaml"), "--resume"])
    assert (
        isinstance(settings, TrainRetriever) and settings.model.kind == "rnn" and settings.temperature == 0.07
    )
    check(settings)
    begin_run(run, settings)
    assert (run / "config.yaml").read_text() == old  # until the checkpoint has been loaded
    Resumption(run, settings).on_train_start(SimpleNamespace(is_global_zero=True, optimizers=[]), None)
    written = (run / "config.yaml").read_text()
    assert "model:\n  kind: rnn\n  width: 32\n" in written and "accelerator" not in written
    assert (
        main(["train-retriever", "--config", str(run / "config.yaml"), "--resume", "--model.width", "16"])
        == 2
    )
    begin_run(run, settings)  # the new form is resumed too
