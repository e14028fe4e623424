"""Thousands of damaged pictures, and the worst of whole ones: each is read or refused with a reason, in
bounded time and memory.
"""

import io
import random
import re
import resource
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from fashioniq.data.images import UnreadableImage, load_square

READ = "(3, 8, 8)"  # what is told of a picture that was read
MEGABYTES = 1000  # what a decoder may come to hold
CPU_SECONDS = 60  # of the processor, whatever else it does


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
    return (
        b"\x89PNG\r\n\x1a\n" + header + before + chunk(b"IDAT", zlib.compress(data, 1)) + chunk(b"IEND", b"")
    )


def damaged(content, chance):
    """A copy with bytes flipped, cut, repeated, or with a header's checksum mended so that its lie is
    believed.
    """
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
            content[chance.randrange(len(content) if way == 3 else min(64, len(content)))] = chance.randrange(
                256
            )
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
            path = (
                folder
                / f"{stem}-{number:03}.{suffix if number % 8 else chance.choice(('jpg', 'png', 'webp', 'gif'))}"
            )
            path.write_bytes(damaged(content, chance))
            paths.append(path)
    return paths


def read_pictures(*paths):
    """What is told of each picture, and the megabytes that reading took."""

    def told(path):
        try:
            return str(load_square(path, 8).shape)
        except UnreadableImage as error:
            return str(error)

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    before = peak()
    return [told(path) for path in paths], peak() - before


@pytest.fixture
def read_apart(apart):
    """Read pictures in a process of their own, which must not crash or take longer than CPU_SECONDS."""
    return lambda *paths: apart(read_pictures, *paths)


def test_every_damaged_picture_is_read_or_refused_with_a_reason(pictures, read_apart):
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


TEXT = chunk(b"zTXt", b"a\0\0" + zlib.compress(b"a" * 10**8, 1))
PROFILE = chunk(b"iCCP", TEXT[8:-4])
CLAIMS = {
    "bomb.png": (png(60_000, 60_000), "more than 50,000,000 pixels"),
    "line.png": (png(1, 100_000, data=b"\0" * 400_000), "1×100000 pixels, a side under 8"),
    "row.png": (png(100_000, 1, data=b"\0" * 300_001), "100000×1 pixels, a side under 8"),
    "text.png": (png(9, 9, before=TEXT), "ValueError: "),
    "profile.png": (png(9, 9, before=PROFILE), "ValueError: "),
    "more.png": (png(9, 9, data=b"\0" * 10**8), None),
    "less.png": (png(5000, 5000), "OSError: "),
    "canvas.webp": (
        b"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0\xfe\x3f\0\xfe\x3f\0",
        "more than 50,000,000 pixels",
    ),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_file_that_unpacks_to_much_more_than_it_is_takes_little_memory(tmp_path, read_apart, name):
    content, reason = CLAIMS[name]
    (tmp_path / name).write_bytes(content)
    (told,), megabytes = read_apart(tmp_path / name)
    assert re.match(reason or re.escape(READ), told), told
    assert megabytes < 150


def plain_png(side, depth, colour, pixel):
    """A PNG of one colour, whose first row is compressed and repeated: compressing all of them takes seconds."""
    row, packer = b"\0" + side * pixel, zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(row) + packer.flush(zlib.Z_FULL_FLUSH)  # which refers to nothing before it
    checksum = 1
    for _ in range(side):
        checksum = zlib.adler32(row, checksum)
    data = b"\x78\x01" + side * packed + b"\x03\0" + struct.pack(">I", checksum)
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, depth, colour, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def moving_webp(side):
    """Two frames of one colour each: a small picture whose header claims a larger one, as no pixel of one
    colour takes a bit.
    """

    def frame(colour):
        small = encoded(Image.new("RGBA", (8, 8), colour), "WEBP", lossless=True, method=0, quality=0)
        data = bytearray(small[20 : 20 + struct.unpack_from("<I", small, 16)[0]])
        (sizes,) = struct.unpack_from("<I", data, 1)  # 14 bits of the width less 1, 14 of the height
        struct.pack_into("<I", data, 1, sizes >> 28 << 28 | (side - 1) << 14 | (side - 1))
        place = b"\0" * 6 + 2 * struct.pack("<I", side - 1)[:3] + b"\x64\0\0\0"
        return riff(b"ANMF", place + riff(b"VP8L", bytes(data)))

    def riff(kind, data):
        return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    canvas = riff(b"VP8X", b"\x12\0\0\0" + 2 * struct.pack("<I", side - 1)[:3])
    return riff(b"RIFF", b"WEBP" + canvas + riff(b"ANIM", b"\0" * 6) + frame("red") + frame("blue"))


LARGE = {
    "clear.png": lambda side: plain_png(side, 8, 6, bytes((255, 0, 0, 100))),
    "16bit.png": lambda side: plain_png(side, 16, 0, struct.pack(">H", 3000)),
    "moving.webp": moving_webp,
}


@pytest.mark.parametrize(
    ("kind", "colour"),
    [("clear.png", (255, 155, 155)), ("16bit.png", (11, 11, 11)), ("moving.webp", (255, 0, 0))],
)
def test_the_pictures_that_are_made_large_by_hand_are_whole(tmp_path, kind, colour):
    (tmp_path / kind).write_bytes(LARGE[kind](90))
    with Image.open(tmp_path / kind) as image:
        assert image.size == (90, 90) and getattr(image, "n_frames", 1) == (2 if kind == "moving.webp" else 1)
    assert np.array_equal(
        load_square(tmp_path / kind, 8), np.broadcast_to(np.uint8(colour)[:, None, None], (3, 8, 8))
    )


@pytest.mark.parametrize("kind", LARGE)
def test_the_largest_pictures_that_are_taken_are_read_in_bounded_memory(tmp_path, read_apart, kind):
    side, path = 7071, tmp_path / kind  # all but 50 million pixels
    path.write_bytes(LARGE[kind](side))
    (told,), megabytes = read_apart(path)
    assert told == READ and megabytes < MEGABYTES
