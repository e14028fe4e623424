"""Weights of a run: a safetensors file beside its model.json; nothing is unpickled."""

from pathlib import Path

import msgspec
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import nn

from fashioniq.files import UserError, atomic_write, checksum, refuse_special, remove_leftovers, why
from fashioniq.runs import DENOISER, WEIGHTS, GeneratorRun, Run, weights_file, write_run


def save_model(run: Path, model: nn.Module, about: Run) -> None:
    """Write the weights and `model.json`."""
    path = run / (DENOISER if isinstance(about, GeneratorRun) else WEIGHTS)
    remove_leftovers(path.parent)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with atomic_write(path) as temporary:
        temporary.write_bytes(save(tensors))
    write_run(run, msgspec.structs.replace(about, checksum=checksum(path)))


def load_weights(run: Path, model: nn.Module) -> None:
    """Load the weights of a run into a model.

    Raises UserError if the file is missing, damaged or does not match, or if a weight is not finite.
    """
    path = weights_file(run)
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
