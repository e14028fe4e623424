"""Products as HTML: their pictures, each embedded once however often it is shown, or else a card with their title."""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps

from fashioniq.data.images import UnreadableImage, load_image
from fashioniq.report.document import clipped, safe

PICTURE_BYTES = 7_000_000  # of all pictures of a page, which keeps it under 10 MB
THUMBNAIL = 128


@dataclass(frozen=True)
class Looks:
    """What products look like to a reader: pictures, titles and attribute words, by id."""

    images: dict[str, Path]
    titles: dict[str, str]
    attributes: dict[str, list[str]]


class Products:
    """Shows products; `style` are the rules that hold the pictures of all that were shown."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._classes: dict[str, str | None] = {}
        self._rules: list[str] = []
        self._bytes = 0
        self._without_picture = 0
        self._over_budget = 0

    def title(self, name: str) -> str:
        """The product's title, or its id."""
        return clipped(self._looks.titles.get(name) or name)

    def show(self, name: str, words: int = 4) -> str:
        """The picture or the card, and under it the first attribute words."""
        picture = self._picture(name)
        if picture:
            tile = f'<div class="tile {picture}" role="img" aria-label="{safe(self.title(name))}"></div>'
        else:
            tile = f'<div class="tile card"><span>{safe(self.title(name))}</span></div>'
        listed = self._looks.attributes.get(name, [])[:words]
        return tile + (f'<p class="words">{safe(" · ".join(map(clipped, listed)))}</p>' if listed else "")

    def style(self) -> str:
        """The CSS of the pictures shown so far."""
        return "\n".join(self._rules)

    def notes(self) -> Iterator[str]:
        """What is missing among the products shown so far, as HTML."""
        if not self._rules:
            yield "<b>No pictures.</b> Products are shown by their titles and attributes."
        elif self._without_picture:
            yield f"{self._without_picture:,} of the products shown have no readable picture: they are cards with the title."
        if self._over_budget:
            yield f"{self._over_budget:,} pictures were left out to keep this page small: they are cards with the title."

    def _picture(self, name: str) -> str | None:
        if name not in self._classes:
            self._classes[name] = self._embed(name)
        return self._classes[name]

    def _embed(self, name: str) -> str | None:
        try:
            data = _thumbnail(load_image(self._looks.images[name]))
        except (KeyError, UnreadableImage):
            self._without_picture += 1
            return None
        if self._bytes + len(data) > PICTURE_BYTES:
            self._over_budget += 1
            return None
        self._bytes += len(data)
        picture = f"p{len(self._rules)}"
        self._rules.append(f".{picture}{{background-image:url(data:image/jpeg;base64,{data})}}")
        return picture


def _thumbnail(image: Image.Image) -> str:
    small = ImageOps.contain(image, (THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS) if max(image.size) > THUMBNAIL else image
    written = io.BytesIO()
    small.save(written, "JPEG", quality=82, optimize=True)
    return base64.b64encode(written.getvalue()).decode("ascii")
