"""What a language model is to those that use it; answers of those on servers, and the files in which they are cached by
request.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeGuard

from fashioniq.files import UserError, read_json, write_json

_REASONING = re.compile(r"\A(?:.*?</think>|\s*<think>.*)", re.DOTALL)


class Completer(Protocol):
    """A language model, local or at an endpoint, which counts the tokens of all prompts and answers."""

    tokens: dict[str, int]

    def complete(self, prompts: Sequence[str], tokens: int) -> list[str]: ...


class Sampling(NamedTuple):
    """How the next token is chosen; the most likely one if the temperature is 0."""

    temperature: float = 0.0
    top_p: float = 1.0
    repetition_penalty: float = 1.0


class Answer(NamedTuple):
    """Text of an answer, and the tokens of prompt and answer; a text that was `refused` is empty."""

    text: str
    tokens: dict[str, int]
    refused: bool = False


def name_of(body: dict[str, Any]) -> str:
    """Name of a request in the cache."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def keep_answer(path: Path, model: str, answer: Answer) -> None:
    """Write an answer, also an empty one, so that the run can be repeated."""
    kept: dict[str, Any] = {"model": model, "text": answer.text}
    kept |= {"tokens": answer.tokens} if answer.tokens else {}
    write_json(path, kept | ({"refused": True} if answer.refused else {}))


def read_answer(path: Path) -> Answer:
    """Read a cached answer. Raises UserError if the file is damaged."""
    cached = read_json(path, "a cached answer", dict)
    tokens = cached.get("tokens", {})  # absent if none were counted
    if not isinstance(cached.get("text"), str) or not isinstance(tokens, dict):
        raise UserError(f"{path} has no answer; remove the file")
    counts = {name: count for name, count in tokens.items() if is_count(count)}
    return Answer(cached["text"], counts, cached.get("refused") is True)


def without_reasoning(text: str) -> str:
    """An answer without what some models write in front of it between <think> and </think>; the prompt may have the
    first of the two. Nothing is left of an answer that was cut in between.
    """
    return _REASONING.sub("", text, count=1)


def is_count(value: Any) -> TypeGuard[int]:
    """Whether a value is a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
