"""Prompts of language models and vision-language models: those of the package, and those of a user's file.

A prompt is a text in which names in braces, such as {dialog}, stand for what changes; other braces stay as they are.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from fashioniq.files import UserError, why
from fashioniq.yaml_files import read_yaml

PROMPTS: Mapping[str, str] = read_yaml(Path(__file__).with_suffix(".yaml"))
_FIELD = re.compile(r"\{(\w+)\}")


def fill(prompt: str, **fields: object) -> str:
    """The prompt with these values for the names in braces."""
    return _FIELD.sub(lambda found: str(fields.get(found[1], found[0])), prompt)


def read_prompts(path: Path | None) -> Mapping[str, str]:
    """The prompts, with those of a YAML file of names and texts in place of the package's.

    Raises UserError for a name that is not in PROMPTS, and for a text without a field of the prompt that it replaces.
    """
    if path is None:
        return PROMPTS
    try:
        found = read_yaml(path)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read the prompts in {path}: {why(error)}") from error
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise UserError(f"{path}: expected prompts as `name: text`, with the names {', '.join(PROMPTS)}")
    for name, text in found.items():
        if name not in PROMPTS:
            raise UserError(
                f"{path}: expected some of the prompts {', '.join(PROMPTS)}, found {name}; correct it"
            )
        optional = {"count", "shown_as"}  # a file may say them in words
        if lacking := {*_FIELD.findall(PROMPTS[name])} - {*_FIELD.findall(text)} - optional:
            raise UserError(f"{path}: the prompt {name} lacks {{{min(lacking)}}}; add it")
    return {**PROMPTS, **found}
