"""Fields of settings: default, help text and bounds of an option beside each other, and the check of the
bounds."""

import math
from dataclasses import field, fields, is_dataclass
from typing import Any

from fashioniq.files import UserError


def option(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    below: float | None = None,
    alias: str | None = None,
    positional: str | None = None,
) -> Any:
    """A field with its text for --help; numbers must be at least `least` and less than `below`.

    `alias` is a second flag. A list with a `positional` name is given without a flag.
    """
    metadata = {"help": help, "least": least, "below": below, "alias": alias, "positional": positional}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def required(help: str) -> Any:
    """A field that must be given."""
    return field(metadata={"help": help})


def section(kind: type, help: str) -> Any:
    """A field that is itself a dataclass of options: `--model.width` in flags, `model: {width: …}` in
    YAML."""
    return field(default_factory=kind, metadata={"help": help})


def flag(name: str) -> str:
    """The flag of an option: `model.max_words` is --model.max-words."""
    return "--" + name.replace("_", "-")


def check(settings: Any, prefix: str = "") -> None:
    """Check all numbers against their bounds, then what the settings themselves check, sections included.

    Raises UserError that begins with the flag.
    """
    for one in fields(settings):
        value, name = getattr(settings, one.name), flag(prefix + one.name)
        least, below = one.metadata.get("least"), one.metadata.get("below")
        if is_dataclass(value):
            check(value, f"{prefix}{one.name}.")
        if isinstance(value, float) and not math.isfinite(value):  # neither less nor more than any bound
            raise UserError(f"{name} is {value}: it must be a finite number")
        if value is not None and least is not None and value < least:
            raise UserError(f"{name} is {value}: it must be at least {least:g}")
        if value is not None and below is not None and value >= below:
            raise UserError(f"{name} is {value}: it must be less than {below:g}")
    if hasattr(settings, "validate"):
        settings.validate()
