"""Users at the terminal."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PIL.Image import Image
from torch import Tensor

from fashioniq.data.sanitize import clean, clean_answer
from fashioniq.files import UserError
from fashioniq.loop.messages import Message

LONGEST = 600  # maximum characters of a description


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
        for target, question in zip(target_B.tolist(), offer.questions or (), strict=True):
            if text := self.show(target):
                print(text)
            answers.append(clean_answer(input(f"{question} ")))
        return Message(texts=answers)


class DescribingPerson:
    """Person who describes the picture of the target, and then corrects the description by what is shown.

    `show` maps a target's position to the text that is printed first, `seen` an offer to what is shown in each
    dialog: pictures, or lines about them. Pictures without a file are written to `folder`. An empty line keeps
    the description. Raises UserError at the end of the input.
    """

    def __init__(
        self,
        show: Callable[[int], str],
        seen: Callable[[Message], Sequence[Image | str | None]] | None,
        folder: Path,
    ) -> None:
        self._show, self._seen, self._folder = show, seen, folder
        self._said: list[str] = []

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Ask for a description of each target, or for a better one."""
        seen = list(self._seen(offer)) if self._seen and turn else [None] * len(target_B)
        before = self._said if turn else [""] * len(target_B)
        self._said = []
        for target, shown, old in zip(target_B.tolist(), seen, before, strict=True):
            if not turn:
                print(f"\nwanted: {self._show(target)}")
            if shown is not None:
                print(f"shown: {self._path(shown)}")
            self._said.append(
                clean(_line("better description: " if turn else "description: "), LONGEST) or old
            )
        return Message(texts=self._said)

    def _path(self, shown: Image | str) -> str:
        if isinstance(shown, str):
            return shown
        if not (path := shown.info.get("file")):
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / "shown.png"
            shown.save(path)
        return str(path)


def _line(question: str) -> str:
    try:
        return input(question)
    except EOFError as error:
        raise UserError(
            "the input ended before the last dialog; give fewer dialogs with --targets"
        ) from error
