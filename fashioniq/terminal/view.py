"""View of a live dialog: a table of products, and their pictures on a page, or in the terminal with the graphics
protocols of kitty and iTerm2.
"""

import base64
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Literal, TextIO

from PIL import Image, ImageDraw, ImageFont, ImageOps

from fashioniq.data.cards import Product
from fashioniq.data.catalog_files import LONGEST_TITLE
from fashioniq.data.images import UnreadableImage, load_image, written_as
from fashioniq.data.sanitize import clean
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.offers import Offers
from fashioniq.report.live import write_live_page
from fashioniq.report.tables import print_table

ATTRIBUTES = 4  # attribute words shown per product
TITLE = 60  # characters of a title
SIDE = 160  # pixels per side of a picture
ROWS = 8  # height of a row of pictures in terminal lines
CHUNK = 4096  # base64 characters per escape sequence of kitty
Protocol = Literal["kitty", "iterm2"]
NONE_LEFT = "No product is within these limits."


def unknown_of_all(name: str) -> str:
    """Note on a limit of "price", its "currency", "size" or "stock" that no product has, so that it limits nothing."""
    if name == "currency":
        return "not limited by price: no product has one in this currency"
    return f"not limited by {name}, which is not known"


def print_products(
    products: Sequence[Product], offers: Offers | None, marked: str | None = None, scores: bool = False
) -> None:
    """Print a table of products: number, id, title, attributes, offer, with an arrow at the product `marked`.

    Scores are cosines, plus what words add.
    """
    told = [offers.text(product.id) if offers else "" for product in products]
    header = [
        "",
        "id",
        "title",
        "attributes",
        *(["offer"] if any(told) else []),
        *(["score"] if scores else []),
    ]
    rows = [
        [
            f"{'→' if product.id == marked else ' '}{number:2}",
            clean(product.id),
            shorten(clean(product.title, LONGEST_TITLE), TITLE, placeholder=" …"),
            clean(", ".join(product.attributes[:ATTRIBUTES])),
            *([offer] if any(told) else []),
            *([f"{1 - product.distance * abs(product.distance) / 2:.3f}"] if scores else []),
        ]
        for number, (product, offer) in enumerate(zip(products, told, strict=True), start=1)
    ]
    print_table(header, rows, left=5 if any(told) else 4)


class View:
    """View with `count` products; their pictures are drawn in the terminal or, if it cannot, written to
    `page`.
    """

    def __init__(self, count: int, page: Path) -> None:
        self.count, self.page = count, page
        self.protocol = picture_protocol(sys.stdout)
        self._page_written = False

    def show(self, live: Dialog) -> list[Product]:
        """Print the products of a dialog and return them, in the order of their numbers."""
        products = live.products(self.count)
        print()
        print_products(products, live.system.offers, live.offered)
        pictures = live.offer.pictures or ()
        if None in pictures:
            print("No picture could be drawn from these words, so they were searched for as a text.")
        if any(product.picture for product in products) or any(pictures):
            if self.protocol:
                for drawn in filter(None, pictures):
                    print("drawn from your words; change the words where the picture is wrong:")
                    print(escape_sequence(written_as(drawn, "PNG"), self.protocol), end="")
                print(escape_sequence(picture_row(products), self.protocol), end="")
            else:
                self._write(live, products, ended=False)
        return products

    def end(self, live: Dialog, products: Sequence[Product]) -> None:
        """Write the page a last time, without the automatic reload."""
        if self._page_written:
            self._write(live, products, ended=True)

    def discard(self) -> None:
        """Remove the page of a dialog that failed."""
        if self._page_written:
            self.page.unlink(missing_ok=True)

    def _write(self, live: Dialog, products: Sequence[Product], ended: bool) -> None:
        drawn = next(iter(live.offer.pictures or ()), None)
        write_live_page(self.page, live.said, live.question, products, live.offered, ended=ended, drawn=drawn)
        if not self._page_written:
            print(f"Pictures: {self.page.resolve().as_uri()}")
        self._page_written = True


def picture_protocol(stream: TextIO, environment: Mapping[str, str] = os.environ) -> Protocol | None:
    """Protocol of the terminal of a stream; None for files, tmux, screen and other terminals."""
    if (
        not stream.isatty()
        or "TMUX" in environment
        or environment.get("TERM", "").startswith(("screen", "tmux"))
    ):
        return None
    program = environment.get("TERM_PROGRAM", "")
    if "KITTY_WINDOW_ID" in environment or "kitty" in environment.get("TERM", "") or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return None


def picture_row(products: Sequence[Product]) -> bytes:
    """PNG of the products' pictures side by side with their numbers; grey for an unreadable picture."""
    row = Image.new("RGB", (SIDE * len(products), SIDE), "white")
    draw, font = ImageDraw.Draw(row), ImageFont.load_default(20)
    for column, product in enumerate(products):
        row.paste(_picture(product), (column * SIDE, 0))
        draw.text((column * SIDE + 6, 4), str(column + 1), "black", font, stroke_width=3, stroke_fill="white")
    return written_as(row, "PNG")


def escape_sequence(png: bytes, protocol: Protocol) -> str:
    """Escape sequence that draws a PNG at the cursor, ROWS lines high."""
    data = base64.b64encode(png).decode("ascii")
    if protocol == "iterm2":
        return f"\033]1337;File=inline=1;size={len(png)};height={ROWS};preserveAspectRatio=1:{data}\a\n"
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    heads = [f"a=T,f=100,r={ROWS},", *[""] * (len(chunks) - 1)]
    last = len(chunks) - 1
    drawn = (
        f"\033_G{head}m={int(number < last)};{chunk}\033\\"
        for number, (head, chunk) in enumerate(zip(heads, chunks, strict=True))
    )
    return "".join(drawn) + "\n"


def _picture(product: Product) -> Image.Image:
    try:
        if product.picture is None:
            raise UnreadableImage("no picture")
        return ImageOps.pad(load_image(product.picture), (SIDE - 4, SIDE), color="white")
    except UnreadableImage:
        return Image.new("RGB", (SIDE - 4, SIDE), "lightgrey")
