"""Small pictures of products, and generated ones, for the page."""

from functools import lru_cache
from pathlib import Path

from PIL import Image

from fashioniq.data.images import load_image, written_as

WIDTHS = (160, 320, 640)  # pixels
KEPT = 4096  # pictures in memory


def webp(path: Path, width: int) -> bytes:
    """A picture as WebP of at most this width and four thirds of it in height, encoded again.

    Raises UnreadableImage, and OSError without a file.
    """
    return _webp(path, width, path.stat().st_mtime_ns)


@lru_cache(KEPT)
def _webp(path: Path, width: int, _changed: int) -> bytes:
    return encoded(load_image(path, min_side=1), width)


def encoded(image: Image.Image, width: int) -> bytes:
    """A picture in memory as WebP of at most this width and four thirds of it in height."""
    image = image.convert("RGB")
    image.thumbnail((width, width * 4 // 3), Image.Resampling.LANCZOS)
    return written_as(image, "WEBP", quality=80)
