"""What the users, askers, encoders and generators that options name are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fashioniq import plugins

if TYPE_CHECKING:  # inputs are checked before torch is imported
    from fashioniq.data.catalog import Catalog
    from fashioniq.data.items import Items
    from fashioniq.data.words import Vocabulary


@dataclass(frozen=True, kw_only=True)
class PartInputs:
    """Inputs of a part; what a command does not have is None or empty.

    `argument` is what follows the name, as in `name:argument`, and `options` are those that the part declares. `ids`
    are the products or pictures that targets and offers are positions in, `items` their features. A user may reply
    with texts alone, of which `max_words` words are read.
    """

    argument: str = ""
    options: Any = None
    data: Path | None = None
    category: str | None = None
    catalog: Catalog | None = None
    ids: Sequence[str] = ()
    items: Items | None = None
    vocabulary: Vocabulary | None = None
    max_words: int = 0
    seed: int = 0
    device: str = "cpu"


def named_part(kind: str, name: str, made_of: type[PartInputs] = PartInputs, **inputs: Any) -> Any:
    """The user, asker, encoder or generator with a name. Raises UserError if it cannot be found or made."""
    part, argument = plugins.split(kind, name)
    made = plugins.find(kind, part)(made_of(argument=argument, **inputs))
    plugins.check_made(kind, part, made)
    return made
