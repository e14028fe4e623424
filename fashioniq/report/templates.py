"""The Jinja2 environment of all pages, and how a page becomes a file that needs no network and no script."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fashioniq.files import write_text
from fashioniq.report.tables import label, rounded

MOST_LETTERS = 240  # of a title or an utterance


@cache
def environment() -> Environment:
    """Templates of `report/templates/`: values are escaped, and a missing value is an error."""
    made = Environment(
        loader=PackageLoader("fashioniq.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals.update(clipped=clipped, label=label, ordinal=ordinal, rounded=rounded, thousands=thousands)
    made.filters.update(label=label, zip=zip)
    made.globals["style"] = Markup(
        files("fashioniq.report").joinpath("style.css").read_text(encoding="utf-8")
    )
    return made


def write_page(path: Path, template: str, **values: Any) -> None:
    """Write the page that `template` makes of the values. Raises UserError where it cannot be written."""
    write_text(path, environment().get_template(template).render(values))


def clipped(text: str) -> str:
    """The text, shortened to at most MOST_LETTERS characters."""
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 1] + "…"


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th …"""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def thousands(number: int) -> str:
    """The number with a comma between groups of three digits."""
    return f"{number:,}"
