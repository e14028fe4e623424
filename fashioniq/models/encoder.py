"""Image → feature: timm's networks up to the last average pooling (EfficientNet-b7: 2560 numbers)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import timm
import torch
import torch.nn.functional as F
from efficientnet_pytorch import EfficientNet
from timm.layers import BatchNormAct2d
from timm.models._efficientnet_blocks import SqueezeExcite
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torchvision.transforms import v2

T = TypeVar("T")


def create_encoder(name: str, pretrained: bool = False) -> nn.Module:
    """A timm network without its classifier. `efficientnet-b7`, as the paper says it, is timm's `tf_efficientnet_b7`.

    Raises ValueError for a name that timm does not know; whatever the download raises where `pretrained` cannot be had.
    """
    of_timm = "tf_efficientnet_" + name.removeprefix("efficientnet-") if name.startswith("efficientnet-") else name
    if not timm.is_model(of_timm):
        raise ValueError(f"there is no network {name!r}")
    return timm.create_model(of_timm, pretrained=pretrained, num_classes=0)


def encoder_size(encoder: nn.Module) -> int:
    """The length of the feature vector."""
    return int(encoder.num_features)  # type: ignore[arg-type]


def encoder_mean_std(encoder: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The mean and deviation of pixel values that the network's pretrained weights expect."""
    config: Any = encoder.pretrained_cfg
    return tuple(config["mean"]), tuple(config["std"])


class _Gated(nn.Module):
    """timm's squeeze-and-excitation for inference: pooled by the kernel that sums bfloat16 without a float32 copy, scaled in place."""

    def __init__(self, block: SqueezeExcite) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(block.conv_reduce, block.act1, block.conv_expand, block.gate)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return x_BCHW.mul_(self.squeeze(F.adaptive_avg_pool2d(x_BCHW, 1)))


class InFloat32(nn.Module):
    """A module that computes in float32 also under autocast."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            made: Tensor = self.module(x.float())
            return made


@torch.no_grad()
def prepare_inference(encoder: nn.Module) -> nn.Module:
    """Make an EfficientNet of timm faster for inference, in place: the same function in eval mode, which can no longer be trained.

    Each batch norm goes into the weights of the convolution before it. The first convolution and the first two stages stay in float32 under
    autocast: most of the error of bfloat16 comes from them. Other networks stay as they are: only of this one is it known that modules
    are applied in the order in which they are listed.
    """
    if not isinstance(encoder, timm.models.EfficientNet):
        return encoder
    for module in list(encoder.modules()):
        children = list(module.named_children())
        for (_, conv), (name, norm) in pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, BatchNormAct2d):
                mean, var, weight, bias = norm.running_mean, norm.running_var, norm.weight, norm.bias
                conv.weight, conv.bias = fuse_conv_bn_weights(conv.weight, conv.bias, mean, var, norm.eps, bn_w=weight, bn_b=bias)  # type: ignore[arg-type]
                setattr(module, name, norm.act)
        for name, block in children:
            if isinstance(block, SqueezeExcite):
                setattr(module, name, _Gated(block))
    encoder.conv_stem = InFloat32(encoder.conv_stem)
    encoder.blocks[0], encoder.blocks[1] = InFloat32(encoder.blocks[0]), InFloat32(encoder.blocks[1])
    return encoder.eval()


def captured(forward: Callable[[Tensor], T], example: Tensor) -> Callable[[Tensor], T]:
    """`forward` as one CUDA graph for tensors of the shape of `example`: launching the kernels one by one can take longer than they do.

    What it returns is written over by the next call. Tensors of another shape go the usual way, as do all where no graph can be captured.
    """
    stream, graph, images = torch.cuda.Stream(example.device), torch.cuda.CUDAGraph(), example.clone()
    stream.wait_stream(torch.cuda.current_stream(example.device))
    try:
        with torch.cuda.stream(stream):
            for _ in range(3):  # libraries set themselves up and choose their kernels
                forward(images)
        with torch.cuda.graph(graph, stream=stream):
            made = forward(images)
    except RuntimeError:
        return forward

    def replay(x: Tensor) -> T:
        if x.shape != images.shape:
            return forward(x)
        images.copy_(x)
        graph.replay()
        return made

    return replay


def normalise(mean: Sequence[float], std: Sequence[float]) -> v2.Transform:
    """From uint8 pixels to the floats that a network expects."""
    return v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))])


def convert_efficientnet_pytorch(weights: Mapping[str, Tensor], encoder: nn.Module) -> dict[str, Tensor]:
    """The tensors of an efficientnet_pytorch checkpoint under the names of timm's `tf_efficientnet_*`.

    Both networks list the same tensors in the same order, so position decides, whatever the order of the file; the
    classifier is left out. Raises ValueError where a name is missing or a shape does not fit: the checkpoint is of another size.
    """
    config: Any = encoder.pretrained_cfg
    size = config["architecture"].removeprefix("tf_efficientnet_")
    theirs = EfficientNet.from_name(f"efficientnet-{size}", image_size=None).state_dict()
    names = [name for name in theirs if not name.startswith("_fc.")]
    converted = {}
    for name, (own_name, own) in zip(names, encoder.state_dict().items(), strict=True):
        if name not in weights or weights[name].shape != own.shape:
            found = "missing" if name not in weights else f"of shape {tuple(weights[name].shape)}"
            raise ValueError(f"{name} is {found}, {tuple(own.shape)} was expected")
        converted[own_name] = weights[name]
    return converted
