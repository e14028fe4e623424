"""Asker who is a person and does not see the picture, as in VisDial."""

from fashioniq.askers.language_model import clean_question
from fashioniq.data.person_questions import Ask, PersonForm
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message


class PersonAsks:
    """Person who reads the caption and the rounds so far, and asks a question."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.turns:
            return Message()
        asked = [PersonForm("your question:", lines=rounds, who="questioner") for rounds in state.rounds]
        return Message(questions=[clean_question(self._ask(one).text) for one in asked])
