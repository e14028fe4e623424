"""Fields of settings with default, help text and bounds, and the check of the bounds."""

import math
from collections.abc import Mapping
from dataclasses import MISSING, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from fashioniq.files import UserError, one_line, plain, refuse_special

_MOST = 2**53  # larger whole numbers overflow in libraries; no option means as much


def option(
    default: Any,
    help: str,
    *,
    least: float | None = None,
    below: float | None = None,
    alias: str | None = None,
    positional: str | None = None,
    reads: str | None = None,
    part: str | None = None,
    research: bool = False,
) -> Any:
    """Field with its help text; numbers must be at least `least` and less than `below`.

    `alias` is a second flag. A list with a `positional` name takes values without a flag. `reads` is the kind of input
    that a path names: a catalog, a store, a file, or a run of some kind. `part` is the kind of part that a text can
    name. `research` options come last in the help.
    """
    metadata = {
        "help": help,
        "least": least,
        "below": below,
        "alias": alias,
        "positional": positional,
        "reads": reads,
        "part": part,
        "research": research,
    }
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def required(help: str, *, reads: str | None = None) -> Any:
    """Field without a default."""
    return option(MISSING, help, reads=reads)


def metadata_of(kind: type, name: str) -> Mapping[str, Any]:
    """Help and bounds of an option of a dataclass; those of the base class if `kind` only changes its default."""
    known = (vars(one).get("__dataclass_fields__", {}).get(name) for one in kind.__mro__)
    return next((one.metadata for one in known if one is not None and one.metadata), {})


def section(kind: type, help: str) -> Any:
    """Field that is a dataclass of options: `--model.width` as a flag, `model: {width: …}` in YAML."""
    return field(default_factory=kind, metadata={"help": help})


def flag(name: str) -> str:
    """Flag of an option: `model.max_words` becomes --model.max-words."""
    return "--" + name.replace("_", "-")


def check(settings: Any, prefix: str = "") -> None:
    """Check the bounds of all numbers and the kind of all paths.

    Then call `validate` of the settings and their sections, if defined.

    Raises UserError that begins with the flag.
    """
    for one in fields(settings):
        value, name = getattr(settings, one.name), flag(prefix + one.name)
        known = metadata_of(type(settings), one.name)
        least, below = known.get("least"), known.get("below")
        if is_dataclass(value):
            check(value, f"{prefix}{one.name}.")
        for given in value if isinstance(value, list) else [value]:
            if isinstance(given, Path):
                if str(given) != plain(str(given)):
                    raise UserError(f"{name} contains control characters; give another path")
                try:
                    refuse_special(given)
                except UserError as error:
                    raise UserError(f"{name}: {error}") from error
            if isinstance(given, float) and not math.isfinite(
                given
            ):  # NaN passes every comparison with a bound
                raise UserError(f"{name} is {given}: it must be a finite number")
            if isinstance(given, int) and abs(given) >= _MOST:
                raise UserError(f"{name} is {one_line(str(given), 40)}: it must be less than {_MOST:,}")
            if given is not None and least is not None and given < least:
                raise UserError(f"{name} is {given}: it must be at least {least:g}")
            if given is not None and below is not None and given >= below:
                raise UserError(f"{name} is {given}: it must be less than {below:g}")
    if hasattr(settings, "validate"):
        settings.validate()


def refuse(*rules: tuple[object, str]) -> None:
    """Raise UserError with the text of the first rule whose condition holds."""
    for condition, text in rules:
        if condition:
            raise UserError(text)
