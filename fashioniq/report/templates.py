"""What all pages need: the Jinja2 environment, and products, whose pictures are embedded once each.

A page is one file without scripts that loads nothing from the network.
"""

import base64
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image, ImageOps

from fashioniq.data.cards import ItemCards
from fashioniq.data.images import UnreadableImage, load_image, written_as
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
        clipped=clipped,
        label=label,
        ordinal=ordinal,
        rounded=rounded,
        thousands="{:,}".format,
        style=Markup(files("fashioniq.report").joinpath("style.css").read_text(encoding="utf-8")),
    )
    made.filters.update(label=label, zip=zip)
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


PICTURE_BYTES = 7_000_000  # budget of all pictures on a page, in bytes of base64
THUMBNAIL = 128  # pixels per side


class Card(NamedTuple):
    """One product on a page: title, CSS class of its picture (None without one) and attribute words."""

    title: str
    picture: str | None
    words: list[str]


class ProductTable:
    """Cards of the products on one page, and their pictures.

    `pictures` are JPEGs in base64; the CSS class `p7` shows `pictures[7]`. `without_picture` counts products
    without a readable picture, `over_budget` counts pictures left out to keep the page small.
    """

    def __init__(self, cards: ItemCards) -> None:
        self.pictures: list[str] = []
        self.without_picture = 0
        self.over_budget = 0
        self._cards = cards
        self._classes: dict[str, str | None] = {}
        self._bytes = 0

    def card(self, name: str) -> Card:
        """Card of a product; the id replaces a missing title."""
        if name not in self._classes:
            self._classes[name] = self._embed(self._cards.images.get(name))
        words = [clipped(word) for word in self._cards.attributes.get(name, [])]
        return Card(clipped(self._cards.titles.get(name) or name), self._classes[name], words)

    def generated(self, path: str) -> Card:
        """Card of a generated picture."""
        if path not in self._classes:
            self._classes[path] = self._embed(Path(path))
        return Card("generated picture", self._classes[path], [])

    def drawn(self, picture: Image.Image) -> Card:
        """Card of a generated picture in memory."""
        return Card("generated picture", self._embed(picture), [])

    def _embed(self, picture: Path | Image.Image | None) -> str | None:
        try:
            if picture is None:
                raise UnreadableImage("no picture")
            image = load_image(picture) if isinstance(picture, Path) else picture.convert("RGB")
        except UnreadableImage:
            self.without_picture += 1
            return None
        if max(image.size) > THUMBNAIL:
            image = ImageOps.contain(image, (THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
        data = base64.b64encode(written_as(image, "JPEG", quality=82, optimize=True)).decode("ascii")
        if self._bytes + len(data) > PICTURE_BYTES:
            self.over_budget += 1
            return None
        self._bytes += len(data)
        self.pictures.append(data)
        return f"p{len(self.pictures) - 1}"
