"""Ids of products, which are the same if they differ only in how accents are written: with their letters or after them.

A Mac stores them apart in file names, and most other programs together (normal forms D and C of Unicode). Ids stay as
the catalog writes them, as the names of its files depend on it. Whoever gives an id may write it either way.
"""

from collections.abc import Iterable

from fashioniq.data.words import composed


class Spellings:
    """Ids as their catalog writes them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._apart = {one: name for name in ids if (one := composed(name)) != name}

    def own(self, name: str) -> str:
        """The id of the catalog that is the same as `name`; of an unknown one the composed form."""
        name = composed(name)
        return self._apart.get(name, name)


def repeated(ids: Iterable[str]) -> str | None:
    """An id that is there twice, also if it is written in two ways; None if there is none."""
    seen: set[str] = set()
    for name in map(composed, ids):
        if name in seen:
            return name
        seen.add(name)
    return None
