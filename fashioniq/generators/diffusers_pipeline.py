"""Text-to-image pipelines of the library diffusers, such as Stable Diffusion and FLUX. Needs the extra `generate`.

A picture is a function of pipeline, settings, prompt and seed: each one is generated alone, with a random
generator of its own on the CPU. Other devices and versions of the libraries change it slightly.
"""

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image

from fashioniq.data.parts import PartInputs
from fashioniq.files import UserError, checksum, explaining, refuse_special, why
from fashioniq.generators.pictures import Generated, PictureRequest, checked_picture
from fashioniq.hub import use_cache_if_offline

_READ = ("model_index.json", "*/*.json", "*/*.safetensors", "*/*.txt", "*/*.model")  # files of a pipeline


@dataclass(frozen=True)
class Settings:
    """Settings of a pipeline's pictures; None is the usual value of the pipeline.

    `size` is the side of the picture in pixels, `tokens` the limit of T5 on the length of a prompt (that of
    CLIP is fixed), `dtype` the number format on the device.
    """

    steps: int | None = None
    guidance: float | None = None
    size: int | None = None
    tokens: int | None = None
    dtype: Literal["float32", "float16", "bfloat16"] | None = None


class DiffusersPipeline:
    """Pipeline from a folder in the format of diffusers, or by its name on the hub.

    Only safetensors are read and no code of the folder is run. In `sent`, a prompt ends where the tokenizer
    with the highest limit cuts it: a pipeline of CLIP and T5 reads more with T5 than with CLIP.

    Raises UserError if the pipeline cannot be loaded, or cannot use the settings.
    """

    def __init__(
        self, name: str, device: torch.device | str = "cpu", settings: Settings | None = None
    ) -> None:
        self._pipeline, revision = _load(name, torch.device(device), (settings or Settings()).dtype)
        self._parameters = inspect.signature(type(self._pipeline).__call__).parameters
        if "prompt" not in self._parameters:
            raise UserError(f"{name} does not generate pictures from texts; give another pipeline")
        self.settings = _complete(self._pipeline, self._parameters, settings or Settings())
        parts = [getattr(self._pipeline, part, None) for part in ("tokenizer", "tokenizer_2", "tokenizer_3")]
        self._tokenizers = [part for part in parts if part is not None]
        for tokenizer in self._tokenizers:  # no warning about the first long prompt: `sent` reports all
            tokenizer.deprecation_warnings["sequence-length-is-longer-than-the-specified-maximum"] = True
        self._name, self._worked = name, False
        self.identity: Mapping[str, Any] = {
            "backend": "diffusers",
            "model": Path(name).name if Path(name).is_dir() else name,
            "revision": revision,
            "pipeline": type(self._pipeline).__name__,
            **_scheduler(self._pipeline),
            "steps": self.settings.steps,
            "guidance": self.settings.guidance,
            "size": self.settings.size,
            "tokens": self.settings.tokens,
            "negative_prompt": "",  # which cached pictures have
            "dtype": self.settings.dtype,
        }

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Generate the pictures one after the other.

        Raises UserError if the first picture of all cannot be generated, as with a size that is impossible or
        too large for the memory; later failures have the status "error".
        """
        return [self._generate(request) for request in requests]

    def _generate(self, request: PictureRequest) -> Generated:
        began = monotonic()
        prompt = request.prompt.encode(errors="replace").decode()  # half a surrogate pair has no tokens
        outcome = Generated(None, "error", request.seed, self._sent(prompt))
        try:
            output = self._pipeline(prompt, **self._options(request.seed))
            pixels, flags = output.images[0], getattr(output, "nsfw_content_detected", None)
        except Exception as error:  # pipelines raise all kinds
            if not self._worked:
                raise UserError(
                    f"{self._name} cannot generate pictures ({why(error)}); change its settings or the device"
                ) from error
            outcome = outcome._replace(reason=why(error))
        else:
            self._worked = True
            outcome = self._judged(outcome, pixels, bool(flags and flags[0]))
        return outcome._replace(seconds=monotonic() - began)

    def _options(self, seed: int) -> dict[str, Any]:
        settings = self.settings
        options = {
            "num_inference_steps": settings.steps,
            "guidance_scale": settings.guidance,
            "height": settings.size,
            "width": settings.size,
            "max_sequence_length": settings.tokens,
        }
        known = {
            key: value for key, value in options.items() if key in self._parameters and value is not None
        }
        return {**known, "generator": torch.Generator().manual_seed(seed), "output_type": "np"}

    def _judged(self, outcome: Generated, pixels: np.ndarray, flagged: bool) -> Generated:
        if flagged:
            return outcome._replace(status="blocked", reason="blocked by the safety checker of the pipeline")
        if not np.isfinite(pixels).all():
            return outcome._replace(status="black", reason="values that are not finite; try another dtype")
        picture = Image.fromarray((pixels * 255).round().astype(np.uint8))
        return checked_picture(outcome, picture, self.settings.size)

    def _sent(self, prompt: str) -> str:
        kept = [_kept(one, prompt, self.settings.tokens) for one in self._tokenizers]
        return max(kept, key=len, default=prompt)


def of_pipeline(inputs: PartInputs) -> DiffusersPipeline:
    """The generator diffusers:NAME, with its options."""
    if not inputs.argument:
        raise UserError("expected diffusers:NAME, found no pipeline; add its folder or name to --generator")
    refuse_special(Path(inputs.argument))
    given = asdict(inputs.options) if inputs.options is not None else {}
    return DiffusersPipeline(inputs.argument, inputs.device, Settings(**given))


def _load(name: str, device: torch.device, dtype: str | None) -> tuple[Any, str]:
    """A pipeline on its device, and its revision: the commit on the hub, or a checksum of the files."""
    with explaining(
        f"{name} needs the packages diffusers and transformers",
        "; pip install 'fashioniq[generate]'",
        ImportError,
    ):
        from diffusers import DiffusionPipeline
        from diffusers.utils import is_accelerate_available, logging
    logging.set_verbosity_error()  # it warns about each prompt that is cut and each picture that is blocked
    folder = Path(name)
    if from_hub := not folder.is_dir():
        use_cache_if_offline()
    try:
        if from_hub:
            folder = Path(DiffusionPipeline.download(name, use_safetensors=True))
        pipeline = DiffusionPipeline.from_pretrained(
            folder,
            use_safetensors=True,
            dtype=getattr(torch, dtype or _usual_dtype(folder, device)),
            low_cpu_mem_usage=is_accelerate_available(),
        )
        pipeline.set_progress_bar_config(disable=True)
        return pipeline.to(device), folder.name if from_hub else _fingerprint(folder)
    except Exception as error:  # the hub client, safetensors, transformers and diffusers raise different ones
        raise UserError(
            f"cannot load the pipeline {name} ({why(error, 200)}); give a folder with a model_index.json, "
            "or a name on the hub if there is a network connection"
        ) from error


def _usual_dtype(folder: Path, device: torch.device) -> str:
    if device.type == "cpu":
        return "float32"
    # diffusers computes the decoder of Stable Diffusion XL, which overflows in float16, in float32
    pipeline = json.loads((folder / "model_index.json").read_text(encoding="utf-8"))["_class_name"]
    return "float16" if pipeline in ("StableDiffusionPipeline", "StableDiffusionXLPipeline") else "bfloat16"


def _fingerprint(folder: Path) -> str:
    paths = sorted({path for pattern in _READ for path in folder.glob(pattern) if path.is_file()})
    lines = (f"{path.relative_to(folder).as_posix()} {checksum(path)}\n" for path in paths)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]


def _scheduler(pipeline: Any) -> dict[str, str]:
    config = {key: value for key, value in pipeline.scheduler.config.items() if not key.startswith("_")}
    text = json.dumps(config, sort_keys=True, default=str)
    return {
        "scheduler": type(pipeline.scheduler).__name__,
        "scheduler_config": hashlib.sha256(text.encode()).hexdigest()[:16],
    }


def _complete(pipeline: Any, parameters: Mapping[str, inspect.Parameter], given: Settings) -> Settings:
    """The settings given, and the usual ones of the pipeline for the others.

    Distilled models are recognized by their configuration: the Turbo models of Stable Diffusion by the
    spacing of their time steps, FLUX schnell by the lack of an input for the guidance.
    """
    kind, config = type(pipeline).__name__, pipeline.scheduler.config
    part: Any = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
    if kind.startswith("StableDiffusion") and config.get("timestep_spacing") == "trailing":
        usual = Settings(4, 0.0)
    elif kind == "FluxPipeline":
        usual = Settings(50, 3.5, tokens=512) if part.config.guidance_embeds else Settings(4, 0.0, tokens=256)
    else:
        usual = {
            "StableDiffusionPipeline": Settings(50, 7.5),
            "StableDiffusionXLPipeline": Settings(50, 5.0),
            "StableDiffusion3Pipeline": Settings(28, 3.5, tokens=256),
            "Lumina2Pipeline": Settings(50, 4.0, tokens=256),
        }.get(kind, Settings())
    names = {"steps": "num_inference_steps", "guidance": "guidance_scale", "tokens": "max_sequence_length"}
    defaults = {key: parameters[name].default for key, name in names.items() if name in parameters}
    side: Any = getattr(pipeline, "default_sample_size", None) or getattr(part.config, "sample_size", 128)
    scale = getattr(pipeline, "vae_scale_factor", 8)
    defaults["size"] = (side if isinstance(side, int) else side[0]) * scale
    defaults["dtype"] = str(part.dtype).removeprefix("torch.")
    chosen = [
        {key: value for key, value in asdict(one).items() if value is not None} for one in (usual, given)
    ]
    return replace(Settings(), **{**defaults, **chosen[0], **chosen[1]})


def _kept(tokenizer: Callable[..., Any], prompt: str, tokens: int | None) -> str:
    """The beginning of a prompt that a tokenizer keeps."""
    limit = tokenizer.model_max_length  # type: ignore[attr-defined]
    limit = limit if tokens is None else min(limit, tokens)
    if len(tokenizer(prompt)["input_ids"]) <= limit:
        return prompt
    cut = tokenizer(prompt, truncation=True, max_length=limit, return_offsets_mapping=True)
    return prompt[: max(end for _, end in cut["offset_mapping"])]
