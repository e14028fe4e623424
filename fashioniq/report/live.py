"""Page of a live dialog, which reloads itself until the dialog ends."""

from collections.abc import Sequence
from pathlib import Path

from PIL.Image import Image

from fashioniq.data.cards import ItemCards, Product
from fashioniq.report.templates import ProductTable, write_page


def write_live_page(
    path: Path,
    said: Sequence[str],
    question: str,
    products: Sequence[Product],
    offered: str | None,
    *,
    ended: bool,
    drawn: Image | None = None,
) -> None:
    """Write the page: the replies so far, the question or the picture `drawn` from the last reply, and the products
    found with their pictures.

    The product with the id `offered` has an outline. Raises UserError if the page cannot be written.
    """
    cards = ProductTable(
        ItemCards(
            {product.id: product.picture for product in products if product.picture},
            {product.id: product.title for product in products},
            {product.id: product.attributes for product in products},
        )
    )
    write_page(
        path,
        "live.html",
        title="Chat",
        said=said,
        question=question,
        found=[(cards.card(product.id), product.id, product.id == offered) for product in products],
        products=cards,
        ended=ended,
        drawn=cards.drawn(drawn) if drawn else None,
    )
