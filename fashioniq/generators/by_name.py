"""Trained generators of pictures: runs, and pipelines of diffusers."""

from pathlib import Path

import torch

from fashioniq.files import UserError, refuse_special
from fashioniq.generators.pictures import Generator
from fashioniq.runs import kind_of


def trained_generator(name: str, device: torch.device | str = "cpu") -> Generator:
    """The generator of a run, or a pipeline of diffusers by its folder or its name on the hub, without a cache.

    Raises UserError if it cannot be loaded.
    """
    refuse_special(Path(name))
    if (Path(name) / "model.json").is_file():
        if (found := kind_of(Path(name))) != "generator":
            raise UserError(f"expected a run of a generator, found that of a {found} in {name}; give another")
        from fashioniq.generators.trained import RunGenerator

        return RunGenerator(Path(name), str(device))
    from fashioniq.generators.diffusers_pipeline import DiffusersPipeline

    return DiffusersPipeline(name, device)
