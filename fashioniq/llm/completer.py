"""What a language model is to those that use it."""

from collections.abc import Sequence
from typing import Protocol


class Completer(Protocol):
    """A language model, local or at an endpoint."""

    def complete(self, prompts: Sequence[str], tokens: int) -> list[str]: ...
