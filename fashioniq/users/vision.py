"""Answer questions with a model that sees the target's picture."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from PIL import Image
from torch import Tensor

from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.data.sanitize import clean_answer
from fashioniq.files import UserError
from fashioniq.llm.endpoint import Endpoint
from fashioniq.loop.messages import Message

PICTURE_SIDE = 512  # pixels of the longer side of a picture that goes to an endpoint
PROMPT = "Answer the question on this picture in one to five words, without a full sentence. Question: {}"


class VisualModel(Protocol):
    """Answers questions about pictures, one each."""

    def answer(self, pictures: Sequence[Image.Image], questions: Sequence[str]) -> list[str]: ...


class PicturesByName:
    """Pictures by name. Raises UserError for one that is missing or cannot be read."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, image: str) -> Image.Image:
        if image not in self._paths:
            raise UserError(f"no picture of {image}: give the folder of the pictures with --images, or leave its dialogue out")
        try:
            return load_image(self._paths[image])
        except UnreadableImage as error:
            raise UserError(f"the picture {self._paths[image]} cannot be read ({error}); replace it, or leave its dialogue out") from error


class Visual:
    """A user whose answers a model gives that sees the target's picture; `images` are the names that targets are positions in."""

    def __init__(self, model: VisualModel, pictures: PicturesByName, images: Sequence[str]) -> None:
        self.model, self.pictures, self.images = model, pictures, images

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """The answers to the questions offered."""
        pictures = [self.pictures[self.images[target]] for target in target_B.tolist()]
        return Message(texts=[clean_answer(text) for text in self.model.answer(pictures, list(offer.texts or ()))])


class RemoteModel:
    """A VisualModel at an endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def answer(self, pictures: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """The answers, each picture sent as a JPEG of at most 512 pixels a side."""
        jpegs = [_jpeg(picture) for picture in pictures]
        return self.endpoint.complete([PROMPT.format(question) for question in questions], 30, jpegs)


def _jpeg(image: Image.Image) -> bytes:
    image.thumbnail((PICTURE_SIDE, PICTURE_SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return file.getvalue()
