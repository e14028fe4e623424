"""Generators by the names that options have for them."""

from pathlib import Path

import torch

from fashioniq.files import UserError, refuse_special
from fashioniq.generators.pictures import Generator
from fashioniq.runs import kind_of

ENDPOINT, FOLDER = "endpoint:", "folder:"


def generator_by_name(name: str, device: torch.device | str = "cpu") -> Generator:
    """Create a generator, without a cache.

    `name` is endpoint:MODEL for a model at OPENAI_BASE_URL, folder:PATH for pictures generated before, the run
    of a trained generator, or a pipeline of diffusers by its folder or its name on the hub.
    Raises UserError if it cannot be loaded.
    """
    kind, _, rest = name.partition(":")
    refuse_special(Path(rest if f"{kind}:" == FOLDER else name))
    if f"{kind}:" in (ENDPOINT, FOLDER) and not rest:
        raise UserError(f"expected {ENDPOINT}MODEL or {FOLDER}PATH, found {name!r}; add what is missing")
    if name.startswith(ENDPOINT):
        from fashioniq.generators.endpoint import PictureEndpoint

        return PictureEndpoint(rest)
    if name.startswith(FOLDER):
        from fashioniq.generators.folder import Folder

        return Folder(Path(rest))
    if (Path(name) / "model.json").is_file():
        if (found := kind_of(Path(name))) != "generator":
            raise UserError(f"expected a run of a generator, found that of a {found} in {name}; give another")
        from fashioniq.generators.trained import RunGenerator

        return RunGenerator(Path(name), str(device))
    from fashioniq.generators.diffusers_pipeline import DiffusersPipeline

    return DiffusersPipeline(name, device)
