"""One training at a time writes the folder of a run; a second one is refused and names the first."""

import os
import pkgutil
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import pytorch_lightning as pl
import torch

from fashioniq import config
from fashioniq.cli import COMMANDS
from fashioniq.cli.commands import place_of
from fashioniq.files import UserError
from fashioniq.locks import exclusive
from fashioniq.training.folder import alone, folder_of

TRAININGS = {name: kind for name, kind in COMMANDS.items() if issubclass(kind, config.Training)}


def settings_of(kind, **options):
    required = {"category": "dresses"} if "category" in kind.__dataclass_fields__ else {}
    return kind(**required, **options)


@pytest.mark.parametrize("name", TRAININGS)
def test_every_training_is_refused_while_another_writes_its_run(name, tmp_path):
    run = pkgutil.resolve_name(place_of(name))
    settings = settings_of(TRAININGS[name], data=tmp_path / "nothing", run=tmp_path / "run")
    with (
        exclusive(tmp_path / "run"),
        pytest.raises(UserError, match=rf"another process is writing to .*run \(process {os.getpid()}, "),
    ):
        run(settings)
    assert len(TRAININGS) == 7
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", TRAININGS)
def test_every_training_is_refused_at_the_start_if_its_run_is_a_file(name, tmp_path):
    run = pkgutil.resolve_name(place_of(name))
    (tmp_path / "dresses.csv").write_text("id")
    settings = settings_of(TRAININGS[name], data=tmp_path / "nothing", run=tmp_path / "dresses.csv")
    with pytest.raises(UserError, match=r"dresses\.csv is not a folder"):
        run(settings)
    assert (tmp_path / "dresses.csv").read_text() == "id"


def test_learn_is_refused_while_another_writes_its_folder(tmp_path):
    from fashioniq.service.learning.run import learn

    settings = config.Learn(run=tmp_path / "run", out=tmp_path / "out", database="sqlite:///none.db")
    with exclusive(settings.out), pytest.raises(UserError, match=r"another process is writing to .*out"):
        learn(settings)


@alone
def trained(settings):
    return "trained"


def drawn():
    return random.random(), np.random.rand(), torch.rand(()).item()


@pytest.mark.parametrize("ends", [nullcontext(), pytest.raises(UserError)])
def test_random_numbers_of_the_caller_go_on_as_if_nothing_had_been_trained(ends, tmp_path):
    @alone
    def seeded(settings):
        pl.seed_everything(0, verbose=False)
        if not isinstance(ends, nullcontext):
            raise UserError("training diverged")

    pl.seed_everything(7, verbose=False)
    expected = [drawn() for _ in range(2)]
    pl.seed_everything(7, verbose=False)
    found = [drawn()]
    with ends:
        seeded(config.TrainRetriever(category="dresses", run=tmp_path / "run"))
    assert [*found, drawn()] == expected


def test_two_threads_of_a_process_do_not_train_at_once(tmp_path):
    @alone
    def outer(settings):
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(
                trained, config.TrainRetriever(category="dresses", run=tmp_path / "b")
            ).exception(60)

    settings = config.TrainRetriever(category="dresses", run=tmp_path / "a")
    refused = outer(settings)
    assert isinstance(refused, UserError) and "another thread of this process is training" in str(refused)
    assert trained(settings) == "trained"


@pytest.mark.parametrize("rank", [0, 1])
def test_of_processes_that_train_together_the_first_has_the_lock(rank, tmp_path, monkeypatch):
    for name, value in {"NODE_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    settings = settings_of(config.TrainCaptioner, run=tmp_path / "run", num_nodes=2)
    assert trained(settings) == "trained"
    with exclusive(tmp_path / "run"):
        if rank:
            assert trained(settings) == "trained"
        else:
            with pytest.raises(UserError, match="another process"):
                trained(settings)


@pytest.mark.parametrize(
    ("kind", "options", "folder"),
    [
        (config.TrainCaptioner, {"attrs": True}, "captioner-dresses-attrs"),
        (config.TrainRetriever, {}, "retriever-dresses"),
        (config.TrainComposer, {"attrs": True}, "composer-A-dresses-attrs"),
        (config.TrainAttributes, {}, "attributes-dresses"),
        (config.TrainAttributes, {"category": None}, "attributes"),
        (config.TrainGenerator, {"category": None}, "generator"),
        (config.TrainDialogEncoder, {}, "dialog-encoder-dresses"),
        (config.TrainChatsearcher, {}, "chatsearcher-conversations"),
    ],
)
def test_the_default_folder_is_named_after_the_model_and_its_category(kind, options, folder):
    settings = settings_of(kind)
    for name, value in options.items():
        setattr(settings, name, value)
    assert folder_of(settings) == Path("runs") / folder
    settings.run = Path("mine")
    assert folder_of(settings) == Path("mine")
