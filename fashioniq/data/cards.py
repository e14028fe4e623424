"""What a person sees of products: pictures, titles and attribute words."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Product(NamedTuple):
    """A product that was found; `distance` is Euclidean, from the query."""

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
    attributes: dict[str, list[str]] = field(default_factory=dict)

    def product(self, name: str, distance: float) -> Product:
        """A product at a distance from the query; title and attributes are empty where they are missing."""
        return Product(name, self.titles.get(name, ""), distance, self.attributes.get(name, []), self.images.get(name))
