"""Pictures that shoppers upload: decoded in a process of their own, encoded, and never stored."""

import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch

from fashioniq.data.images import PictureReader, UnreadableImage, decode_image, to_square
from fashioniq.data.items import ItemInputs
from fashioniq.data.workers import kill_starter
from fashioniq.features.store import StoreIdentity
from fashioniq.files import UserError, checksum
from fashioniq.models.device import pick_device
from fashioniq.runs import WEIGHTS
from fashioniq.runs.trained import load_predictor
from fashioniq.service.problems import Problem, wrong
from fashioniq.waiting import within

MAX_BYTES = 10 * 1024 * 1024
MAX_PIXELS = 25_000_000
MEMORY = 1024**3  # bytes of address space that the decoder may add
SECONDS = 5.0
LONGEST = 60.0  # seconds for an answer, such as while the system has stopped the process that starts decoders
AT_ONCE = 2  # uploads in work; more are refused


def decode(content: bytes, size: int) -> np.ndarray:
    """An uploaded picture as uint8, 3×size×size. Raises UnreadableImage. Limits the memory of its process."""
    with suppress(ImportError, ValueError, OSError):  # not on this system
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    try:
        return to_square(decode_image(content, max_pixels=MAX_PIXELS), size)
    except MemoryError:
        raise UnreadableImage("it needs too much memory") from None


class Uploads:
    """Encoder of uploaded pictures: that of a run of train-attributes, with which the features were extracted.

    Pictures are decoded by `workers` processes; with 0, in this one and without a time limit.
    """

    def __init__(self, predictor: Path, device: str, workers: int = 1) -> None:
        from fashioniq.encoders.timm import Encoding  # here, as it imports timm

        model, about = load_predictor(predictor)
        self.folder = predictor
        self.weights, self.words, self.size = (
            checksum(predictor / WEIGHTS),
            about.attribute_words,
            about.image_size,
        )
        self._encode = Encoding(model, model.encoder, pick_device(device), bfloat16=False)
        self._reader = PictureReader(partial(decode, size=self.size), workers, SECONDS)
        self._places = threading.Semaphore(AT_ONCE)

    def fits(self, identity: StoreIdentity) -> bool:
        """Whether features of this store are those of the encoder."""
        return identity.weights == self.weights and identity.attribute_words == self.words

    def read(self, content: bytes) -> np.ndarray:
        """Decode a picture: uint8, 3×size×size. Raises Problem."""
        if not self._places.acquire(blocking=False):
            raise Problem("busy", retry_after=2)
        try:
            square = within(LONGEST, partial(self._read, content), "")
        except UserError:
            raise Problem("busy", retry_after=2) from None
        if isinstance(square, UnreadableImage):
            raise wrong("/", "it is damaged, too large, or neither JPEG, PNG nor WebP", "unreadable-picture")
        return square

    def _read(self, content: bytes) -> np.ndarray | UnreadableImage:
        try:
            (square,) = self._reader([content])
            return square
        finally:
            self._places.release()  # not before the wait has ended, also if nobody waits for the answer

    def encode(self, square: np.ndarray) -> ItemInputs:
        """Features and attribute ids of a picture, 1×D and 1×A; in the thread of the models."""
        features_BD, attributes_BA = self._encode([square])
        return ItemInputs(features_BD.float(), attributes_BA)

    def close(self) -> None:
        """End the processes."""
        try:
            within(SECONDS, partial(self._reader.__exit__, None, None, None), "")
        except UserError:
            kill_starter()


def stored(inputs: ItemInputs) -> tuple[bytes, list[int]]:
    """Inputs as the database keeps them: float32 features and attribute ids."""
    return inputs.features_BD.cpu().numpy().astype(np.float32).tobytes(), inputs.attributes_BA[0].tolist()


def restored(feature: bytes, attributes: list[int], device: torch.device) -> ItemInputs:
    """Inputs of the database."""
    features_BD = torch.frombuffer(bytearray(feature), dtype=torch.float32)[None]
    return ItemInputs(features_BD.to(device), torch.tensor([attributes], device=device))
