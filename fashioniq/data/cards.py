"""What a person sees of a product: picture, title and attribute words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Product(NamedTuple):
    """A search result; `distance` is the Euclidean distance from the query."""

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
        """The product at this distance from the query; a missing title or attribute list is empty."""
        return Product(
            name, self.titles.get(name, ""), distance, self.attributes.get(name, []), self.images.get(name)
        )
