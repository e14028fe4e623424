"""View of a live dialog: a table of products, and their pictures in the terminal or on a page."""

import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten

from fashioniq.data.cards import Product
from fashioniq.data.catalog_files import LONGEST_TITLE
from fashioniq.data.images import written_as
from fashioniq.data.sanitize import clean
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.offers import Offers
from fashioniq.report.live import write_live_page
from fashioniq.report.tables import print_table
from fashioniq.terminal.pictures import escape_sequence, picture_row, protocol_of

ATTRIBUTES = 4  # attribute words shown per product
TITLE = 60  # characters of a title


NONE_LEFT = "No product is within these limits."


def unknown_of_all(name: str) -> str:
    """Note on a limit of "price", "size" or "stock" that is not known of any product, so that it limits nothing."""
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
        self.protocol = protocol_of(sys.stdout)
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
