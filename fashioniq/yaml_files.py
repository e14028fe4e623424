"""YAML from others: few aliases, nothing deep, and no tags."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from fashioniq.files import UserError, refuse_special, why

_MOST_YAML, _DEEPEST_YAML, _MOST_ALIASES = 1_000_000, 20, 10  # bytes, levels, references
# libyaml reads deep nesting in linear time; it is not in every build of PyYAML
_FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(yaml.SafeLoader):
    """Safe loader that does not silently take the last of several equal keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if double := [key for number, key in enumerate(keys) if key in keys[:number]]:
            raise yaml.constructor.ConstructorError(
                None, None, f"the key {double[0]} occurs twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """Content of a YAML file in UTF-8, within the limits of our own files.

    Raises OSError if it cannot be read, and ValueError with the reason if it is not YAML, or is larger,
    deeper, or refers to itself more often than any of our files: a few lines could else fill the memory.
    """
    try:
        refuse_special(path)
    except UserError as error:
        raise ValueError(str(error)) from error
    with open(path, "rb") as file:
        content = file.read(_MOST_YAML + 1)
    if len(content) > _MOST_YAML:
        raise ValueError(f"it is larger than {_MOST_YAML:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"it is not UTF-8 text ({error.reason} at byte {error.start}); save it in UTF-8"
        ) from error
    _limit_yaml(text)
    try:
        return yaml.load(text, Loader=_Loader)  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{place}invalid YAML: {error.problem or error}") from error
    except yaml.YAMLError as error:
        raise ValueError(why(error)) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:  # !!timestamp 3
        raise ValueError(f"invalid YAML: {why(error)}") from error


def _limit_yaml(text: str) -> None:
    """Raise ValueError if a YAML text is too deep or has too many aliases; ignores mistakes in it."""
    depth = aliases = 0
    with suppress(yaml.YAMLError):
        for event in yaml.parse(text, Loader=_FastLoader):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            aliases += isinstance(event, yaml.AliasEvent)
            if depth > _DEEPEST_YAML:
                raise ValueError("it is nested too deeply")
            if aliases > _MOST_ALIASES:
                raise ValueError("it has too many aliases")
