"""Weights in files, in the layout of the network or in another one."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from fashioniq.files import UserError, explaining

_COUNTER = "num_batches_tracked"  # which some files leave out


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a .safetensors file or a torch checkpoint, which may keep them under "model".

    Raises UserError for other files.
    """
    # pickle, safetensors and torch raise different exceptions
    with explaining(f"cannot read tensors from {path}", "; save them as .safetensors"):
        content = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    content = content.get("model", content) if isinstance(content, dict) else content
    tensors = (
        {name: tensor for name, tensor in content.items() if isinstance(tensor, Tensor)}
        if isinstance(content, dict)
        else {}
    )
    if not tensors:
        raise UserError(f"{path}: expected a state_dict, found no named tensors")
    return tensors


def fitted(found: Mapping[str, Tensor], own: Mapping[str, Tensor], head: str) -> dict[str, Tensor]:
    """Tensors of a file by the names of the network: matched by name, else by order and shape.

    What the file has of the classifier `head` is left out, as are a last matrix and vector, which may be a classifier
    of another name. Tensors that are matched by order must be of the same kind, such as bias. Raises ValueError that
    names the first tensor that does not fit.
    """
    named = {name: tensor for name, tensor in found.items() if name in own or name.split(".")[0] != head}
    theirs, ours = ([name for name in names if _COUNTER not in name] for names in (named, own))
    if set(ours) <= named.keys():
        pairs = [(name, name) for name in own if name in named]
        extra = [name for name in theirs if name not in own]
    else:
        pairs, extra = list(zip(theirs, ours, strict=False)), theirs[len(ours) :]
        extra = [] if [found[name].ndim for name in extra] == [2, 1] else extra
        if theirs == sorted(theirs):  # as in .safetensors: layers of the same shape would be exchanged
            raise ValueError(
                f"no tensor {ours[0]}, and the others are in alphabetical order; save them with torch.save"
            )
    for name, place in pairs:
        if found[name].shape != own[place].shape or name.split(".")[-1] != place.split(".")[-1]:
            shapes = f"expected shape {tuple(own[place].shape)}, found {tuple(found[name].shape)}"
            raise ValueError(f"{name}: {shapes}, for {place}")
    if len(pairs) < len(ours) or extra:
        raise ValueError(
            f"no tensor for {ours[len(pairs)]}" if len(pairs) < len(ours) else f"no place for {extra[0]}"
        )
    return {place: found[name] for name, place in pairs}
