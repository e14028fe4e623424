"""Folder of the run that a training writes: its default, its lock against other trainings, and its config.yaml and
metrics.csv, by which it can be resumed.
"""

import csv
import dataclasses
import io
import math
import random
import re
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
import yaml

from fashioniq.config import (
    TrainAttributes,
    TrainChatsearcher,
    TrainComposer,
    TrainGenerator,
    Training,
)
from fashioniq.config.parser import flattened
from fashioniq.features.selection import run_folder
from fashioniq.files import (
    UserError,
    check_writable,
    explaining,
    reading,
    refuse_special,
    remove_leftovers,
    write_text,
)
from fashioniq.folders import refuse_others
from fashioniq.locks import exclusive
from fashioniq.runs import Run, read_run
from fashioniq.runs.checks import check_made_of, described
from fashioniq.training.processes import launched_rank
from fashioniq.yaml_files import read_yaml

S = TypeVar("S", bound=Training)
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=Run)
_training = threading.Lock()  # of the process, whose generators of random numbers all threads share


class Trained(NamedTuple, Generic[T]):
    """A finished training: the folder of its run, and its model.json."""

    folder: Path
    about: T

    @classmethod
    def of(cls, settings: Training, kind: type[T]) -> "Trained[T]":
        """The run that these settings have made."""
        folder = folder_of(settings)
        return cls(folder, read_run(folder, kind))


def command_of(settings: Training) -> str:
    """Command with these settings: train-dialog-encoder for TrainDialogEncoder."""
    return re.sub(r"\B(?=[A-Z])", "-", type(settings).__name__).lower()


def folder_of(settings: Training) -> Path:
    """Folder of the run: --run, or by default a folder of runs/ that is named after the model and its category."""
    if isinstance(settings, TrainChatsearcher):
        return settings.run or Path(f"runs/chatsearcher-{settings.stage}")
    composition = settings.model.composition if isinstance(settings, TrainComposer) else ""
    name = f"composer-{composition}" if composition else command_of(settings).removeprefix("train-")
    category = getattr(settings, "category", None)
    if not category:
        return settings.run or Path("runs") / name
    return run_folder(settings.run, name, category, getattr(settings, "attrs", False))


