"""Values of options: their types in words, and their conversion."""

import os
import typing
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

_BOOLEANS = {"true": True, "yes": True, "false": False, "no": False}
_IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Hint with the known name that has these initials, or is the most similar; empty if there is none.

    >>> did_you_mean("--lr", ["--learning-rate", "--layers"])
    '; did you mean --learning-rate?'
    """
    given = name.replace("_", "-").lower().lstrip("-")
    shown = {one.replace("_", "-").lower().lstrip("-"): one for one in sorted(known)}
    near = [one for one in shown if "".join(word[:1] for word in one.split("-")) == given]
    near = near or get_close_matches(given, shown, n=1)
    return f"; did you mean {shown[near[0]]}?" if near else ""


def value_of(kind: Any, given: Any) -> Any:
    """A text, or a value of YAML or Python, as a type of options. Raises TypeError or ValueError."""
    own = plain_type(kind)
    if given is None and own is not kind:
        return None
    if typing.get_origin(own) is list:
        several = given if isinstance(given, list | tuple) else [given]
        return [value_of(typing.get_args(own)[0], one) for one in several]
    if typing.get_origin(own) is Literal:
        if given not in typing.get_args(own):
            raise ValueError
        return given
    if own is bool:
        return given if isinstance(given, bool) else _BOOLEANS[str(given).lower()]
    if own in (str, Path) and not isinstance(given, str | Path | int | float):
        raise TypeError
    if isinstance(given, bool) or (own is int and isinstance(given, float) and not given.is_integer()):
        raise TypeError
    # no shell has expanded ~ in YAML, in Python and in --run=~/a; a folder of that name would be made
    return Path(os.path.expanduser(given)) if own is Path else own(given)


def plain_type(kind: Any) -> Any:
    """The type X of an option that is X or None."""
    kinds = [one for one in typing.get_args(kind) if one is not type(None)]
    return kinds[0] if type(None) in typing.get_args(kind) and len(kinds) == 1 else kind


def described_type(kind: Any) -> str:
    """Type of an option in words: float | None becomes "a number", a Literal "one of A, B"."""
    own = plain_type(kind)
    if typing.get_origin(own) is Literal:
        return f"one of {', '.join(map(str, typing.get_args(own)))}"
    return {list[str]: "a list of texts", list[float]: "a list of numbers"}.get(own) or _IN_WORDS[own]


def placeholder(kind: Any) -> str:
    own = plain_type(kind)
    if typing.get_origin(own) is Literal:
        return "{" + ",".join(map(str, typing.get_args(own))) + "}"
    return {int: "N", float: "X", Path: "PATH"}.get(own, "TEXT")
