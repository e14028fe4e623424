"""Image → feature: timm's networks up to the last average pooling (EfficientNet-b7: 2560 numbers)."""

from collections.abc import Mapping
from typing import Any

import timm
from torch import Tensor, nn


def create_encoder(name: str, pretrained: bool = False) -> nn.Module:
    """A timm network without its classifier. `efficientnet-b7`, as the paper says it, is timm's `tf_efficientnet_b7`.

    Raises ValueError for a name that timm does not know; whatever the download raises where `pretrained` cannot be had.
    """
    if name.startswith("efficientnet-"):
        name = "tf_efficientnet_" + name.removeprefix("efficientnet-")
    if not timm.is_model(name):
        raise ValueError(f"timm has no model {name!r}")
    return timm.create_model(name, pretrained=pretrained, num_classes=0)


def encoder_size(encoder: nn.Module) -> int:
    """The length of the feature vector."""
    return int(encoder.num_features)  # type: ignore[arg-type]


def encoder_mean_std(encoder: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and deviation of pixel values that the network's pretrained weights expect."""
    config: Any = encoder.pretrained_cfg
    return tuple(config["mean"]), tuple(config["std"])


def convert_efficientnet_pytorch(weights: Mapping[str, Tensor], encoder: nn.Module) -> dict[str, Tensor]:
    """The tensors of an efficientnet_pytorch checkpoint under the names of timm's `tf_efficientnet_*`.

    Both list the same tensors in the same order, so position and shape decide; the classifier is left out.
    Raises ValueError where a shape does not fit: the checkpoint is of another size.
    """
    source = [(name, tensor) for name, tensor in weights.items() if not name.startswith("_fc.")]
    expected = encoder.state_dict()
    if len(source) != len(expected):
        raise ValueError(f"the checkpoint holds {len(source)} tensors, this network {len(expected)}")
    converted = {}
    for (name, tensor), (own_name, own) in zip(source, expected.items(), strict=True):
        if tensor.shape != own.shape:
            raise ValueError(f"{name} is {tuple(tensor.shape)}, this network's {own_name} is {tuple(own.shape)}")
        converted[own_name] = tensor
    return converted