def alone(train: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Decorator of a training: it locks the folder of its run until it ends, also if it is killed. It seeds random
    numbers of its own: those of its caller go on as if it had not run, and a process has one training at a time.

    Of processes that train together, the first has the lock, as it alone writes. Raises UserError that names the
    other process if the folder is locked, if it cannot be written, or if the variables of the launcher do not match.
    """

    @wraps(train)
    def trained(settings: S, *arguments: P.args, **options: P.kwargs) -> R:
        first = launched_rank(settings.devices, settings.num_nodes) == 0
        with exclusive(folder_of(settings)) if first else nullcontext(), _own_random_numbers():
            if first:
                check_writable(folder_of(settings))
            return train(settings, *arguments, **options)

    return trained


@contextmanager
def _own_random_numbers() -> Iterator[None]:
    """Restore random numbers afterwards: a search for a learning rate would draw the same one after each training."""
    if not _training.acquire(blocking=False):
        raise UserError(
            "another thread of this process is training, and both would draw from the same random numbers; train one "
            "after the other, or each in a process of its own"
        )
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):  # of the CPU alone: those of GPUs would initialize CUDA here
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        _training.release()


# options that may differ when a run is resumed; of data and features, what they contain is compared (`made_of`)
MAY_CHANGE = {"resume", "epochs", "patience", "devices", "num_nodes", "device", "run", "data", "features"}
STEPS = {"epochs", "devices", "num_nodes"}  # options that change the number of steps
_MADE = "# fashioniq "  # the beginning of every config.yaml
BATCH = {"batch_size", "devices", "num_nodes"}  # options whose product is the number of examples per step


def begin_run(run: Path, settings: Training, facts: Mapping[str, Any] | None = None) -> bool:
    """Create the folder of a run with its complete config.yaml, and return whether this process may write there.

    Of processes that train together, that is the first. With --resume, `fit` updates config.yaml after the
    checkpoint has been loaded. Trainings that write other files before the first epoch give the `facts` of `fit`.
    Raises UserError if the folder already has a run and --resume is not given, if --resume is given with other
    settings, other data or damaged files, or if the variables of the launcher do not match.
    """
    is_first = launched_rank(settings.devices, settings.num_nodes) == 0
    if not is_first and not run.exists():
        return False  # it is on another machine
    values = _plain(settings)
    path = run / "config.yaml"
    if is_first:
        remove_leftovers(run)
    if settings.resume:
        if not (run / "last.ckpt").exists():
            raise UserError(
                f"nothing to resume: {run} has no last.ckpt, so no epoch was completed; "
                f"start again without --resume"
            )
        now, before = flattened(values), flattened(_read_config(path))
        scheduled = (
            isinstance(settings, TrainAttributes | TrainGenerator | TrainChatsearcher)
            or getattr(settings, "schedule", "") == "cosine"
        )
        may_change = MAY_CHANGE - STEPS if scheduled else MAY_CHANGE  # the schedule depends on the last step
        if _whole_batch(now) == _whole_batch(before):
            may_change = may_change | BATCH
        if changed := [key for key in now if key not in may_change and before.get(key) != now[key]]:
            key = changed[0]
            raise UserError(
                f"{run} was started with {key} {before.get(key)}, not {now[key]}; resume it with "
                f"--config {path}, or start another run with --run"
            )
        checkpoint = _checkpoint(run / "last.ckpt")
        if facts:
            check_made_of(run, described(facts), checkpoint.get("callbacks", {}).get("KeepBest", {}))
        if (run / "metrics.csv").exists() and not _rows_before(run / "metrics.csv", math.inf):
            raise UserError(
                f"cannot resume: {run / 'metrics.csv'} has no epoch; start another run with --run"
            )
        return is_first
    # without a checkpoint, a training that was killed after its first weights begins again
    if (run / "last.ckpt").exists() or (
        (run / "model.json").exists() and len(_rows_before(run / "metrics.csv", math.inf)) != 1
    ):
        raise UserError(
            f"{run} already has a run; continue it with --resume, choose another --run, or remove the folder"
        )
    if is_first:
        refuse_foreign(run)
        write_config(run, settings)
    return is_first


def refuse_foreign(run: Path) -> None:
    """Raise UserError if a folder has files, but not those of a run that was begun."""
    config = run / "config.yaml"
    first = ""
    if config.is_file():
        with (
            reading(config, "configuration", "give another --run"),
            open(config, encoding="utf-8", errors="replace") as file,
        ):
            first = file.readline(len(_MADE))
    if first != _MADE:
        refuse_others(run, "a run", "--run", lambda path: False)


def _whole_batch(options: dict[str, Any]) -> float:
    """Examples per step of all processes; NaN if an option is not a number."""
    numbers = [options.get(key) for key in BATCH]
    return math.prod(one if isinstance(one, int) else math.nan for one in numbers)


def write_config(run: Path, settings: Training) -> None:
    """Write config.yaml of a run, with all options of its command."""
    values, path = _plain(settings) | {"run": str(run)}, run / "config.yaml"
    values |= {"resume": False} if "resume" in values else {}
    write_text(
        path,
        f"{_MADE}{command_of(settings)} --config {path}\n" + yaml.safe_dump(values, sort_keys=False),
    )


def _plain(settings: Training) -> dict[str, Any]:
    values = dataclasses.asdict(settings)
    return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


def _read_config(path: Path) -> dict[str, Any]:
    """Read config.yaml of a run."""
    with explaining(
        f"cannot resume: {path} is missing or damaged",
        "; start another run with --run",
        (OSError, ValueError),
    ):
        values = read_yaml(path)
    if not isinstance(values, dict):
        raise UserError(
            f"cannot resume: {path} is damaged (it has no settings); start another run with --run"
        )
    return values


def _checkpoint(path: Path) -> dict[str, Any]:
    refuse_special(path)
    # pickle, zipfile and torch raise different exceptions
    with explaining(f"cannot resume: {path} is damaged", "; start another run with --run"):
        with zipfile.ZipFile(path) as archive:  # torch does not compare the checksums in it
            if damaged := archive.testzip():
                raise ValueError(f"the checksum of {damaged} differs")
        return dict(torch.load(path, map_location="cpu", weights_only=True))


def _rows_before(path: Path, epoch: float) -> list[dict[str, str]]:
    """Rows of a metrics.csv of earlier epochs. Raises UserError if it is damaged."""
    refuse_special(path)
    if not path.exists() or epoch == 0:
        return []
    with explaining(
        f"cannot resume: {path} is damaged",
        "; correct it, or start another run with --run",
        (OSError, KeyError, TypeError, ValueError, csv.Error),
    ):
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, strict=True))
        for value in (value for row in rows for value in row.values() if value):
            float(value)
        return [row for row in rows if float(row["epoch"]) < epoch]


def append_row(path: Path, figures: dict[str, float]) -> None:
    rows = _rows_before(path, figures["epoch"])  # without those of epochs that are repeated
    text = io.StringIO()
    writer = csv.DictWriter(text, list(figures), lineterminator="\n")
    writer.writeheader()
    writer.writerows([*rows, figures])
    write_text(path, text.getvalue())
