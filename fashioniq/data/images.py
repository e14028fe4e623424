"""Decoding of untrusted pictures within limits: upright, RGB, square.

This module does not import torch, so that worker processes start quickly.
"""

import multiprocessing
import os
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import TimeoutError as TookTooLong
from concurrent.futures import wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

import numpy as np
from pebble import ProcessExpired, ProcessPool
from PIL import Image, ImageOps

from fashioniq.files import UserError, one_line
from fashioniq.waiting import within

S = TypeVar("S")
T = TypeVar("T")

FORMATS = ("JPEG", "PNG", "WEBP")
MAX_PIXELS = 50_000_000  # a photo of 50 megapixels needs 150 MB as RGB
MIN_SIDE = 8
MAX_BYTES = 200_000_000  # some decoders read the whole file at once
AHEAD = 64  # pictures decoded in advance by default
SECONDS = 30.0  # time limit per picture; a small crafted file can take hours to decode
STALLED = 600.0  # seconds that the processes may need besides, such as for their start on a busy machine


class UnreadableImage(Exception):
    """A picture that cannot be used; the message gives the reason in a few words."""


def load_image(path: Path, min_side: int = MIN_SIDE) -> Image.Image:
    """Decode a picture as RGB: rotated according to its EXIF orientation, transparency replaced by white.

    Raises UnreadableImage if the file is missing, damaged, in another format, or beyond the size limits.
    """
    with _unreadable(str(path)):
        if not Path(path).is_file():
            # reading a pipe would block
            raise UnreadableImage("not a file" if Path(path).exists() else "no such file")
        if (size := Path(path).stat().st_size) > MAX_BYTES:
            raise UnreadableImage(f"a file of {size:,} bytes, more than {MAX_BYTES:,}")
        return _decode(path, min_side)


def decode_image(content: bytes, min_side: int = MIN_SIDE, max_pixels: int | None = None) -> Image.Image:
    """Decode the content of a picture file as `load_image` does. Raises UnreadableImage."""
    with _unreadable():
        return _decode(BytesIO(content), min_side, max_pixels)


def _decode(source: Path | BytesIO, min_side: int, max_pixels: int | None = None) -> Image.Image:
    with warnings.catch_warnings():
        # Pillow warns about odd metadata and sizes; the limits here apply
        warnings.simplefilter("ignore")
        with Image.open(source, formats=FORMATS) as image:
            width, height = image.size  # from the header, before any pixel is decoded
            most = MAX_PIXELS if max_pixels is None else max_pixels
            if width * height > most:
                raise UnreadableImage(f"{width}×{height} pixels, more than {most:,}")
            if min(width, height) < min_side:
                raise UnreadableImage(f"{width}×{height} pixels, a side under {min_side}")
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            return _as_rgb(image)


@contextmanager
def _unreadable(path: str = "") -> Iterator[None]:
    """Convert what is raised inside to UnreadableImage, without the path."""
    try:
        yield
    except UnreadableImage:
        raise
    except Image.DecompressionBombError as error:  # Pillow checks its own limit first
        raise UnreadableImage(f"more than {MAX_PIXELS:,} pixels") from error
    except Exception as error:  # decoders raise many kinds of errors for damaged files; none may stop a run
        text = f"{type(error).__name__}: {error}"
        raise UnreadableImage(one_line(text.replace(path, "the file") if path else text, 120)) from error


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 bits or more per pixel; greys in PNG go up to 65535
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if "A" in image.getbands() or "transparency" in image.info:
        image = image if image.mode == "RGBA" else image.convert("RGBA")
        ground = Image.new("RGB", image.size, "white")
        ground.paste(image, mask=image)
        return ground
    return image if image.mode == "RGB" else image.convert("RGB")


def load_square(path: Path, size: int) -> np.ndarray:
    """Load a picture, pad it to a square with white (the usual background of product photos) and resize it.

    The result is uint8, 3×size×size. Raises UnreadableImage.
    """
    return to_square(load_image(path), size)


def to_square(image: Image.Image, size: int) -> np.ndarray:
    """Pad a picture to a square with white and resize it: uint8, 3×size×size."""
    square = ImageOps.pad(image, (size, size), Image.Resampling.BICUBIC, color="white")
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


class PictureReader(Generic[S, T]):
    """Apply `read` to pictures in `workers` processes.

    A picture that takes longer than `seconds`, or crashes its process, counts as unreadable. Up to `ahead`
    pictures are read in advance. With 0 workers, each picture is read on demand in this process, without a
    time limit. `read` must be picklable, for example a functools.partial of a module-level function. Use the
    reader in a with statement. Raises UserError if the processes stop working.
    """

    def __init__(
        self, read: Callable[[S], T], workers: int, seconds: float = SECONDS, ahead: int = AHEAD
    ) -> None:
        self._read, self._workers, self._seconds, self._ahead = read, workers, seconds, ahead
        self._pool: ProcessPool | None = None
        self._ended = 0  # pictures
        if workers:
            self._pool = ProcessPool(workers, context=_processes())

    def __enter__(self) -> "PictureReader[S, T]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool:
            self._pool.stop()
            late = f"the processes that decode pictures did not stop within {STALLED:g} seconds; end them"
            within(STALLED, self._pool.join, late)

    def __call__(self, pictures: Iterable[S]) -> Iterator[T | UnreadableImage]:
        """Result for each picture, in the order of `pictures`: the value of `read`, or an UnreadableImage."""
        ahead: deque[Any] = deque()
        for picture in pictures:
            ahead.append(self._scheduled(self._pool, picture) if self._pool else picture)
            if len(ahead) > (self._ahead if self._workers else 0):
                yield self._result(ahead.popleft())
        while ahead:
            yield self._result(ahead.popleft())

    def _scheduled(self, pool: ProcessPool, picture: S) -> Any:
        def count(_: Any) -> None:
            self._ended += 1

        made = pool.schedule(_attempt, args=[self._read, picture], timeout=self._seconds)
        made.add_done_callback(count)
        return made

    def _result(self, waiting: Any) -> T | UnreadableImage:
        if not self._pool:
            return _attempt(self._read, waiting)
        limit, ended = self._seconds + STALLED, self._ended
        while not wait([waiting], limit).done:
            if self._ended == ended:  # else pictures of other threads came first
                raise UserError(
                    f"the processes that decode pictures have read none for {limit:g} seconds; run the same "
                    "command again, or use --workers 0"
                )
            ended = self._ended
        try:
            return waiting.result(0)
        except TookTooLong:
            return UnreadableImage(f"not decoded within {self._seconds:g} seconds")
        except BrokenProcessPool as error:
            raise UserError(
                "no process for decoding pictures could be started: run the command as a program, "
                "or use --workers 0"
            ) from error
        except ProcessExpired as error:
            return UnreadableImage(f"its decoder died (exit code {error.exitcode})")


def _processes() -> Any:
    """Start method for worker processes.

    Workers are not forked from a process with running threads, and ignore Ctrl-C, which the command handles.
    """
    if os.name != "posix":
        return multiprocessing.get_context("spawn")
    from multiprocessing import forkserver  # not available on Windows

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    forkserver.ensure_running()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def _attempt(read: Callable[[S], T], picture: S) -> T | UnreadableImage:
    try:
        return read(picture)
    except UnreadableImage as error:
        return error
