"""Decoding of untrusted pictures within limits: upright, RGB, square.

This module does not import torch, so that worker processes start quickly.
"""

import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, TimeoutError as TookTooLong, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from pebble import ProcessExpired, ProcessPool
from PIL import Image, ImageOps

from fashioniq.data.workers import worker_context
from fashioniq.files import UserError, one_line
from fashioniq.waiting import within

S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")

FORMATS = ("JPEG", "PNG", "WEBP")
MAX_PIXELS = 50_000_000  # a photo of 50 megapixels needs 150 MB as RGB
MIN_SIDE = 8
SENT_SIDE = 512  # pixels of pictures that are sent to a model on a server
SHOWN_SIDE = 640  # pixels of pictures on a page for people at this machine
MAX_BYTES = 200_000_000  # some decoders read the whole file at once
AHEAD = 64  # pictures decoded in advance by default
SECONDS = 30.0  # time limit per picture; a small crafted file can take hours to decode
LOOK = 1.0  # seconds between looks at the processes
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


def decode_image(content: bytes, max_pixels: int | None = None) -> Image.Image:
    """Decode the content of a picture file as `load_image` does. Raises UnreadableImage."""
    with _unreadable():
        return _decode(BytesIO(content), MIN_SIDE, max_pixels)


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


def jpeg_of(image: Image.Image) -> bytes:
    """The picture as a JPEG with sides of at most SENT_SIDE pixels."""
    image = image.convert("RGB")
    image.thumbnail((SENT_SIDE, SENT_SIDE))
    return written_as(image, "JPEG", quality=85)


def shown_jpeg(image: Image.Image) -> bytes:
    """The picture as a JPEG without metadata, with sides of at most SHOWN_SIDE pixels."""
    image = image.convert("RGB")
    if max(image.size) > SHOWN_SIDE:
        image = ImageOps.contain(image, (SHOWN_SIDE, SHOWN_SIDE), Image.Resampling.LANCZOS)
    return written_as(image, "JPEG", quality=85)


def written_as(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The content of a file of the picture, in a format of Pillow with its options."""
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


class _Waiting(NamedTuple, Generic[S]):
    """A picture that one of the processes reads."""

    picture: S
    pool: ProcessPool
    done: Future[Any]


class PictureReader(Generic[S, T]):
    """Apply `read` to pictures in `workers` processes.

    A picture that takes longer than `seconds`, or crashes its process twice, counts as unreadable. Processes that were
    killed are replaced. Up to `ahead` pictures are read in advance. With 0 workers, each picture is read on demand in
    this process, without a time limit. `read` must be picklable, for example a functools.partial of a module-level
    function. Use the reader in a with statement; several threads may call it. Raises UserError if no process can be
    started or the processes stop working.
    """

    def __init__(
        self, read: Callable[[S], T], workers: int, seconds: float = SECONDS, ahead: int = AHEAD
    ) -> None:
        self._read, self._workers, self._seconds, self._ahead = read, workers, seconds, ahead
        self._ended = 0  # pictures
        self._lock = threading.Lock()  # for the pool
        self._pool = self._new_pool() if workers else None

    def __enter__(self) -> "PictureReader[S, T]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool:
            _end(pool)

    def __call__(self, pictures: Iterable[S]) -> Iterator[T | UnreadableImage]:
        """Result for each picture, in the order of `pictures`: the value of `read`, or an UnreadableImage."""
        if not self._workers:
            yield from (_attempt(self._read, picture) for picture in pictures)
            return
        ahead: deque[_Waiting[S]] = deque()
        for picture in pictures:
            ahead.append(self._scheduled(picture))
            if len(ahead) > self._ahead:
                yield self._result(ahead.popleft())
        while ahead:
            yield self._result(ahead.popleft())

    def _new_pool(self) -> ProcessPool:
        return ProcessPool(self._workers, context=worker_context(__name__))

    def _scheduled(self, picture: S) -> _Waiting[S]:
        def count(_: Any) -> None:
            self._ended += 1

        pool = self._running()
        while True:
            with suppress(RuntimeError):
                done = pool.schedule(_attempt, args=[self._read, picture], timeout=self._seconds)
                done.add_done_callback(count)
                return _Waiting(picture, pool, done)
            pool = self._running(pool)

    def _running(self, broken: ProcessPool | None = None) -> ProcessPool:
        """The pool, made anew if it gave up, as it does when a process is killed that has nothing to read.

        Raises UserError if its processes cannot be started, and after the end of the reader.
        """
        with self._lock:
            if self._pool is None:
                raise UserError("the processes that decode pictures have ended")
            if self._pool is broken:
                _end(broken)
                self._pool = self._new_pool()
                try:
                    self._done(self._pool, self._pool.schedule(os.getpid))
                except (BrokenProcessPool, ProcessExpired, TookTooLong) as error:
                    raise UserError(
                        "no process for decoding pictures could be started: run the command as a program, "
                        "or use --workers 0"
                    ) from error
            return self._pool

    def _result(self, waiting: _Waiting[S], again: bool = True) -> T | UnreadableImage:
        try:
            return self._done(waiting.pool, waiting.done)
        except TookTooLong:
            return UnreadableImage(f"not decoded within {self._seconds:g} seconds")
        except (BrokenProcessPool, ProcessExpired) as error:
            if again:  # the process may have been killed for what others did
                return self._result(self._scheduled(waiting.picture), again=False)
            code = f" (exit code {error.exitcode})" if isinstance(error, ProcessExpired) else ""
            return UnreadableImage(f"its decoder died twice{code}")

    def _done(self, pool: ProcessPool, done: Future[U]) -> U:
        limit, ended, began = self._seconds + STALLED, self._ended, time.monotonic()
        while not wait([done], min(limit, LOOK)).done:
            if not pool.active:  # what is scheduled while it gives up never ends
                raise BrokenProcessPool
            if self._ended != ended:  # pictures of other threads came first
                ended, began = self._ended, time.monotonic()
            elif time.monotonic() - began >= limit:
                raise UserError(
                    f"the processes that decode pictures have read none for {limit:g} seconds; run the same "
                    "command again, or use --workers 0"
                )
        return done.result(0)


def _end(pool: ProcessPool) -> None:
    """End the processes of a pool."""
    pool.stop()
    late = f"the processes that decode pictures did not stop within {STALLED:g} seconds; end them"
    within(STALLED, pool.join, late)


def _attempt(read: Callable[[S], T], picture: S) -> T | UnreadableImage:
    try:
        return read(picture)
    except UnreadableImage as error:
        return error
