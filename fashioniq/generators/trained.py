"""Generator of a run of train-generator: small pictures of the words that it was trained with."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import nn

from fashioniq.data.prompts import PromptWords
from fashioniq.files import UserError, checksum, explaining
from fashioniq.generators.pictures import Generated, PictureRequest, is_black
from fashioniq.models.configs import DenoiserConfig
from fashioniq.models.denoiser import Denoiser, noise_schedule, sample
from fashioniq.runs import GeneratorRun, read_run, weights_file
from fashioniq.runs.checks import verify_run
from fashioniq.runs.weights import load_weights

BATCH = 32  # pictures that are generated together
STEPS = 20  # of denoising
GUIDANCE = 1.5  # weight of the words: 1 is none beyond training, more exaggerates


class RunGenerator:
    """Generator of the run in `folder`.

    A prompt is reduced to the words of the run (`PromptWords.read`), which are reported as `sent`; comparisons and
    all other words are ignored. The first color of a prompt is the main one. A prompt without any such word gives a
    picture of no particular product. Pictures are computed in float32; on the same machine a seed gives the same
    picture, up to a rounding of single values in batches of another size.

    Raises UserError if the run is missing or damaged.
    """

    def __init__(self, folder: Path, device: str = "cpu") -> None:
        folder = Path(folder)
        about = read_run(folder, GeneratorRun)
        self.words = PromptWords(about.words, about.types, about.language)
        self._model = create_denoiser(folder, about).eval()
        load_weights(folder, self._model)
        verify_run(folder, about)
        nn.Module.to(self._model, device)
        self._schedule, self._device = noise_schedule(), torch.device(device)
        self.identity: Mapping[str, Any] = {
            "backend": "trained",
            "checksum": checksum(weights_file(folder)),
            "scheduler": type(self._schedule).__name__,
            "steps": STEPS,
            "guidance": GUIDANCE,
            "size": about.sizes["image_size"],
        }

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Generate one picture for each request."""
        batches = (requests[start : start + BATCH] for start in range(0, len(requests), BATCH))
        return [made for batch in batches for made in self._generate(batch)]

    def _generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        began = time.monotonic()
        asked = [self.words.read(request.prompt) for request in requests]
        pictures_BCHW = sample(
            self._model,
            self._schedule,
            torch.from_numpy(self.words.encode(asked)).to(self._device),
            [request.seed for request in requests],
            steps=STEPS,
            guidance=GUIDANCE,
        )
        pictures = [Image.fromarray(one.permute(1, 2, 0).numpy()) for one in pictures_BCHW.cpu()]
        seconds = (time.monotonic() - began) / len(requests)
        return [
            Generated(
                None, "black", request.seed, ", ".join(words), seconds=seconds, reason="no visible content"
            )
            if is_black(picture)
            else Generated(picture, "ok", request.seed, ", ".join(words), seconds=seconds)
            for request, words, picture in zip(requests, asked, pictures, strict=True)
        ]


def create_denoiser(folder: Path, about: GeneratorRun) -> Denoiser:
    """Create the denoiser of a run, without its weights. Raises UserError if its sizes are damaged."""
    with explaining(
        f"{folder / 'model.json'} is damaged",
        "; train the generator again",
        (UserError, ArithmeticError, KeyError, RuntimeError, TypeError, ValueError),
    ):
        config, of_data = DenoiserConfig.of_sizes("dit", about.sizes)
        config.validate()
        return Denoiser(**config.sizes(**of_data))
