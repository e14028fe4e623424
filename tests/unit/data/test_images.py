import io
import os
import re
import signal
import struct
import time
import zlib
from concurrent.futures import Future
from functools import partial
from multiprocessing import forkserver
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageFile

from fashioniq.data import images
from fashioniq.data.images import PictureReader, UnreadableImage, load_image, load_square, to_square
from fashioniq.files import UserError
from tests.waiting import attempts

BLUE = (20, 40, 200)


def blue(width=40, height=20, mode="RGB"):
    return Image.new("RGB", (width, height), BLUE).convert(mode)


def mean_colour(image):
    return np.asarray(image).reshape(-1, 3).mean(0)


def assert_close(image, colour, tolerance=6):
    assert image.mode == "RGB"
    assert np.abs(mean_colour(image) - colour).max() <= tolerance


def saved(path, image, **options):
    image.save(path, **options)
    return path


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_pictures_of_the_usual_formats_are_read(tmp_path, suffix):
    image = load_image(saved(tmp_path / f"a.{suffix}", blue()))
    assert image.size == (40, 20)
    assert_close(image, BLUE)


def test_cmyk_is_turned_into_rgb(tmp_path):
    assert_close(load_image(saved(tmp_path / "a.jpg", blue(mode="CMYK"), format="JPEG")), BLUE)


def test_a_palette_is_turned_into_rgb(tmp_path):
    path = saved(tmp_path / "a.png", blue().quantize(4))
    with Image.open(path) as image:
        assert image.mode == "P"
    assert_close(load_image(path), BLUE)


def test_the_transparent_colour_of_a_palette_is_white(tmp_path):
    image = Image.new("P", (10, 20), 1)
    image.putpalette([0, 0, 0, *BLUE])
    image.paste(0, (0, 0, 10, 10))
    read = load_image(saved(tmp_path / "a.png", image, transparency=0))
    assert read.getpixel((5, 5)) == (255, 255, 255) and read.getpixel((5, 15)) == BLUE


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_white(tmp_path, mode):
    image = Image.new(mode, (10, 20), (0, 0, 0, 0) if mode == "RGBA" else (0, 0))
    image.paste((*BLUE, 255) if mode == "RGBA" else (70, 255), (0, 10, 10, 20))
    read = load_image(saved(tmp_path / "a.png", image))
    assert read.mode == "RGB" and read.getpixel((5, 5)) == (255, 255, 255)
    assert read.getpixel((5, 15)) == (BLUE if mode == "RGBA" else (70, 70, 70))


def test_half_transparent_is_half_white(tmp_path):
    assert_close(
        load_image(saved(tmp_path / "a.png", Image.new("RGBA", (10, 10), (0, 0, 0, 128)))), (127, 127, 127), 1
    )


