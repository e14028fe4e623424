"""Encoders of pictures and texts, one family per file; `load` finds the family of a name."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from fashioniq import plugins
from fashioniq.data.parts import named_part
from fashioniq.files import UserError, read_json, why
from fashioniq.hub import use_cache_if_offline

if TYPE_CHECKING:
    import torch

    from fashioniq.data.catalog import Catalog
    from fashioniq.encoders.protocol import Encoder

ENDPOINT, METADATA = "endpoint:", "metadata"
TIMM_SIZE = 224  # pixels per side
_FILES = ("config.json", "modules.json", "open_clip_config.json")
ADVICE = (
    "give a CLIP, BLIP, SigLIP, BLIP-2, open_clip or sentence encoder by folder, Python package or Hugging Face name, "
    "a folder with BEiT-3, a timm name, http://…/v1#MODEL, or metadata"
)


def load(
    name: str,
    *,
    weights: str | None = None,
    image_size: int | None = None,
    device: "torch.device | str" = "cpu",
    bfloat16: bool = False,
    catalog: "Catalog | None" = None,
) -> "Encoder":
    """Load an encoder by its name: a folder, a Python package with weights, or a name of the hub, by what is in them; a
    name of timm; the address of an embeddings endpoint; or `metadata`, which is fitted on a catalog.

    `weights` are those of a timm network (by default imagenet), or a file in place of those of BLIP or a model like it.
    `image_size` and `bfloat16` are for timm networks. Raises UserError if the encoder cannot be loaded.
    """
    family = _family(name)
    if family != "timm" and (image_size or weights == "none"):
        option = f"--image-size {image_size}" if image_size else "--weights none"
        raise UserError(f"{option} is for timm networks; leave it out with --encoder {name}")
    try:
        if family == "timm":
            from fashioniq.encoders.timm import TimmEncoder

            return TimmEncoder(name, weights or "imagenet", image_size or TIMM_SIZE, device, bfloat16)
        if family == "part":
            named = f"{ENDPOINT}{name}" if "://" in name else name
            return cast("Encoder", named_part("encoders", named, catalog=catalog, device=str(device)))
        return _load(name, None if weights in (None, "imagenet") else Path(weights), device)
    except UserError:
        raise
    except ImportError as error:
        package = "open_clip_torch" if family == "open_clip" else "fashioniq[chat]"
        raise UserError(
            f"the encoder {name} needs another package ({error}); pip install {package!r}"
        ) from error
    except Exception as error:  # transformers, open_clip, the hub client and safetensors raise different ones
        raise UserError(f"cannot load the encoder {name} ({why(error, 200)}); {ADVICE}") from error


def _load(name: str, weights: Path | None, device: "torch.device | str") -> "Encoder":
    place = _place(name)
    config = _read(place, "config.json")
    kind = str(config.get("model_type", "")) if isinstance(config, dict) else ""
    if _read(place, "open_clip_config.json") is not None:
        from fashioniq.encoders import open_clip

        return open_clip.load(place, Path(name).name, device)
    from fashioniq.encoders import sentence, transformers

    if kind in transformers.FAMILIES:
        return transformers.load(place, kind, weights, device)
    if weights:
        raise UserError(f"--weights {weights} cannot replace those of {name}; give a folder with the weights")
    if any(Path(place).glob("beit3*")):
        from fashioniq.encoders import beit3

        return beit3.load(Path(place), device)
    if _read(place, "modules.json") is not None or kind in sentence.TYPES:
        return sentence.load(place, kind, lambda file: _read(place, file), device)
    if not kind:
        raise ValueError(
            "found no config.json of a model of transformers, open_clip or sentence-transformers"
        )
    known = ", ".join([*transformers.FAMILIES, *sentence.TYPES])
    raise ValueError(f"expected a model of type {known}, found the type {kind}")


def _family(name: str) -> str:
    if name.startswith(("http://", "https://")) or plugins.is_part("encoders", name):
        return "part"
    if Path(name).is_dir() or "/" in name or (name.isidentifier() and find_spec(name)):
        return "folder"
    return "timm"  # which says so if it does not have the network


def _place(name: str) -> str:
    """Folder of a model, or its name on the hub; for a Python package, the folder in it with a config.json."""
    if not Path(name).is_dir() and name.isidentifier() and (spec := find_spec(name)) and spec.origin:
        folder = Path(spec.origin).parent
        found = sorted(
            (path.parent for file in _FILES for path in folder.rglob(file)), key=lambda path: len(path.parts)
        )
        if not found:
            raise UserError(
                f"the Python package {name} has no model: no {' or '.join(_FILES)}; {ADVICE}"
                f"{plugins.module_hint(name)}"
            )
        return str(found[0])
    return name


def _read(place: str, file: str) -> Any:
    """Content of a JSON file of a model, None if it has none. Raises an exception of the hub client."""
    if Path(place).is_dir():
        path = Path(place) / file
        return read_json(path, "a file of the encoder") if path.is_file() else None
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    use_cache_if_offline()
    try:
        return read_json(Path(hf_hub_download(place, file)), "a file of the encoder")
    except LocalEntryNotFoundError:
        if file == _FILES[0]:  # without a network and a copy
            raise
    except EntryNotFoundError:
        pass
    return None
