"""What a person sees of a product: picture, title and attribute words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Product(NamedTuple):
    """A search result; `distance` is the signed square root of its cost.

    The cost is the squared Euclidean distance from the vector of the query, less twice the bonus for its words. Without
    words, `distance` is the Euclidean distance; a bonus can make it negative.
    """

    id: str
    title: str
    distance: float
    attributes: list[str]
    picture: Path | None


@dataclass(frozen=True)
class ItemCards:
    """Pictures, titles and attribute words of products, by product id."""

    images: dict[str, Path] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    attributes: Mapping[str, list[str]] = field(default_factory=dict)

    def product(self, name: str, distance: float) -> Product:
        """The product at this `Product.distance`; a missing title or attribute list is empty."""
        return Product(
            name, self.titles.get(name, ""), distance, self.attributes.get(name, []), self.images.get(name)
        )
