"""Asker that shows the picture generated from what the user said (GenIR)."""

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Talk


class GeneratedPicture:
    """Asker that offers the last generated picture of each dialog; the first offer is empty."""

    def offer(self, talk: Talk, gallery: Gallery) -> Message:
        return Message(pictures=talk.state.pictures) if talk.turns else Message()
