"""User that describes in words how the target differs from the item offered, for any pair of products."""

import random
from typing import Any, Protocol

from torch import Tensor

from fashioniq.data.words import Vocabulary
from fashioniq.loop.messages import Message


class DifferenceDescriber(Protocol):
    """Describes how products differ; products are positions in the gallery."""

    def describe(self, target: int, candidate: int, chance: random.Random) -> str:
        """Return a caption of how the target differs from the candidate."""
        ...


class DescribingUser:
    """User that describes the difference between target and offered item by a speaker.

    A reply depends on target, offered item, turn and `seed`, and not on the other dialogs of the batch. It
    contains the text and, as for recorded captions, the ids of its first `max_words` words in the retriever's
    vocabulary; all other words have the id of unknown words. `about` are facts of metrics.json.
    """

    def __init__(
        self,
        speaker: DifferenceDescriber,
        vocabulary: Vocabulary,
        max_words: int,
        seed: int = 0,
        **about: Any,
    ) -> None:
        self.speaker, self.vocabulary, self.max_words, self.seed = speaker, vocabulary, max_words, seed
        self.about = about

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Describe how the targets differ from the items offered."""
        assert offer.item_B is not None, "a description of a difference needs an offer with items"
        texts = [
            self.speaker.describe(target, item, random.Random(f"{self.seed} {turn} {target} {item}"))
            for target, item in zip(target_B.tolist(), offer.item_B.tolist(), strict=True)
        ]
        words_BL = self.vocabulary.encode(texts, self.max_words).to(target_B.device)
        return Message(words_BL=words_BL, texts=texts)
