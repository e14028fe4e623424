"""Image encoders: timm networks up to the last average pooling (EfficientNet-b7: 2560 features)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import timm
import torch
import torch.nn.functional as F
from timm.layers import BatchNormAct2d
from timm.models._efficientnet_blocks import SqueezeExcite
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torchvision.transforms import v2

T = TypeVar("T")

# names of timm's modules in efficientnet_pytorch: outside the blocks, in blocks without and with an expansion
_RELEASED = {"conv_stem": "_conv_stem", "bn1": "_bn0", "conv_head": "_conv_head", "bn2": "_bn1"}
_SQUEEZE = {"se.conv_reduce": "_se_reduce", "se.conv_expand": "_se_expand"}
_SEPARABLE = _SQUEEZE | {
    "conv_dw": "_depthwise_conv",
    "bn1": "_bn1",
    "conv_pw": "_project_conv",
    "bn2": "_bn2",
}
_EXPANDING = _SQUEEZE | {
    "conv_pw": "_expand_conv",
    "bn1": "_bn0",
    "conv_dw": "_depthwise_conv",
    "bn2": "_bn1",
    "conv_pwl": "_project_conv",
    "bn3": "_bn2",
}


def create_encoder(name: str, pretrained: bool = False) -> nn.Module:
    """Create a timm network without its classifier. `efficientnet-b7` stands for timm's `tf_efficientnet_b7`.

    Raises ValueError for a name that timm does not have. With `pretrained`, errors of the download propagate.
    """
    of_timm = (
        "tf_efficientnet_" + name.removeprefix("efficientnet-") if name.startswith("efficientnet-") else name
    )
    if not timm.is_model(of_timm):
        raise ValueError(f"timm has no network {name!r}")
    return timm.create_model(of_timm, pretrained=pretrained, num_classes=0)


def encoder_size(encoder: nn.Module) -> int:
    """Return the size of the feature vector."""
    return int(encoder.num_features)  # type: ignore[arg-type]


def encoder_mean_std(encoder: nn.Module) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the pixel mean and standard deviation that the pretrained weights expect."""
    config: Any = encoder.pretrained_cfg
    return tuple(config["mean"]), tuple(config["std"])


class _Gated(nn.Module):
    """timm's squeeze-and-excitation block for inference.

    It pools without a float32 copy of a bfloat16 input, and scales the input in place.
    """

    def __init__(self, block: SqueezeExcite) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(block.conv_reduce, block.act1, block.conv_expand, block.gate)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        return x_BCHW.mul_(self.squeeze(F.adaptive_avg_pool2d(x_BCHW, 1)))


class InFloat32(nn.Module):
    """Wrapper that runs a module in float32, also under autocast."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            made: Tensor = self.module(x.float())
            return made


def has_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for bfloat16."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)())


@torch.no_grad()
def prepare_inference(encoder: nn.Module) -> nn.Module:
    """Optimize a timm EfficientNet for inference, in place. It computes the same function, but cannot be
    trained.

    Each batch norm is fused into the preceding convolution. The first convolution and the first two stages
    stay in float32 under autocast, since they cause most of the bfloat16 error. Other networks are
    returned unchanged, because fusing assumes that modules run in the order in which they are listed.
    """
    if not isinstance(encoder, timm.models.EfficientNet):
        return encoder
    for module in list(encoder.modules()):
        children = list(module.named_children())
        for (_, conv), (name, norm) in pairwise(children):
            if isinstance(conv, nn.Conv2d) and isinstance(norm, BatchNormAct2d):
                mean, var, weight, bias = norm.running_mean, norm.running_var, norm.weight, norm.bias
                assert mean is not None and var is not None, "the network keeps running statistics"
                conv.weight, conv.bias = fuse_conv_bn_weights(
                    conv.weight, conv.bias, mean, var, norm.eps, bn_w=weight, bn_b=bias
                )
                setattr(module, name, norm.act)
        for name, block in children:
            if isinstance(block, SqueezeExcite):
                setattr(module, name, _Gated(block))
    encoder.conv_stem = InFloat32(encoder.conv_stem)
    encoder.blocks[0], encoder.blocks[1] = InFloat32(encoder.blocks[0]), InFloat32(encoder.blocks[1])
    return encoder.eval()


def captured(forward: Callable[[Tensor], T], example: Tensor) -> Callable[[Tensor], T]:
    """Capture `forward` as a CUDA graph for inputs of the shape of `example`, which saves kernel launch time.

    The next call overwrites the returned tensors. Inputs of another shape, and all inputs if the capture
    fails, run `forward` itself.
    """
    stream, graph, images = torch.cuda.Stream(example.device), torch.cuda.CUDAGraph(), example.clone()
    stream.wait_stream(torch.cuda.current_stream(example.device))
    try:
        with torch.cuda.stream(stream):
            for _ in range(3):  # warm-up: libraries initialize and select kernels
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
    """Transform from uint8 pixels to the normalized floats that a network expects."""
    return v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))])


def convert_efficientnet_pytorch(weights: Mapping[str, Tensor], encoder: nn.Module) -> dict[str, Tensor]:
    """Convert an efficientnet_pytorch checkpoint to the names of timm's `tf_efficientnet_*`, without the
    classifier; also one of efficientnet_lite_pytorch.

    Raises ValueError if a tensor is missing or has another shape, for example because the checkpoint is of
    another network size.
    """
    own_tensors = encoder.state_dict()
    converted, prefix_of = {}, dict[str, str]()  # blocks are numbered through all stages
    for name, own in own_tensors.items():
        prefix, names, rest = "", _RELEASED, name
        if name.startswith("blocks."):
            _, stage, block, rest = name.split(".", 3)
            prefix = prefix_of.setdefault(f"{stage}.{block}", f"_blocks.{len(prefix_of)}.")
            expands = f"blocks.{stage}.{block}.conv_pwl.weight" in own_tensors
            names = _EXPANDING if expands else _SEPARABLE
        module, tensor = rest.rsplit(".", 1)
        released = f"{prefix}{names.get(module, module)}.{tensor}"
        if released not in weights or weights[released].shape != own.shape:
            found = "no such tensor" if released not in weights else f"{tuple(weights[released].shape)}"
            raise ValueError(f"{released}: expected shape {tuple(own.shape)}, found {found}")
        converted[name] = weights[released]
    return converted
