"""A run's model on disk: weights as safetensors, facts as JSON. Nothing is ever unpickled."""

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from fashioniq import __version__
from fashioniq.categories import canonical
from fashioniq.data.features import FeatureStore
from fashioniq.files import UserError, atomic_write, read_json, write_json

_SPOKEN = {"category", "attrs", "model", "sizes", "words", "features", "data"}
REQUIRED = {
    "captioner": _SPOKEN,
    "retriever": _SPOKEN | {"user"},
    "dialog encoder": {"model", "sizes", "words", "features", "joined", "data"},
    "attribute predictor": {"category", "encoder", "image_size", "attribute_words"},
}  # facts without which a model cannot be used


def save_model(run: Path, model: nn.Module, facts: dict[str, Any]) -> None:
    """Write `weights.safetensors` and `model.json`; facts hold at least the kind and the sizes that rebuild the model."""
    with atomic_write(run / "weights.safetensors") as temporary:
        temporary.write_bytes(save({name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}))
    write_json(run / "model.json", {"version": __version__, **facts})


def read_facts(run: Path, kind: str) -> dict[str, Any]:
    """The facts of a run. Raises UserError where there is none or it is of another kind ("captioner", say)."""
    run = Path(run)
    if not run.is_dir():
        raise UserError(f"there is no run {run}: train the {kind} first, or name its folder")
    facts = read_json(run / "model.json", f"the {kind} of the run", dict)
    if facts.get("kind") != kind:
        raise UserError(f"{run} holds a {facts.get('kind')}, not a {kind}")
    if missing := REQUIRED[kind] - set(facts):
        raise UserError(f"{run / 'model.json'} lacks {', '.join(sorted(missing))}: train the {kind} again")
    return facts


def load_weights(run: Path, model: nn.Module) -> None:
    """Put a run's weights into a model of the same sizes. Raises UserError where the file is missing, damaged or does not fit."""
    path = Path(run) / "weights.safetensors"
    try:
        model.load_state_dict(load_file(path))
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}: train the model again") from error
    except (SafetensorError, RuntimeError, OSError) as error:
        raise UserError(f"{path} is damaged or belongs to another model ({str(error).splitlines()[0]}): train the model again") from error


def check_fits(run: Path, facts: dict[str, Any], category: str, store: FeatureStore) -> None:
    """Raise UserError where a run is of another category, or was trained on other features than the store holds."""
    if canonical(facts["category"]) != canonical(category):
        raise UserError(f"{run} was trained on {facts['category']}, not on {category}: give a run of the category asked for")
    check_features(run, facts, store)


def check_features(run: Path, facts: dict[str, Any], store: FeatureStore) -> None:
    """Raise UserError where a run was trained on other features than the store holds."""
    if facts["features"] != store.identity:
        key = next(key for key, value in store.identity.items() if facts["features"].get(key) != value)
        there, here = (str(value)[:60] for value in (facts["features"].get(key), store.identity[key]))
        raise UserError(f"{run} was trained on features of another {key} than {store.root} holds ({there}, not {here}): use the same store")
