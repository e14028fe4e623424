"""Odd things in the places of files and folders, and odd pictures."""

import io
import os
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from random import Random

from damage import BYTES, PAYLOADS


def spoil_place(rng: Random, path: Path, room: Path) -> str:
    """Put something odd in the place of a file or folder in a room."""
    folder = path.is_dir()
    if folder:
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    kind = rng.choice(("missing", "empty file", "empty folder", "loop", "dangling", "pipe", "socket", "null", "zero", "full folder",
                       "binary file", "below a file"))  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "empty file":
        path.touch()
    elif kind == "empty folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            here = os.getcwd()
            os.chdir(path.parent)  # the name of a socket is short
            with suppress(OSError):
                made.bind(path.name)
            os.chdir(here)
    elif kind in ("null", "zero"):
        path.symlink_to(f"/dev/{kind}")
    elif kind == "full folder":
        (path / "x" / "y").mkdir(parents=True)
        (path / "x" / "y" / "z.json").write_text("{}")
    elif kind == "binary file":
        path.write_bytes(rng.randbytes(300))
    elif kind == "below a file" and path.parent != room:
        shutil.rmtree(path.parent, ignore_errors=True)
        with suppress(OSError):
            path.parent.write_text("file")
    return kind


def picture_bytes(rng: Random) -> tuple[str, bytes]:
    """A picture in any of many formats and modes, damaged or not."""
    from PIL import Image

    formats = (
        "JPEG",
        "PNG",
        "GIF",
        "BMP",
        "TIFF",
        "WEBP",
        "PPM",
        "ICO",
        "TGA",
        "PCX",
        "SGI",
        "DDS",
        "JPEG2000",
    )
    name = rng.choice(formats)
    size = rng.choice(((1, 1), (1, 400), (400, 1), (33, 47), (200, 200)))
    mode = rng.choice(("RGB", "RGBA", "L", "1", "P", "CMYK", "I;16", "LA", "F"))
    file = io.BytesIO()
    try:
        Image.new(mode, size).save(file, name)
    except (OSError, ValueError, KeyError, SystemError):
        file = io.BytesIO()
        name = "PNG"
        Image.new("RGB", size, (9, 99, 199)).save(file, name)
    data = file.getvalue()
    draw = rng.random()
    if draw < 0.3:
        return f"{name} {mode}", data
    if draw < 0.4:  # a bomb: a header that promises many pixels
        head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0"
        return "bomb", head + rng.randbytes(200)
    if draw < 0.45:
        svg = f'<svg xmlns="http://www.w3.org/2000/svg"><script>{rng.choice(PAYLOADS)}</script></svg>'
        return "svg", svg.encode()
    kind = rng.choice(list(BYTES))
    return f"{kind} {name}", BYTES[kind](rng, data)
