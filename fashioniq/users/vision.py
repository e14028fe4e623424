"""User that answers questions with a visual model and the target's picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from PIL import Image
from torch import Tensor

from fashioniq.data.images import UnreadableImage, jpeg_of, load_image
from fashioniq.data.sanitize import clean_answer
from fashioniq.files import UserError, explaining
from fashioniq.llm.endpoint import Endpoint
from fashioniq.llm.prompts import PROMPTS, fill
from fashioniq.loop.messages import Message


class VisualModel(Protocol):
    """Answers one question about each picture."""

    def answer(self, pictures: Sequence[Image.Image], questions: Sequence[str]) -> list[str]: ...


class PicturesByName:
    """Pictures by name. Access raises UserError if a picture is missing or cannot be read."""

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths

    def __getitem__(self, image: str) -> Image.Image:
        if image not in self._paths:
            raise UserError(
                f"no picture of {image}; give the folder of the pictures with --images, or remove its dialog"
            )
        with explaining(
            f"cannot read the picture {self._paths[image]}",
            "; replace it, or remove its dialog",
            UnreadableImage,
        ):
            return load_image(self._paths[image])


class Visual:
    """User that answers by a visual model on the target's picture; targets are positions in `images`."""

    def __init__(self, model: VisualModel, pictures: PicturesByName, images: Sequence[str]) -> None:
        self.model, self.pictures, self.images = model, pictures, images

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Answer the questions offered."""
        pictures = [self.pictures[self.images[target]] for target in target_B.tolist()]
        return Message(
            texts=[clean_answer(text) for text in self.model.answer(pictures, list(offer.questions or ()))]
        )


class RemoteModel:
    """VisualModel behind an endpoint."""

    def __init__(self, endpoint: Endpoint, prompts: Mapping[str, str] = PROMPTS) -> None:
        self.endpoint, self.prompt = endpoint, prompts["answer"]

    def answer(self, pictures: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
        """Answer the questions; pictures are sent as JPEGs with sides of at most 512 pixels."""
        jpegs = [[jpeg_of(picture)] for picture in pictures]
        asked = [fill(self.prompt, question=question) for question in questions]
        return self.endpoint.complete(asked, 30, jpegs)
