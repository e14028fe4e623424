"""Pictures of unknown origin: decoded within limits, turned upright, RGB, square."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.transforms import v2

FORMATS = ("JPEG", "PNG", "WEBP")
MAX_PIXELS = 50_000_000  # a 50-megapixel photo takes 150 MB as RGB
MIN_SIDE = 8


class UnreadableImage(Exception):
    """A picture that cannot be used; the message is the reason, in a few words."""


def load_image(path: Path) -> Image.Image:
    """Decode a picture: upright by its EXIF mark, RGB, transparency on white.

    Raises UnreadableImage for a file that is missing, of another format, damaged, or beyond the limits on its size.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's warnings about odd metadata and sizes; our limits decide
            with Image.open(path, formats=FORMATS) as image:
                width, height = image.size  # known from the header, before any pixel is decoded
                if width * height > MAX_PIXELS:
                    raise UnreadableImage(f"{width}×{height} pixels, more than {MAX_PIXELS:,}")
                if min(width, height) < MIN_SIDE:
                    raise UnreadableImage(f"{width}×{height} pixels, a side under {MIN_SIDE}")
                image.load()
                return _as_rgb(ImageOps.exif_transpose(image))
    except FileNotFoundError:
        raise UnreadableImage("no such file") from None
    except UnreadableImage:
        raise
    except Exception as error:  # decoders fail in many ways on damaged files, and none may stop a run
        raise UnreadableImage(f"{type(error).__name__}: {error}"[:120].replace(str(path), "the file")) from error


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 bits and more a pixel; PNG's greys go up to 65535
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


class ToSquare:
    """Pad to a square with white, as the ground of product photos is, and resize to size×size: uint8, 3×size×size."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: Image.Image) -> Tensor:
        image = ImageOps.pad(image, (self.size, self.size), Image.Resampling.BICUBIC, color="white")
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def normalise(mean: Sequence[float], std: Sequence[float]) -> v2.Transform:
    """From uint8 to the floats that a network expects."""
    return v2.Compose([v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(mean), list(std))])


def augment(images_BCHW: Tensor) -> Tensor:
    """For training: each float picture mirrored, shifted and scaled a little at random; never recoloured, colour is an attribute."""
    batch = len(images_BCHW)
    scale_B2 = 0.9 + 0.2 * torch.rand(batch, 2, device=images_BCHW.device)
    scale_B2[:, 0] *= torch.randint(0, 2, (batch,), device=images_BCHW.device) * 2 - 1
    theta_B23 = torch.cat([torch.diag_embed(scale_B2), 0.1 * torch.rand(batch, 2, 1, device=images_BCHW.device) - 0.05], 2)
    grid_BHW2 = F.affine_grid(theta_B23, list(images_BCHW.shape), align_corners=False)
    return F.grid_sample(images_BCHW, grid_BHW2, padding_mode="border", align_corners=False)
