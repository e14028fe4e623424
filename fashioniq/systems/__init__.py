"""Systems that talk with a person or a simulated user, from the files of their runs: one kind of system a file."""

from pathlib import Path

from fashioniq.files import UserError, read_json
from fashioniq.loop.rollout import System
from fashioniq.systems import chatir, fashion_iq

FACTORIES = {"retriever": fashion_iq.load, "dialog encoder": chatir.load}  # by the kind of a run


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
