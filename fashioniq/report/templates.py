"""Jinja2 environment of the pages. A page is one file without scripts that loads nothing from the network."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fashioniq.files import write_text
from fashioniq.report.tables import label, rounded

MAX_CHARACTERS = 240  # of a title or an utterance


@cache
def environment() -> Environment:
    """Environment of `report/templates/`; values are escaped, and a missing value is an error."""
    made = Environment(
        loader=PackageLoader("fashioniq.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(
        clipped=clipped, label=label, ordinal=ordinal, rounded=rounded, thousands="{:,}".format
    )
    made.filters.update(label=label, zip=zip)
    made.globals["style"] = Markup(
        files("fashioniq.report").joinpath("style.css").read_text(encoding="utf-8")
    )
    return made


def write_page(path: Path, template: str, **values: Any) -> None:
    """Render a template and write the page. Raises UserError if it cannot be written."""
    write_text(path, environment().get_template(template).render(values))


def clipped(text: str) -> str:
    """Text, shortened to at most MAX_CHARACTERS characters."""
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"


def ordinal(number: int) -> str:
    """Ordinal number: 1st, 2nd, 3rd, 4th …"""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
