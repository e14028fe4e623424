"""Choice of the device."""

import torch

from fashioniq.files import UserError


def pick_device(name: str) -> torch.device:
    """Return the torch device for --device. Raises UserError if it is not available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {name} is not available; use --device cpu or auto") from error
    return torch.device(name)
