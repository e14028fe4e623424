"""What a person is asked in a dialog, at the terminal or on a page."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from PIL.Image import Image

from fashioniq.data.sanitize import LONGEST


class PersonForm(NamedTuple):
    """A field for text, and what is shown with it."""

    label: str
    pictures: Sequence[
        tuple[str, Image | Path | str]
    ] = ()  # titles and pictures, or text where one is missing
    lines: Sequence[str] = ()  # of the dialog so far
    draft: str = ""  # text to be corrected, which an empty answer keeps
    optional: bool = False  # whether the answer may be empty
    longest: int = LONGEST  # characters of the answer
    judged: str = ""  # a question to be answered by yes or no, too
    who: Literal["user", "questioner"] = "user"


class Answered(NamedTuple):
    """The answer of a person, and whether `PersonForm.judged` was answered by yes; None if it was not answered."""

    text: str
    judged: bool | None = None


Ask = Callable[[PersonForm], Answered]
