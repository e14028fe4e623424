"""The search without training in learning: what training starts from, and what a new model has to be better than."""

from collections.abc import Iterator
from pathlib import Path

from fashioniq.categories import file_name
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog
from fashioniq.files import UserError
from fashioniq.loop.rollout import System
from fashioniq.models.configs import RetrieverConfig
from fashioniq.runs import ZeroShotRun, kind_of, read_run
from fashioniq.runs.training_data import settings_of
from fashioniq.systems import load, zero_shot
from fashioniq.training.retriever_run import train_retriever

RATE = 0.01  # at the maximum of its schedule; a log has few conversations


def is_untrained(run: Path) -> bool:
    """Whether a run is a search without training."""
    return (run / "model.json").exists() and kind_of(run) == ZeroShotRun.KIND


def linear_start(run: Path, out: Path, seed: int, device: str) -> Path:
    """Fit a linear retriever on the vectors of an untrained search to the captions of its catalog; return its run.

    Raises UserError if there are no captions to start from.
    """
    about = read_run(run, ZeroShotRun)
    catalog = Catalog(Path(about.data.folder), about.category)
    settings = TrainRetriever(
        data=catalog.root,
        category=catalog.category,
        features=Path(str(settings_of(run).get("features"))),
        model=RetrieverConfig(kind="linear"),
        users=["differences", "recorded"] if catalog.labels else ["recorded"],
        epochs=0,
        learning_rate=RATE,
        seed=seed,
        run=out,
    )
    settings.device = device  # type: ignore[assignment]
    print(train_retriever(settings))
    return out


def untrained_searches(
    catalog: Catalog, split: str, device: str, place: Path
) -> Iterator[tuple[str, System]]:
    """Untrained searches of a catalog and their names: those that were served, or else the words of the catalog.

    The run of the latter and its features are written to `place`.
    """
    names = f"{file_name(catalog.category)}-*/model.json"
    served = [path.parent for path in sorted((catalog.root / "zero-shot").glob(names))]
    try:
        for run in served or [
            zero_shot.prepare(
                "metadata", catalog.root, catalog.category, device=device, out=place / "metadata"
            )
        ]:
            yield Path(read_run(run, ZeroShotRun).encoder).name, load(run, split=split, device=device)
    except UserError as error:
        print(f"no comparison with an untrained search: {error}")