def test_16_bits_of_grey_keep_their_shades(tmp_path):
    shades = np.linspace(0, 65535, 64).astype(np.uint16).repeat(16).reshape(64, 16)
    image = load_image(saved(tmp_path / "a.png", Image.fromarray(shades)))
    assert image.mode == "RGB"
    assert np.abs(np.asarray(image)[:, 0, 0].astype(int) - shades[:, 0] // 256).max() <= 1


def test_one_bit_pictures_are_read(tmp_path):
    assert_close(load_image(saved(tmp_path / "a.png", Image.new("1", (10, 10), 1))), (255, 255, 255), 0)


@pytest.mark.parametrize(
    ("mark", "corner"), [(1, (2, 2)), (2, (37, 2)), (3, (37, 17)), (6, (17, 2)), (8, (2, 37))]
)
def test_pictures_are_turned_upright_by_their_exif_mark(tmp_path, mark, corner):
    image = Image.new("RGB", (40, 20), "white")
    image.paste((0, 0, 0), (0, 0, 6, 6))  # black in the corner where the camera's sensor begins
    exif = Image.Exif()
    exif[0x0112] = mark
    read = load_image(saved(tmp_path / "a.jpg", image, exif=exif, quality=95))
    assert read.size == ((20, 40) if mark in (6, 8) else (40, 20))
    assert max(read.getpixel(corner)) < 60


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
def test_a_truncated_picture_is_refused(tmp_path, suffix):
    rng = np.random.default_rng(0)
    path = saved(tmp_path / f"a.{suffix}", Image.fromarray(rng.integers(0, 255, (64, 64, 3), dtype=np.uint8)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UnreadableImage) as caught:
        load_image(path)
    assert str(tmp_path) not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"<!DOCTYPE html><html>404</html>", b"\xff\xd8\xff", b"GIF89a"],
    ids=["empty", "html", "start", "gif"],
)
def test_what_is_no_picture_is_refused(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    with pytest.raises(UnreadableImage):
        load_image(path)


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF", "PPM"])
def test_other_formats_are_refused_whatever_their_name(tmp_path, kind):
    with pytest.raises(UnreadableImage):
        load_image(saved(tmp_path / "a.jpg", blue(), format=kind))


def png_that_claims(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0" * 100))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(10_000, 9_000), (60_000, 60_000)])
def test_a_decompression_bomb_is_refused_without_decoding(tmp_path, monkeypatch, size):
    (tmp_path / "a.png").write_bytes(png_that_claims(*size))
    decoded = []
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda image: decoded.append(image.size))
    with pytest.raises(UnreadableImage, match="pixels"):
        load_image(tmp_path / "a.png")
    assert not decoded


def test_the_limit_on_pixels_is_that_of_the_module(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.png", blue(40, 20))
    monkeypatch.setattr(images, "MAX_PIXELS", 800)
    assert load_image(path).size == (40, 20)
    monkeypatch.setattr(images, "MAX_PIXELS", 799)
    with pytest.raises(UnreadableImage, match="40×20 pixels, more than 799"):
        load_image(path)


@pytest.mark.parametrize("size", [(1, 1), (1, 500), (500, 7)])
def test_a_picture_of_a_pixel_or_a_line_is_refused(tmp_path, size):
    with pytest.raises(UnreadableImage, match=f"{size[0]}×{size[1]} pixels, a side under 8"):
        load_image(saved(tmp_path / "a.png", blue(*size)))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(UnreadableImage, match="no such file"):
        load_image(tmp_path / "a.jpg")
    with pytest.raises(UnreadableImage):
        load_image(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(UnreadableImage, match="not a file"):
        load_image(tmp_path / "a.jpg")


def test_a_huge_file_is_refused_unread(tmp_path):
    path = saved(tmp_path / "a.webp", blue())
    os.truncate(path, images.MAX_BYTES + 1)  # takes no space on the disk
    with pytest.raises(UnreadableImage, match="a file of 200,000,001 bytes, more than 200,000,000"):
        load_image(path)


@pytest.mark.parametrize("suffix", ["png", "webp"])
def test_of_a_moving_picture_the_first_frame_is_read(tmp_path, suffix):
    frames = [blue(), Image.new("RGB", (40, 20), "red"), Image.new("RGB", (40, 20), "white")]
    path = saved(tmp_path / f"a.{suffix}", frames[0], save_all=True, append_images=frames[1:])
    with Image.open(path) as image:
        assert image.n_frames == 3
    assert_close(load_image(path), BLUE)


def test_squares_are_padded_with_white_and_keep_the_proportions():
    square = to_square(blue(40, 20), 32)
    assert square.shape == (3, 32, 32) and square.dtype == np.uint8
    assert (square[:, :7] == 255).all() and (square[:, -7:] == 255).all()
    assert tuple(square[:, 12, 12]) == BLUE


@pytest.mark.parametrize("size", [(8, 5000), (5000, 8), (8, 8)])
def test_any_readable_picture_becomes_a_square(tmp_path, size):
    assert load_square(saved(tmp_path / "a.png", blue(*size)), 32).shape == (3, 32, 32)


def told(pictures, workers=1, seconds=30.0, read=eval):
    """What a reader tells of pictures; `eval` can be had in any process, and lets a picture do what it likes."""
    with PictureReader(read, workers, seconds) as reader:
        return [str(one) for one in reader(iter(pictures))]


@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_are_read_in_their_order(workers):
    assert told(map(str, range(200)), workers) == [str(number) for number in range(200)]


@pytest.mark.parametrize("workers", [0, 1])
def test_what_cannot_be_read_is_told_in_its_place(tmp_path, workers):
    image = saved(tmp_path / "a.png", blue(8, 8))
    read = told([tmp_path / "none.png", image, tmp_path], workers, read=partial(load_square, size=1))
    assert (read[0], read[2]) == ("no such file", "not a file") and re.findall("[0-9]+", read[1]) == [
        "20",
        "40",
        "200",
    ]


def test_a_picture_that_hangs_or_kills_its_process_costs_that_picture_alone():
    read = told(
        [
            "1",
            "__import__('signal').pause()",
            "2",
            "__import__('os').kill(__import__('os').getpid(), 9)",
            "3",
        ],
        seconds=2.0,
    )
    assert read == ["1", "not decoded within 2 seconds", "2", "its decoder died twice (exit code -9)", "3"]


OWN_ID = "__import__('os').getpid()"


@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("victim", ["decoder", "its server"])
def test_processes_that_are_killed_between_pictures_are_replaced(victim, noticed):
    with PictureReader(eval, 1) as reader:
        for number in range(3):
            (decoder,) = reader([OWN_ID])
            os.kill(
                decoder if victim == "decoder" else forkserver._forkserver._forkserver_pid, signal.SIGKILL
            )
            for _ in attempts("the pool gives up") if noticed else ():
                if not reader._pool.active:
                    break
                time.sleep(0.01)
            assert list(reader([str(number)])) == [number]
    with pytest.raises(ProcessLookupError):
        for _ in attempts("a decoder without a server ends"):
            os.kill(decoder, 0)
            time.sleep(0.01)


def test_a_picture_whose_process_is_killed_once_is_read(tmp_path):
    die_once = (
        "(lambda path: __import__('os').kill(__import__('os').getpid(), 0 if path.exists() else path.touch() or 9))"
        f"(__import__('pathlib').Path({str(tmp_path / 'died')!r}))"
    )
    assert told(["1", die_once, "2"]) == ["1", "None", "2"]


def test_no_process_is_left_when_reading_is_broken_off():
    with pytest.raises(KeyboardInterrupt), PictureReader(eval, 2) as reader:
        read = reader("__import__('os').getpid()" for _ in range(1000))
        processes = {next(read) for _ in range(50)}
        raise KeyboardInterrupt
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def one_of_many_scans(side, scans):
    """A JPEG of a few kilobytes whose last progressive scan is repeated: each makes the decoder go through
    all of the picture.
    """
    file = io.BytesIO()
    Image.new("L", (side, side), 90).save(file, "JPEG", progressive=True)
    content = file.getvalue()
    scan = content[content.rindex(b"\xff\xda") : -2]
    return content[:-2] + scans * scan + content[-2:]


def test_a_small_file_that_takes_hours_is_given_up(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(one_of_many_scans(2000, 20))
    began = time.process_time()
    assert load_square(path, 8).shape == (3, 8, 8)  # a valid picture, and this is what 20 of its scans take
    of_20 = time.process_time() - began
    path.write_bytes(one_of_many_scans(2000, 20 + int(20 * 600 / of_20)))  # ten minutes
    assert told([path], seconds=1.0, read=partial(load_square, size=8)) == ["not decoded within 1 seconds"]


@pytest.fixture
def stalled(monkeypatch):
    """A reader whose processes do nothing, and the futures of its pictures."""
    futures = []
    reader = images.PictureReader(str, 0)

    def schedule(*_, **__):
        futures.append(Future())
        return futures[-1]

    reader._workers, reader._pool = 1, SimpleNamespace(schedule=schedule, active=True)
    monkeypatch.setattr(reader, "_seconds", 0.0)
    return reader, futures


def test_processes_that_stop_working_end_a_run_with_a_line(stalled, monkeypatch):
    monkeypatch.setattr(images, "STALLED", 0.01)
    with pytest.raises(UserError, match=r"have read none for 0\.01 seconds; .* --workers 0"):
        list(stalled[0](["a"]))


def test_a_pool_that_gives_up_at_its_start_is_not_waited_for(stalled, monkeypatch):
    reader, _ = stalled
    reader._pool.active = False
    monkeypatch.setattr(reader, "_new_pool", lambda: reader._pool)
    monkeypatch.setattr(images, "_end", lambda pool: None)
    with pytest.raises(UserError, match="no process for decoding pictures could be started"):
        reader._running(reader._pool)


def test_a_picture_waits_while_others_are_read(stalled, monkeypatch):
    reader, futures = stalled
    order = [1, 0]  # the second picture ends first, when the first one is late

    def wait(waited, _):
        number = order.pop(0)
        futures[number].set_result(number)
        return SimpleNamespace(done=number == 0)

    with monkeypatch.context() as patch:
        patch.setattr(images, "wait", wait)
        assert next(reader(["a", "b"])) == 0
