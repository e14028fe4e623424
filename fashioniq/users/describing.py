"""User that describes in words how the target differs from the item offered, for any pair of products."""

import random
from typing import Any, Protocol

from torch import Tensor

from fashioniq.loop.messages import Message


class DifferenceDescriber(Protocol):
    """Describes how products differ; products are positions in the gallery."""

    def describe(self, target: int, candidate: int, chance: random.Random) -> str:
        """Return a caption of how the target differs from the candidate."""
        ...


class DescribingUser:
    """User that describes the difference between target and offered item by a speaker.

    A reply depends on target, offered item, turn and `seed`, and not on the other dialogs of the batch. `about` are
    facts of metrics.json.
    """

    def __init__(self, speaker: DifferenceDescriber, seed: int = 0, **about: Any) -> None:
        self.speaker, self.seed, self.about = speaker, seed, about

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Describe how the targets differ from the items offered."""
        assert offer.item_B is not None, "a description of a difference needs an offer with items"
        texts = [
            self.speaker.describe(target, item, random.Random(f"{self.seed} {turn} {target} {item}"))
            for target, item in zip(target_B.tolist(), offer.item_B.tolist(), strict=True)
        ]
        return Message(texts=texts)
