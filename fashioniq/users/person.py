"""User at the terminal."""

from collections.abc import Callable

from torch import Tensor

from fashioniq.data.sanitize import clean_answer
from fashioniq.loop.messages import Message


class Person:
    """Person who types the answers.

    `show` maps a target's position to the text that is printed before each question. Raises EOFError at
    the end of the input.
    """

    def __init__(self, show: Callable[[int], str]) -> None:
        self.show = show

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Ask the questions offered, and return the answers."""
        answers = []
        for target, question in zip(target_B.tolist(), offer.texts or (), strict=True):
            if text := self.show(target):
                print(text)
            answers.append(clean_answer(input(f"{question} ")))
        return Message(texts=answers)
