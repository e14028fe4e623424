"""Model of a run on disk: weights as safetensors, metadata as JSON; nothing is unpickled."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from fashioniq import __version__
from fashioniq.categories import canonical
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, atomic_write, read_json, write_json

_WITH_WORDS = {"category", "attrs", "model", "sizes", "words", "features", "data"}
REQUIRED = {
    "captioner": _WITH_WORDS,
    "retriever": _WITH_WORDS | {"user"},
    "dialog encoder": {"model", "sizes", "words", "features", "joined", "data"},
    "attribute predictor": {"category", "encoder", "image_size", "attribute_words"},
}  # keys that model.json must have


def save_model(run: Path, model: nn.Module, facts: dict[str, Any]) -> None:
    """Write `weights.safetensors` and `model.json`; `facts` contain at least the kind and the sizes of the model."""
    with atomic_write(run / "weights.safetensors") as temporary:
        temporary.write_bytes(save({name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}))
    write_json(run / "model.json", {"version": __version__, **facts})


def read_facts(run: Path, kind: str) -> dict[str, Any]:
    """Metadata of a run. Raises UserError if the run is missing or of a kind other than `kind`, such as captioner."""
    run = Path(run)
    if not run.is_dir():
        raise UserError(f"expected a {kind} in {run}, found no such folder; train it first, or correct the path")
    facts = read_json(run / "model.json", f"the {kind} of the run", dict)
    if facts.get("kind") != kind:
        raise UserError(f"expected a {kind}, found a {facts.get('kind')} in {run}; give another run")
    if missing := REQUIRED[kind] - set(facts):
        raise UserError(f"{run / 'model.json'} lacks {', '.join(sorted(missing))}; train the {kind} again")
    return facts


def load_weights(run: Path, model: nn.Module) -> None:
    """Load the weights of a run into a model. Raises UserError if the file is missing, damaged or does not match."""
    path = Path(run) / "weights.safetensors"
    try:
        model.load_state_dict(load_file(path))
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}; train the model again") from error
    except (SafetensorError, RuntimeError, OSError) as error:
        raise UserError(f"{path} is damaged or belongs to another model ({str(error).splitlines()[0]}); train the model again") from error


def check_fits(run: Path, facts: dict[str, Any], category: str, store: FeatureStore) -> None:
    """Raise UserError if a run was trained on another category or on other features than those of the store."""
    if canonical(facts["category"]) != canonical(category):
        raise UserError(f"{run} was trained on {facts['category']}, not on {category}; give a run of this category")
    check_features(run, facts, store)


def check_features(run: Path, facts: dict[str, Any], store: FeatureStore) -> None:
    """Raise UserError if a run was trained on other features than those of the store."""
    if facts["features"] != store.identity:
        key = next(key for key, value in store.identity.items() if facts["features"].get(key) != value)
        there, here = (str(value)[:60] for value in (facts["features"].get(key), store.identity[key]))
        raise UserError(f"{run} was trained on other features than {store.root} provides ({key}: {there}, not {here}); use the same store")
