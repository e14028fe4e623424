"""Asker that shows the picture generated from what the user said (GenIR)."""

from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message


class GeneratedPicture:
    """Asker that offers the last generated picture of each dialog; the first offer is empty."""

    shows_pictures = True

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        return Message(pictures=state.state.pictures) if state.turns else Message()
