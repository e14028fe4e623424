"""A person at the terminal who answers questions."""

from collections.abc import Callable

from torch import Tensor

from fashioniq.data.sanitize import clean_answer
from fashioniq.loop.messages import Message


class Person:
    """Types the answers; `show` gives the text that is printed before each question, by the target's position. EOFError ends it."""

    def __init__(self, show: Callable[[int], str]) -> None:
        self.show = show

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """The answers to the questions offered."""
        answers = []
        for target, question in zip(target_B.tolist(), offer.texts or (), strict=True):
            if text := self.show(target):
                print(text)
            answers.append(clean_answer(input(f"{question} ")))
        return Message(texts=answers)
