"""Weights of a run: a safetensors file beside its model.json; nothing is unpickled."""

from pathlib import Path

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from fashioniq.data.wording import WordingRun
from fashioniq.files import (
    UserError,
    atomic_write,
    checksum,
    read_json,
    refuse_special,
    remove_leftovers,
    typed,
    why,
    write_json,
)
from fashioniq.models.labels import LabelModel
from fashioniq.runs import DENOISER, LABELS, WEIGHTS, WORDING, GeneratorRun, Run, weights_file, write_run


def save_model(run: Path, model: nn.Module, about: Run) -> None:
    """Write the weights and `model.json`."""
    path = run / (DENOISER if isinstance(about, GeneratorRun) else WEIGHTS)
    remove_leftovers(path.parent)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(tensors))
    write_run(run, msgspec.structs.replace(about, checksum=checksum(path)))


def save_wording(run: Path, model: LabelModel, about: WordingRun) -> None:
    """Write the model of labels, and wording.json with its checksum."""
    with atomic_write(run / LABELS) as temporary:
        temporary.write_bytes(
            save({name: tensor.contiguous() for name, tensor in model.state_dict().items()})
        )
    about = msgspec.structs.replace(about, checksum=checksum(run / LABELS))
    write_json(run / WORDING, msgspec.to_builtins(about))


def load_wording(run: Path, features: int) -> tuple[WordingRun, LabelModel] | None:
    """The wording of a run and its model of labels, for products with this many features; None without one.

    Raises UserError if a file is damaged.
    """
    path, advice = run / WORDING, "train the model again"
    if not path.exists():
        return None
    about = typed(read_json(path, "the weights of words", dict), WordingRun, path, advice)
    model = LabelModel(features, len(about.labels))
    _load(run / LABELS, model)
    if checksum(run / LABELS) != about.checksum:
        raise UserError(f"{run / LABELS} is not the file that was written with {path}; {advice}")
    return about, model.eval()


def load_weights(run: Path, model: nn.Module) -> None:
    """Load the weights of a run into a model.

    Raises UserError if the file is missing, damaged or does not match, or if a weight is not finite.
    """
    _load(weights_file(run), model)


def _load(path: Path, model: nn.Module) -> None:
    refuse_special(path)
    try:
        tensors = load_file(path)
        model.load_state_dict(tensors)
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}; train the model again") from error
    except (SafetensorError, RuntimeError, OSError) as error:
        raise UserError(
            f"{path} is damaged or belongs to another model ({why(error)}); train the model again"
        ) from error
    if odd := [name for name, tensor in tensors.items() if not bool(tensor.isfinite().all())]:
        raise UserError(f"{path}: {odd[0]} is not finite; train the model again")
