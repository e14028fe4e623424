"""Product texts in a Fashion IQ folder: the rows of titles/<category>.<split>.json."""

import re
from collections.abc import Mapping
from typing import Any

from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import split_file, title_of
from fashioniq.files import UserError, read_json

TEXTS = ("summary", "description")  # columns used in addition to the title
NO_VALUE = {"", "na", "n/a", "none", "null", "nan", "-"}
_BETWEEN_VALUES = re.compile(r"[|;]|,(?=\s)")  # "red, blue" are two values, "2,5 cm" is one


def product_rows(catalog: Catalog, split: str) -> dict[str, dict[str, Any]]:
    """Rows of the products of a split, in the order of the split.

    Raises UserError if the file is missing or malformed.
    """
    path = split_file(catalog.root, "titles", catalog.category, split)
    rows = read_json(path, f"the {split} titles of {catalog.category}", dict)
    for name, row in rows.items():
        if not isinstance(row, dict):
            raise UserError(f'{path}: expected {{"title": …}} for {name}, found a {type(row).__name__}')
    return {name: rows[name] for name in catalog.ids(split) if name in rows}


def text_of(row: Mapping[str, Any]) -> str:
    """Title, summary and description of a row, joined by " | " so that no match spans two of them."""
    parts = [title_of(row), *(part for field in TEXTS for part in _strings(row.get(field)))]
    return " | ".join(part for part in parts if part.strip())


def values_of(row: Mapping[str, Any], column: str) -> list[str]:
    """Values in a column of a row, in lower case. Several are a list, or separated by |, semicolons or commas."""
    values = (
        " ".join(part.lower().split())
        for value in _strings(row.get(column))
        for part in _BETWEEN_VALUES.split(value)
    )
    return [value for value in values if value not in NO_VALUE]


def _strings(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [str(one) for one in values if isinstance(one, str | int | float) and not isinstance(one, bool)]
