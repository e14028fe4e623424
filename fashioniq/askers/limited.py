"""Ask only so many questions."""

from dataclasses import dataclass

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, Message, Talk


@dataclass(frozen=True)
class Limited:
    """The first `count` questions of another asker, then empty offers: a person continues in their own words."""

    asker: Asker | None
    count: int

    def offer(self, talk: Talk, gallery: Gallery) -> Message:
        asked = len(talk.questions[0])
        return self.asker.offer(talk, gallery) if self.asker and asked < self.count else Message()
