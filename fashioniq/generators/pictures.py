"""Pictures from texts: the interface of all generators, and the rule for pictures that cannot be used."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from PIL.Image import Image

Status = Literal["ok", "blocked", "black", "timeout", "wrong size", "error"]

NEW_SEEDS = 2  # further attempts for a black or blocked picture
BETWEEN = 1_000_003  # from the seed of an attempt to that of the next one
DARK, FLAT = 8, 0.5  # a picture without a value of at least DARK, or with a smaller deviation, is black


class PictureRequest(NamedTuple):
    """A picture to generate: what it shows, and its seed."""

    prompt: str
    seed: int


class Generated(NamedTuple):
    """Outcome of one request.

    `picture` is None unless the status is "ok" or "wrong size"; pictures of another size are resized by
    encoders. `seed` is the one used, None if the backend has none. `sent` is the prompt after truncation,
    `revised` the one that a server made of it. `seconds` is the share of this picture in its batch, 0 from
    a cache. `reason` explains a status other than "ok".
    """

    picture: Image | None
    status: Status
    seed: int | None
    sent: str
    revised: str | None = None
    seconds: float = 0.0
    reason: str = ""


class Generator(Protocol):
    """Generates pictures. `identity` are backend, revision of the model and all settings of its pictures."""

    identity: Mapping[str, Any]

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Generate one picture for each request; a picture does not depend on the others of the batch.

        Raises UserError only if no picture can be generated at all.
        """
        ...


def is_black(picture: Image) -> bool:
    """Whether a picture shows nothing, like those of a safety checker or of a decoder that overflowed."""
    pixels = np.asarray(picture.convert("RGB"), dtype=np.float32)
    return bool(pixels.max() < DARK or pixels.std() < FLAT)


def checked_picture(outcome: Generated, picture: Image, size: int | None) -> Generated:
    """The outcome with a picture, which has to show something, and to have this size if it is not None."""
    if is_black(picture):
        return outcome._replace(status="black", reason="a picture of one color")
    if size is not None and picture.size != (size, size):
        reason = f"expected {size}×{size} pixels, found {picture.width}×{picture.height}"
        return outcome._replace(picture=picture, status="wrong size", reason=reason)
    return outcome._replace(picture=picture, status="ok")


def generate_usable(generator: Generator, requests: Sequence[PictureRequest]) -> list[list[Generated]]:
    """All attempts for each request, the last of which is the outcome.

    Black and blocked pictures are tried again with at most `NEW_SEEDS` new seeds; no other status is, as
    backends retry by themselves.
    """
    attempts = [[one] for one in generator.generate(requests)] if requests else []
    for number in range(1, 1 + NEW_SEEDS):
        again = [row for row, tried in enumerate(attempts) if tried[-1].status in ("black", "blocked")]
        if not again:
            break
        fresh = [PictureRequest(requests[row].prompt, requests[row].seed + number * BETWEEN) for row in again]
        for row, one in zip(again, generator.generate(fresh), strict=True):
            attempts[row].append(one)
    return attempts
