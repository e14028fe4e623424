"""User of GenIR that is a vision-language model: it sees the target, and the picture shown (Yang et al. 2025)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from PIL import Image
from torch import Tensor

from fashioniq.data.images import jpeg_of
from fashioniq.data.sanitize import clean
from fashioniq.llm.completer import Sampling
from fashioniq.llm.prompts import PROMPTS, fill
from fashioniq.loop.messages import Message
from fashioniq.users.vision import PicturesByName


class Lengths(NamedTuple):
    """Most tokens of a description and of a comparison, and most characters of a description."""

    description: int = 200
    comparison: int = 150
    characters: int = 1200


# what --sampling names: lengths, and how tokens are chosen
SAMPLINGS = {"greedy": (Lengths(), Sampling()), "paper": (Lengths(500, 400, 3000), Sampling(0.7, 0.9, 1.1))}


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
        lengths: Lengths = Lengths(),  # noqa: B008
        prompts: Mapping[str, str] = PROMPTS,
    ) -> None:
        self._model, self._pictures, self._images = model, pictures, images
        self._lengths, self._prompts = lengths, prompts
        self._sight, self._shown_as = sight, shown_as
        self._said: list[str] = []

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Describe the targets, or correct the last descriptions."""
        own, lengths = self._prompts, self._lengths
        targets = [[jpeg_of(self._pictures[self._images[target]])] for target in target_B.tolist()]
        if turn == 0:
            said = self._model.complete([own["describe"]] * len(targets), lengths.description, targets)
        else:
            shown = list(self._sight(offer)) if self._sight else [None] * len(targets)
            remarks = self._model.complete(
                [
                    fill(own["criticize"], text=text)
                    if picture is None
                    else fill(own["compare"], shown_as=self._shown_as, text=text)
                    for text, picture in zip(self._said, shown, strict=True)
                ],
                lengths.comparison,
                [
                    target if picture is None else [*target, jpeg_of(picture)]
                    for target, picture in zip(targets, shown, strict=True)
                ],
            )
            prompts = [
                fill(own["refine"], text=text, remark=_one_line(remark, lengths.characters))
                for text, remark in zip(self._said, remarks, strict=True)
            ]
            said = self._model.complete(prompts, lengths.description, targets)
        before = self._said if turn else [""] * len(said)
        self._said = [
            _one_line(text, lengths.characters) or old for text, old in zip(said, before, strict=True)
        ]
        return Message(texts=self._said)


def _one_line(text: str, most: int) -> str:
    return clean(" ".join(text.split()), most)
