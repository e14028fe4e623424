"""Generators by the names that options have for them."""

from pathlib import Path
from typing import Any, cast

import torch

from fashioniq import plugins
from fashioniq.data.parts import named_part
from fashioniq.files import UserError, refuse_special
from fashioniq.generators.pictures import Generator
from fashioniq.runs import kind_of


def generator_by_name(
    name: str,
    device: torch.device | str = "cpu",
    data: Path | None = None,
    category: str | None = None,
    options: Any = None,
) -> Generator:
    """Create a generator, without a cache: a part, the run of a trained generator, or a pipeline of diffusers by its
    folder or its name on the hub. Raises UserError if it cannot be loaded.
    """
    if plugins.is_part("generators", name):
        about = {"data": data, "category": category, "device": str(device), "options": options}
        return cast(Generator, named_part("generators", name, **about))
    refuse_special(Path(name))
    if (Path(name) / "model.json").is_file():
        if (found := kind_of(Path(name))) != "generator":
            raise UserError(f"expected a run of a generator, found that of a {found} in {name}; give another")
        from fashioniq.generators.trained import RunGenerator

        return RunGenerator(Path(name), str(device))
    from fashioniq.generators.diffusers_pipeline import DiffusersPipeline

    return DiffusersPipeline(name, device)
