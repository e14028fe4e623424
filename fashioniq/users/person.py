"""Users who are people, at the terminal or on a page."""

from collections.abc import Callable, Sequence
from pathlib import Path

from PIL.Image import Image
from torch import Tensor

from fashioniq.data.person_questions import Answered, Ask, PersonForm
from fashioniq.data.sanitize import clean, clean_answer
from fashioniq.files import UserError
from fashioniq.loop.messages import Message

LONGEST = 600  # maximum characters of a description
USEFUL = "Does this picture help to describe the wanted one better?"


class Terminal:
    """Asks at the terminal, where pictures are named by their files; those without one are written to `folder`.

    Nothing is judged there. Raises EOFError at the end of the input.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def __call__(self, asked: PersonForm) -> Answered:
        """Print what is shown, and read a line."""
        print()
        for title, picture in asked.pictures:
            print(f"{title}: {self._path(picture)}")
        return Answered(input(f"{asked.label} "))

    def _path(self, picture: Image | Path | str) -> str:
        if not isinstance(picture, Image):
            return str(picture)
        if not (path := picture.info.get("file")) and self._folder:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / "shown.png"
            picture.save(path)
        return str(path)


class Person:
    """Person who answers questions about the picture of the target.

    `picture_of` maps a target's position to its picture, or to a name without one.
    """

    def __init__(self, picture_of: Callable[[int], Path | str], ask: Ask) -> None:
        self._picture_of, self._ask = picture_of, ask

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Ask the questions offered, and return the answers."""
        pairs = zip(target_B.tolist(), offer.questions or (), strict=True)
        asked = [
            PersonForm(text, [("wanted", self._picture_of(target))], optional=True) for target, text in pairs
        ]
        return Message(texts=[clean_answer(self._ask(one).text) for one in asked])


class DescribingPerson:
    """Person who describes the picture of the target, and then corrects the description by what is shown.

    `picture_of` maps a target's position to its picture, or to a name without one, `seen` an offer to what is shown in
    each dialog. An empty answer keeps the description. `judged` receives a turn and whether its picture was found
    useful, wherever that was answered. Raises UserError at the end of the input.
    """

    def __init__(
        self,
        picture_of: Callable[[int], Path | str],
        seen: Callable[[Message], Sequence[Image | Path | str | None]] | None,
        ask: Ask,
        judged: Callable[[int, bool], None] = lambda turn, useful: None,
    ) -> None:
        self._picture_of, self._seen, self._ask, self._judged = picture_of, seen, ask, judged
        self._said: list[str] = []

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Ask for a description of each target, or for a better one."""
        seen = list(self._seen(offer)) if self._seen and turn else [None] * len(target_B)
        before = self._said if turn else [""] * len(target_B)
        self._said = []
        for target, shown, old in zip(target_B.tolist(), seen, before, strict=True):
            pictures = [("wanted", self._picture_of(target))]
            asked = PersonForm(
                "better description:" if turn else "description:",
                pictures if shown is None else [*pictures, ("shown", shown)],
                draft=old,
                longest=LONGEST,
                judged=USEFUL if isinstance(shown, Image) else "",
            )
            try:
                answered = self._ask(asked)
            except EOFError as error:
                raise UserError(
                    "the input ended before the last dialog; give fewer dialogs with --targets"
                ) from error
            if answered.judged is not None:
                self._judged(turn, answered.judged)
            self._said.append(clean(answered.text, LONGEST) or old)
        return Message(texts=self._said)
