"""A user who says the first words of the target's title."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from fashioniq.data.parts import PartInputs
from fashioniq.loop.messages import Message
from fashioniq.options import option


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How the user speaks."""

    words: int = option(2, "words of the title in a turn", least=1)


class Terse:
    Options = Manner

    def __init__(self, inputs: PartInputs) -> None:
        titles = inputs.catalog.titles if inputs.catalog else {}
        self.said: Sequence[str] = [titles.get(name, name) for name in inputs.ids]
        self.words = (inputs.options or Manner()).words
        self.about = {"captions": f"{self.words} words of titles"}

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        texts = [" ".join(self.said[target].split()[: self.words]) for target in target_B.tolist()]
        return Message(texts=texts)
