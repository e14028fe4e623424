"""An asker that asks for one color after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from fashioniq.data.parts import PartInputs
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message
from fashioniq.options import option


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How the asker asks."""

    colors: list[str] = option(["red", "navy", "black"], "colors that it asks for")


class Curious:
    Options = Manner

    def __init__(self, inputs: PartInputs) -> None:
        self.colors: Sequence[str] = (inputs.options or Manner()).colors

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.turns:
            return Message()
        color = self.colors[(len(state.turns) - 1) % len(self.colors)]
        return Message(questions=[f"is it {color}?"] * state.batch)
