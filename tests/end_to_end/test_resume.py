"""An interrupted training is an uninterrupted one, loss by loss; and no training is gone on with by mistake."""

import csv
import json
import signal
from shutil import copytree, rmtree

import pytest
import torch
from safetensors.torch import load_file

from fashioniq.cli import main
from fashioniq.training import callbacks
from fashioniq.training.callbacks import KeepBest
from tests.waiting import ended

EPOCHS = 3


class Killed(Exception):
    """Stands for a power cut: nothing of the package catches it."""


def rows_of(run):
    with open(run / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def assert_same_run(project, run, other):
    assert rows_of(run) == rows_of(other) and len(rows_of(run)) == EPOCHS
    assert (
        len({row["train_loss"] for row in rows_of(run)}) == EPOCHS
    )  # else nothing was learnt, and nothing is proved
    assert (run / "weights.safetensors").read_bytes() == (other / "weights.safetensors").read_bytes()
    assert project.content(run / "model.json") == project.content(other / "model.json")
    for name in ("attributes.json", "contact_sheet.jpg"):
        assert (run / name).exists() == (other / name).exists()
        assert not (run / name).exists() or (run / name).read_bytes() == (other / name).read_bytes()
    states = [torch.load(path / "last.ckpt", weights_only=True) for path in (run, other)]
    assert all(
        torch.equal(tensor, states[1]["state_dict"][name]) for name, tensor in states[0]["state_dict"].items()
    )


@pytest.fixture(scope="module")
def trainings(project, vector_runs, attribute_runs, talks):
    """The command and the options of each training."""
    common = {"data": vector_runs.catalog, "category": "dresses", "epochs": EPOCHS}
    own = {"features": vector_runs.store}
    return {
        "captioner": ("train-captioner", {**project.captioner, **common, **own}),
        "retriever": (
            "train-retriever",
            {**project.retriever, **common, **own, "captioner": vector_runs.captioner},
        ),
        "chatsearcher": (
            "train-chatsearcher",
            {**project.chatsearcher, **own, "data": talks, "epochs": EPOCHS},
        ),
        "attributes": (
            "train-attributes",
            {**common, "init_from": attribute_runs[0], "min_count": 3, "batch_size": 16, "workers": 0},
        ),
    }


@pytest.fixture(scope="module")
def whole(trainings, project, tmp_path_factory):
    """A training that nothing interrupts, made when first asked for."""
    made = {}

    def whole(kind):
        if kind not in made:
            command, options = trainings[kind]
            made[kind] = tmp_path_factory.mktemp("whole") / kind
            project.run(command, **options, run=made[kind])
        return made[kind]

    return whole


@pytest.fixture(scope="module")
def interrupted(trainings, interrupt, tmp_path_factory):
    """The run of an interrupted training, made when first asked for.

    Its folder may be written to: whoever asks next finds it there as it was left by the interruption.
    """
    folder = tmp_path_factory.mktemp("interrupted")

    def interrupted(kind, epoch):
        run, kept = folder / f"{kind} {epoch}", folder / f"{kind} {epoch} kept"
        if not kept.exists():
            command, options = trainings[kind]
            interrupt(command, epoch, **options, run=run)
            copytree(run, kept)
        else:
            rmtree(run)
            copytree(kept, run)
        return run

    return interrupted


@pytest.mark.parametrize("kind", ["captioner", "retriever"])
def test_two_epochs_and_one_more_are_three(kind, trainings, whole, project, tmp_path):
    command, options = trainings[kind]
    project.run(command, **{**options, "epochs": 2}, run=tmp_path / "run")
    assert len(rows_of(tmp_path / "run")) == 2
    project.run(command, **options, run=tmp_path / "run", resume=True)
    assert_same_run(project, tmp_path / "run", whole(kind))


@pytest.mark.parametrize("kind", ["captioner", "retriever", "chatsearcher", "attributes"])
def test_a_training_that_died_within_an_epoch_goes_on_as_if_it_had_not(
    kind, trainings, whole, interrupted, project
):
    run = interrupted(kind, epoch=2)
    assert len(rows_of(run)) == 2
    command, options = trainings[kind]
    project.run(command, **options, run=run, resume=True)
    assert_same_run(project, run, whole(kind))


def test_a_training_that_died_twice_goes_on_as_if_it_had_not(
    trainings, whole, interrupted, project, monkeypatch
):
    run = interrupted("captioner", epoch=1)
    command, options = trainings["captioner"]

    def stop(self, trainer, *_):
        if trainer.current_epoch == 2:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(KeepBest, "on_before_zero_grad", stop)
        with pytest.raises(Killed):
            main(project.arguments(command, **options, run=run, resume=True))
    project.run(command, **options, run=run, resume=True)
    assert_same_run(project, run, whole("captioner"))


def test_a_death_between_the_best_weights_and_the_checkpoint_changes_nothing(
    trainings, whole, project, tmp_path, monkeypatch
):
    command, options = trainings["captioner"]
    real = KeepBest.on_train_epoch_end

    def stop(self, trainer, module):
        real(self, trainer, module)
        if trainer.current_epoch == 1:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(KeepBest, "on_train_epoch_end", stop)
        with pytest.raises(Killed):
            main(project.arguments(command, **options, run=tmp_path / "run"))
    project.run(command, **options, run=tmp_path / "run", resume=True)
    assert_same_run(project, tmp_path / "run", whole("captioner"))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_killed_process_resumes_to_the_same_losses(
    trainings, whole, project, tmp_path, monkeypatch, forked, wait_until
):
    command, options = trainings["captioner"]
    run, within = tmp_path / "run", tmp_path / "within"

    def wait(self, trainer, *_):
        if trainer.current_epoch == 1 and trainer.global_step % trainer.num_training_batches == 2:
            within.touch()
            signal.pause()

    with monkeypatch.context() as patch:
        patch.setattr(KeepBest, "on_before_zero_grad", wait)
        process = forked(main, project.arguments(command, **options, run=run))
    wait_until(within.exists, process.is_alive)
    process.kill()
    ended(process)
    assert len(rows_of(run)) == 1
    project.run(command, **options, run=run, resume=True)
    assert [float(row["train_loss"]) for row in rows_of(run)] == pytest.approx(
        [float(row["train_loss"]) for row in rows_of(whole("captioner"))]
    )


def test_the_config_of_a_run_resumes_it(trainings, whole, interrupted, project):
    run = interrupted("captioner", epoch=2)
    project.run("train-captioner", config=run / "config.yaml", resume=True)
    assert_same_run(project, run, whole("captioner"))


def test_resuming_a_run_that_is_complete_changes_nothing(trainings, whole, project):
    run = whole("captioner")
    before = [
        (run / name).read_bytes()
        for name in ("weights.safetensors", "model.json", "metrics.csv", "config.yaml")
    ]
    command, options = trainings["captioner"]
    project.run(command, **options, run=run, resume=True)
    assert [
        (run / name).read_bytes()
        for name in ("weights.safetensors", "model.json", "metrics.csv", "config.yaml")
    ] == before


def test_the_time_of_a_resumed_training_is_that_of_all_its_processes(
    trainings, interrupt, project, tmp_path, monkeypatch
):
    command, options = trainings["captioner"]
    run = tmp_path / "run"
    with monkeypatch.context() as patch:  # what the first process leaves in its checkpoint
        patch.setattr(callbacks, "seconds", lambda: {"wall": 5000.0, "cpu": 3000.0})
        interrupt(command, 2, **options, run=run)
    project.run(command, **options, run=run, resume=True)
    spent = json.loads((run / "model.json").read_text())["provenance"]["seconds"]
    assert 5000 < spent["wall"] < 9000 and 3000 < spent["cpu"] < 7000


def test_a_resumed_run_keeps_the_best_weights_of_before(trainings, project, tmp_path, monkeypatch):
    command, options = trainings["captioner"]
    monkeypatch.setattr("fashioniq.training.captioner.LANGUAGE", 0.0)  # the first epoch is hardly language
    project.run(command, **{**options, "epochs": 1}, run=tmp_path / "run")
    best = load_file(tmp_path / "run" / "weights.safetensors")
    monkeypatch.setattr(  # every later epoch is worse
        "fashioniq.users.pragmatic.Listener.ranks",
        lambda _, examples, items: torch.full((len(examples),), len(items)),
    )
    project.run(command, **{**options, "epochs": 2}, run=tmp_path / "run", resume=True)
    assert all(
        torch.equal(tensor, best[name])
        for name, tensor in load_file(tmp_path / "run" / "weights.safetensors").items()
    )


# what is refused


def refusal(capsys, project, command, **options):
    capsys.readouterr()
    assert main(project.arguments(command, **options)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    return line


def test_a_rate_that_falls_until_the_last_step_keeps_its_number_of_steps(
    trainings, whole, project, capsys, monkeypatch
):
    for name, value in (("NODE_RANK", "0"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")):
        monkeypatch.setenv(name, value)
    command, options = trainings["attributes"]
    for name, value in (("devices", 2), ("num_nodes", 2), ("epochs", 50)):
        assert f"was started with {name} {options.get(name, 1)}, not {value}" in refusal(
            capsys, project, command, **{**options, name: value}, run=whole("attributes"), resume=True
        )


@pytest.mark.parametrize("kind", ["captioner", "retriever", "attributes"])
def test_other_settings_are_not_resumed(kind, trainings, whole, project, capsys):
    command, options = trainings[kind]
    before = (whole(kind) / "config.yaml").read_bytes()
    told = refusal(capsys, project, command, **{**options, "batch_size": 7}, run=whole(kind), resume=True)
    assert "batch_size 16, not 7" in told and "--run" in told
    assert (whole(kind) / "config.yaml").read_bytes() == before


@pytest.mark.parametrize("kind", ["captioner", "retriever", "attributes"])
def test_an_existing_run_is_refused_without_resume(kind, trainings, whole, project, capsys):
    command, options = trainings[kind]
    assert "already has a run" in refusal(capsys, project, command, **options, run=whole(kind))


def test_an_existing_run_is_refused_before_ridge_regression(trainings, whole, project, capsys):
    command, options = trainings["retriever"]
    linear = {**options, "model.kind": "linear", "users": "recorded"}
    assert main(project.arguments(command, **linear, run=whole("retriever"))) == 2
    told = capsys.readouterr()
    assert "already has a run" in told.err and "ridge" not in told.out


def test_nothing_is_resumed_where_there_is_no_run(trainings, project, tmp_path, capsys):
    command, options = trainings["captioner"]
    assert "nothing to resume" in refusal(
        capsys, project, command, **options, run=tmp_path / "run", resume=True
    )
    assert not (tmp_path / "run").exists()


def test_a_run_that_died_in_its_first_epoch_may_start_again(trainings, whole, interrupted, project, capsys):
    run = interrupted("captioner", epoch=0)
    command, options = trainings["captioner"]
    assert "no epoch was completed" in refusal(capsys, project, command, **options, run=run, resume=True)
    project.run(command, **options, run=run)
    assert_same_run(project, run, whole("captioner"))


def test_a_run_that_died_before_its_first_checkpoint_may_start_again(
    trainings, whole, interrupted, project, capsys
):
    run = interrupted("captioner", epoch=1)
    (run / "last.ckpt").unlink()  # the weights of the first epoch are there already
    command, options = trainings["captioner"]
    assert "start again without --resume" in refusal(
        capsys, project, command, **options, run=run, resume=True
    )
    project.run(command, **options, run=run)
    assert_same_run(project, run, whole("captioner"))


@pytest.mark.parametrize("name", ["last.ckpt", "config.yaml"])
@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_damaged_run_is_not_resumed(name, damage, trainings, interrupted, project, capsys):
    run = interrupted("captioner", epoch=1)
    content = (run / name).read_bytes()
    (run / name).unlink()
    if damage == "truncated":
        (run / name).write_bytes(content[: len(content) // 2] + b": [")
    command, options = trainings["captioner"]
    assert str(run) in refusal(capsys, project, command, **options, run=run, resume=True)


def test_stopping_by_hand_says_how_to_go_on(trainings, project, tmp_path, monkeypatch, capsys):
    command, options = trainings["captioner"]

    def stop(self, trainer, *_):
        if trainer.current_epoch == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(KeepBest, "on_before_zero_grad", stop)
    try:
        code = main(project.arguments(command, **options, run=tmp_path / "run"))
    except SystemExit as exit:
        code = exit.code
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Lightning leaves it ignored
    told = capsys.readouterr().err
    assert "interrupted" in told and f"--resume --run {tmp_path / 'run'}" in told and "Traceback" not in told
    assert code in (2, 130)
