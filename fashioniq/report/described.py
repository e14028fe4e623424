"""Page of samples of described pictures."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from fashioniq.data.cards import ItemCards
from fashioniq.report.templates import ProductTable, write_page

SAMPLES = 60


def write_described_page(
    path: Path,
    images: Mapping[str, Path],
    texts: Mapping[str, str],
    counts: Sequence[tuple[str, str]],
    *,
    category: str,
    model: str,
) -> None:
    """Write the page of at most SAMPLES products, spread over those in `texts`; an empty text is one that is missing.

    Raises UserError if the page cannot be written.
    """
    names = list(texts)[:: max(1, -(-len(texts) // SAMPLES))]
    products = ProductTable(ItemCards(dict(images), {}))
    write_page(
        path,
        "described.html",
        title=f"Pictures of {category} in words",
        model=model,
        counts=counts,
        total=len(texts),
        samples=[(products.card(name), texts[name] or "(no words)") for name in names],
        products=products,
    )
