"""What a language model is to those that use it."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Completer(Protocol):
    """A language model, local or at an endpoint, which counts the tokens of all prompts and answers."""

    tokens: dict[str, int]

    def complete(self, prompts: Sequence[str], tokens: int) -> list[str]: ...


class Sampling(NamedTuple):
    """How the next token is chosen; the most likely one if the temperature is 0."""

    temperature: float = 0.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
