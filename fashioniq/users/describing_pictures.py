"""User of GenIR that is a vision-language model: it sees the target, and the picture shown (Yang et al. 2025)."""

from collections.abc import Callable, Sequence
from typing import Protocol

from PIL import Image
from torch import Tensor

from fashioniq.data.images import jpeg_of
from fashioniq.data.sanitize import clean
from fashioniq.loop.messages import Message
from fashioniq.users.vision import PicturesByName

DESCRIPTION, COMPARISON = 200, 150  # tokens
MOST = 1200  # characters of a description
DESCRIBE = (
    "Describe the product in this picture so that somebody else can draw it: kind of garment, colors, pattern, "
    "length, cut, sleeves, neckline, details. Write only the description, in one or two sentences."
)
COMPARE = (
    "The first picture shows the product that is wanted. The second picture was {} this description: “{}”. List "
    "briefly what is different or missing in the second picture. Write nothing about style or quality."
)
CRITICIZE = (
    "The picture shows the product that is wanted, and this is its description: “{}”. List briefly what the "
    "description has wrong or leaves out."
)
REFINE = (
    "The picture shows the product that is wanted, and this is its description so far: “{}”. Somebody remarked: "
    "“{}”. Write only the corrected description, in one or two sentences."
)


class Seeing(Protocol):
    """Vision-language model at an endpoint or local: prompts, each with its JPEG pictures → answers."""

    def complete(
        self, prompts: Sequence[str], tokens: int, pictures: Sequence[Sequence[bytes]]
    ) -> list[str]: ...


Sight = Callable[
    [Message], Sequence[Image.Image | None]
]  # the picture shown in each dialog, None without one


class DescribingPictures:
    """User for one batch of dialogs that describes the picture of the target, and then corrects the description.

    A correction takes two calls: one compares target and picture shown, the other one writes the better
    description. Without `sight`, or where nothing is shown, the first one criticizes the description (verbal
    feedback). `shown_as` says what the second picture is, such as "drawn from". Targets are positions in
    `images`. An empty answer keeps the description.
    """

    def __init__(
        self,
        model: Seeing,
        pictures: PicturesByName,
        images: Sequence[str],
        sight: Sight | None = None,
        shown_as: str = "drawn from",
    ) -> None:
        self._model, self._pictures, self._images = model, pictures, images
        self._sight, self._shown_as = sight, shown_as
        self._said: list[str] = []

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Describe the targets, or correct the last descriptions."""
        targets = [[jpeg_of(self._pictures[self._images[target]])] for target in target_B.tolist()]
        if turn == 0:
            said = self._model.complete([DESCRIBE] * len(targets), DESCRIPTION, targets)
        else:
            shown = list(self._sight(offer)) if self._sight else [None] * len(targets)
            remarks = self._model.complete(
                [
                    CRITICIZE.format(text) if picture is None else COMPARE.format(self._shown_as, text)
                    for text, picture in zip(self._said, shown, strict=True)
                ],
                COMPARISON,
                [
                    target if picture is None else [*target, jpeg_of(picture)]
                    for target, picture in zip(targets, shown, strict=True)
                ],
            )
            prompts = [
                REFINE.format(text, _one_line(remark))
                for text, remark in zip(self._said, remarks, strict=True)
            ]
            said = self._model.complete(prompts, DESCRIPTION, targets)
        before = self._said if turn else [""] * len(said)
        self._said = [_one_line(text) or old for text, old in zip(said, before, strict=True)]
        return Message(texts=self._said)


def _one_line(text: str) -> str:
    return clean(" ".join(text.split()), MOST)
