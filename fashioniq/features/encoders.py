"""Image encoders with their weights."""

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn

from fashioniq.files import UserError, checksum, why
from fashioniq.hub import use_cache_if_offline
from fashioniq.models.encoder import convert_efficientnet_pytorch, create_encoder


def load_encoder(name: str, weights: str, image_size: int) -> tuple[nn.Module, str]:
    """Image encoder, and an identifier of its weights.

    `weights` is imagenet, none, or a file: a .pth of efficientnet_pytorch or a file of timm, also as
    .safetensors. Raises UserError if the network is unknown or does not support the image size, if the
    weights cannot be downloaded, or if the file does not match the network.
    """

    try:
        torch.manual_seed(0)  # random weights are the same in every run
        encoder = create_encoder(name)
        _try_size(encoder, name, image_size)
        if weights == "none":
            return encoder, "random"
        if weights == "imagenet":
            use_cache_if_offline()
            return create_encoder(name, pretrained=True), "imagenet"
    except UserError:
        raise
    except ValueError as error:
        raise UserError(
            f"{error}: give an EfficientNet such as efficientnet-b7, or one of timm.list_models()"
        ) from error
    except Exception as error:  # the hub client raises many kinds of errors
        raise UserError(
            f"the ImageNet weights of {name} could not be downloaded ({why(error)}): "
            "give a file with --weights FILE, or use --weights none"
        ) from error
    path = Path(weights)
    if not path.is_file():
        raise UserError(f"there is no file of weights {path}: --weights expects imagenet, none or a file")
    try:
        tensors = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
        if "_conv_stem.weight" in tensors:
            tensors = convert_efficientnet_pytorch(tensors, encoder)
        own = encoder.state_dict()
        encoder.load_state_dict(
            {
                key: tensor
                for key, tensor in tensors.items()
                if key in own or not key.startswith("classifier.")
            }
        )
    except Exception as error:  # pickle, safetensors and torch raise different errors
        raise UserError(f"{path} does not contain weights of {name}: {why(error)}") from error
    return encoder, checksum(path)


@torch.inference_mode()
def _try_size(encoder: nn.Module, name: str, image_size: int) -> None:
    """Raise UserError if the network does not support the image size, as for many vision transformers."""
    try:
        encoder.eval()(torch.zeros(1, 3, image_size, image_size))
    except (AssertionError, RuntimeError) as error:
        raise UserError(
            f"{name} does not support pictures of {image_size} pixels ({why(error)}): give another --image-size"
        ) from error
    finally:
        encoder.train()
