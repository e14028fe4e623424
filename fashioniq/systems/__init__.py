"""Systems that talk with a person or a simulated user: one kind of system a file.

A module of a system has `build(options) -> list[Task]`, the dialogs of its evaluation, and unless its options are among those of
`fashioniq.config.SYSTEMS`, a dataclass `Options` with them. Trained ones also have `load`, which makes the System of a run.
"""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fashioniq.config import SYSTEMS
from fashioniq.files import UserError, read_json
from fashioniq.loop.rollout import System
from fashioniq.systems import chatir, fashion_iq
from fashioniq.systems.task import Task

FACTORIES = {"retriever": fashion_iq.load, "dialog encoder": chatir.load}  # by the kind of a run


def builder(name: str) -> Callable[[Any], list[Task]]:
    """The `build` of a system: a module of this package such as fashion-iq, or one of your own such as shop.retrieval.

    Raises UserError where there is no such module, or it has no `build`.
    """
    module = f"fashioniq.systems.{name.replace('-', '_')}" if name in SYSTEMS else name
    try:
        return importlib.import_module(module).build
    except (ImportError, AttributeError) as error:
        raise UserError(f"--system {name} has no function build: {error}") from error


def load(
    run: Path | str,
    features: Path | str | None = None,
    split: str = "test",
    device: str = "auto",
    *,
    data: Path | str | None = None,
    category: str | None = None,
) -> System:
    """The system of a trained run: of train-retriever, train-composer or train-dialog-encoder.

        import fashioniq
        from fashioniq import Message

        system = fashioniq.load("demo/runs/retriever")
        talk = system.begin(1)
        talk = system.hear(talk, system.offer(talk), Message(texts=["is navy with longer sleeves"]))
        print(system.top(talk, 5))

    It searches the products of `split` with features. The data folder, the category and the feature store are
    those of the training unless given. Raises UserError where a file is missing or does not fit the run.
    """
    run = Path(run)
    if not run.is_dir():
        raise UserError(f"there is no run {run}: give the folder of a trained run")
    kind = read_json(run / "model.json", "the model of the run", dict).get("kind")
    if kind not in FACTORIES:
        raise UserError(f"expected a run of a {' or a '.join(FACTORIES)}, found a {kind} in {run}")
    return FACTORIES[kind](
        run,
        features=None if features is None else Path(features),
        split=split,
        device=device,
        data=None if data is None else Path(data),
        category=category,
    )
