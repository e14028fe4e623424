"""What a Fashion IQ folder says of its products in words: the rows of titles/<category>.<split>.json."""

from collections.abc import Mapping
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import Catalog, title_of
from fashioniq.files import UserError, read_json

TEXTS = ("summary", "description")  # told beside the title
NO_VALUE = {"", "na", "n/a", "none", "null", "nan", "-"}


def product_rows(catalog: Catalog, split: str) -> dict[str, dict[str, Any]]:
    """The rows of a split's products that have one, in the order of the split. Raises UserError for a missing or malformed file."""
    path = catalog.root / "titles" / f"{file_name(catalog.category)}.{split}.json"
    rows = read_json(path, f"the {split} titles of {catalog.category}", dict)
    for name, row in rows.items():
        if not isinstance(row, dict):
            raise UserError(f'{path}: {name} should have {{"title": …}}, it has a {type(row).__name__}')
    return {name: rows[name] for name in catalog.ids(split) if name in rows}


def text_of(row: Mapping[str, Any]) -> str:
    """Title, summary and description of a row, those that it has, parted so that no word reaches from one into another."""
    parts = [title_of(row), *(part for field in TEXTS for part in _strings(row.get(field)))]
    return " | ".join(part for part in parts if part.strip())


def values_of(row: Mapping[str, Any], column: str) -> list[str]:
    """The values of a row's column, in lower case: none, one, or several, a list or apart by |."""
    values = (" ".join(part.lower().split()) for value in _strings(row.get(column)) for part in value.split("|"))
    return [value for value in values if value not in NO_VALUE]


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [str(one) for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
