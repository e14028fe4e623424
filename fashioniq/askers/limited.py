"""Asker with a limited number of questions."""

from dataclasses import dataclass

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, DialogState, Message


@dataclass(frozen=True)
class Limited:
    """Wrapper of an asker that makes empty offers after `count` questions, for replies without a question."""

    asker: Asker | None
    count: int

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        asked = len(state.questions[0])
        return self.asker.offer(state, gallery) if self.asker and asked < self.count else Message()
