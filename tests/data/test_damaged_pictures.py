"""Thousands of damaged pictures, and the worst of whole ones: each is read or refused with a reason, in bounded time and memory."""

import io
import json
import random
import re
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image

from fashioniq.data.images import load_square

READ = "(3, 8, 8)"  # what is told of a picture that was read
MEGABYTES = 1000  # what a decoder may come to hold


def encoded(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def noise(mode, side=48):
    rng = np.random.default_rng(len(mode))
    image = Image.fromarray(rng.integers(0, 255, (6, 6, 4), dtype=np.uint8), "RGBA").resize((side, side))
    return image.convert("RGB").convert(mode) if mode not in ("RGBA", "LA") else image.convert(mode)


def whole_pictures():
    """Small files of every kind that the reader takes, by name."""
    grey16 = Image.fromarray(np.linspace(0, 65535, 48 * 48).astype(np.uint16).reshape(48, 48))
    exif = Image.Exif()
    exif[0x0112] = 6
    frames = [noise("RGBA"), noise("RGBA").rotate(90), noise("RGBA").rotate(180)]
    moving = {"save_all": True, "append_images": frames[1:]}
    return {
        "plain.jpg": encoded(noise("RGB"), "JPEG"),
        "progressive.jpg": encoded(noise("RGB"), "JPEG", progressive=True, exif=exif),
        "cmyk.jpg": encoded(noise("CMYK"), "JPEG"),
        "grey.jpg": encoded(noise("L"), "JPEG"),
        "plain.png": encoded(noise("RGB"), "PNG"),
        "clear.png": encoded(noise("RGBA"), "PNG"),
        "grey.png": encoded(noise("LA"), "PNG"),
        "16bit.png": encoded(grey16, "PNG"),
        "palette.png": encoded(noise("RGB").quantize(16), "PNG", transparency=0),
        "moving.png": encoded(frames[0], "PNG", **moving),
        "plain.webp": encoded(noise("RGB"), "WEBP"),
        "lossless.webp": encoded(noise("RGBA"), "WEBP", lossless=True),
        "moving.webp": encoded(frames[0], "WEBP", **moving),
    }


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth=8, colour=2, data=b"\0" * 100, before=b""):
    """A PNG that claims a size, whatever its data."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + before + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def damaged(content, chance):
    """A copy with bytes flipped, cut, repeated, or with a header's checksum mended so that its lie is believed."""
    content = bytearray(content)
    way = chance.randrange(5)
    if way == 0:
        del content[chance.randrange(len(content)) :]
    elif way == 1:
        at = chance.randrange(len(content))
        content[at : at + chance.randrange(1, 64)] = chance.randbytes(chance.randrange(64))
    elif way == 2:
        at = chance.randrange(len(content))
        content[at:at] = content[chance.randrange(len(content)) :]
    else:
        for _ in range(chance.choice((1, 1, 4, 64))):
            content[chance.randrange(len(content) if way == 3 else min(64, len(content)))] = chance.randrange(256)
    if content[:4] == b"\x89PNG" and chance.random() < 0.7:
        mend_checksums(content)
    return bytes(content)


def mend_checksums(content):
    at = 8
    while at + 12 <= len(content):
        end = at + 8 + struct.unpack_from(">I", content, at)[0]
        if end + 4 > len(content):
            break
        struct.pack_into(">I", content, end, zlib.crc32(content[at + 4 : end]))
        at = end + 4


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """2,600 damaged copies of every kind, 200 a kind, an eighth of them under the suffix of another format."""
    folder, chance = tmp_path_factory.mktemp("damaged"), random.Random(0)
    paths = []
    for name, content in whole_pictures().items():
        for number in range(200):
            stem, _, suffix = name.partition(".")
            path = folder / f"{stem}-{number:03}.{suffix if number % 8 else chance.choice(('jpg', 'png', 'webp', 'gif'))}"
            path.write_bytes(damaged(content, chance))
            paths.append(path)
    return paths


def read_apart(*paths):
    """Read pictures in a process of their own, which must not crash: what is told of each, and the megabytes that reading took."""
    code = (
        "import json, resource, sys\nfrom pathlib import Path\nfrom fashioniq.data.images import UnreadableImage, load_square\n"
        "def peak():\n    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "def told(path):\n    try:\n        return str(load_square(Path(path), 8).shape)\n"
        "    except UnreadableImage as error:\n        return str(error)\n"
        "before = peak()\nprint(json.dumps([[told(path) for path in json.load(sys.stdin)], peak() - before]))"
    )
    files = json.dumps([str(path) for path in paths])
    return json.loads(subprocess.run([sys.executable, "-c", code], input=files, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout)


def test_every_damaged_picture_is_read_or_refused_with_a_reason(pictures):
    told, megabytes = read_apart(*pictures)
    assert len(told) == len(pictures) >= 2000 and megabytes < MEGABYTES
    refused = [one for one in told if one != READ]
    assert 500 < len(refused) < len(pictures) - 500  # else the damage is of one kind
    for one in refused:
        assert 0 < len(one) <= 150 and "\n" not in one and str(pictures[0].parent) not in one
        assert not re.match("MemoryError|RecursionError", one)


def test_whole_pictures_of_every_kind_are_read(tmp_path):
    for name, content in whole_pictures().items():
        (tmp_path / name).write_bytes(content)
        assert load_square(tmp_path / name, 8).shape == (3, 8, 8), name


CLAIMS = {
    "bomb.png": (png(60_000, 60_000), "more than 50,000,000 pixels"),
    "line.png": (png(1, 100_000, data=b"\0" * 400_000), "1×100000 pixels, a side under 8"),
    "row.png": (png(100_000, 1, data=b"\0" * 300_001), "100000×1 pixels, a side under 8"),
    "text.png": (png(9, 9, before=chunk(b"zTXt", b"a\0\0" + zlib.compress(b"a" * 10**8))), "ValueError: "),
    "profile.png": (png(9, 9, before=chunk(b"iCCP", b"a\0\0" + zlib.compress(b"a" * 10**8))), "ValueError: "),
    "more.png": (png(9, 9, data=b"\0" * 10**8), None),
    "less.png": (png(5000, 5000), "OSError: "),
    "canvas.webp": (b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\xfe\x3f\0\xfe\x3f\0", "more than 50,000,000 pixels"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_file_that_unpacks_to_much_more_than_it_is_takes_little_memory(tmp_path, name):
    content, reason = CLAIMS[name]
    (tmp_path / name).write_bytes(content)
    (told,), megabytes = read_apart(tmp_path / name)
    assert re.match(reason or re.escape(READ), told), told
    assert megabytes < 150


@pytest.mark.parametrize("kind", ["clear.png", "16bit.png", "moving.webp"])
def test_the_largest_pictures_that_are_taken_are_read_in_bounded_memory(tmp_path, kind):
    side, path = (7071, 7071), tmp_path / kind  # all but 50 million pixels
    if kind == "16bit.png":
        Image.new("I;16", side, 3000).save(path, compress_level=1)
    elif kind == "clear.png":
        Image.new("RGBA", side, (255, 0, 0, 100)).save(path, compress_level=1)
    else:
        frames = [Image.new("RGBA", side, colour) for colour in ("red", "blue")]
        frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True, method=0, quality=0)
    (told,), megabytes = read_apart(path)
    assert told == READ and megabytes < MEGABYTES
