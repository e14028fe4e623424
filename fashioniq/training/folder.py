"""Folder of the run that a training writes: its default, and its lock against other trainings."""

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Concatenate, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch

from fashioniq.config import (
    TrainChatsearcher,
    TrainComposer,
    Training,
)
from fashioniq.features.selection import run_folder
from fashioniq.files import UserError, check_writable
from fashioniq.locks import exclusive
from fashioniq.runs import Run, read_run
from fashioniq.training.nodes import launched_rank

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
