"""Labels of a catalog: attribute words found in the product texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from fashioniq.data.attributes import TYPES, AttributeVocabulary, add_word, find_attributes, word_of_type
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import LABEL_FOLDERS, split_file
from fashioniq.data.titles import product_rows, text_of, values_of
from fashioniq.data.vocabularies import type_number
from fashioniq.files import UserError, together, write_json

Labels = dict[str, list[list[str]]]  # by product: a list of words for each type
Column = tuple[int, str]  # number of the list for its values, and its name


def parse_column(text: str, option: str = "--column") -> Column:
    """Column of a value of an option. Raises UserError unless it is TYPE=COLUMN."""
    kind, equals, name = (part.strip() for part in text.partition("="))
    number = type_number(kind)
    if not equals or not name or number is None:
        raise UserError(
            f"{option}: expected TYPE=COLUMN such as texture=baseColour, with a type of {', '.join(TYPES)}, "
            f"found {text!r}"
        )
    return number, name


def read_rows(catalog: Catalog, columns: Sequence[Column]) -> dict[str, dict[str, dict[str, Any]]]:
    """Rows of titles/ of each split. Raises UserError if a file is missing or no product has a column."""
    rows = {split: product_rows(catalog, split) for split in SPLITS}
    known = dict.fromkeys(name for split_rows in rows.values() for row in split_rows.values() for name in row)
    for _, column in columns:
        if column not in known:
            raise UserError(
                f"no product has a column {column!r} in titles/: found {', '.join(known) or 'no products'}"
            )
    return rows


def refuse_to_replace(catalog: Catalog) -> None:
    """Raise UserError if the category has labels."""
    for split in SPLITS:
        for folder in LABEL_FOLDERS:
            path = split_file(catalog.root, folder, catalog.category, split)
            if path.exists():
                raise UserError(f"{path} exists: use --replace to replace the labels of {catalog.category}")


def label_products(
    rows: Mapping[str, Mapping[str, Any]], vocabulary: AttributeVocabulary, columns: Sequence[Column]
) -> Labels:
    """Words of every product with text or values."""
    labels: Labels = {}
    for name, row in rows.items():
        text, values = (
            text_of(row),
            [(kind, value) for kind, column in columns for value in values_of(row, column)],
        )
        if text or values:
            labels[name] = find_attributes(text, vocabulary)
            for kind, value in values:
                add_word(labels[name], kind, word_of_type(value, kind, vocabulary))
    return labels


def write_labels(catalog: Catalog, labels: Mapping[str, Labels]) -> None:
    """Write the labels of all splits; no file is moved into place before all are written.

    Raises UserError if one cannot be written.
    """
    with together(catalog.root):
        for split, found in labels.items():
            path = split_file(catalog.root, "attributes", catalog.category, split)
            write_json(path, found, indent=None)


def count_rows(
    catalog: Catalog, labels: Mapping[str, Labels], vocabulary: AttributeVocabulary
) -> tuple[list[list[str]], int]:
    """Table of the words found in each split, and the number of words that were found in none."""
    rows: list[list[str]] = []
    every: set[str] = set()
    for split, found in labels.items():
        counts = [sum(map(len, lists)) for lists in found.values()]
        seen = {word for lists in found.values() for words in lists for word in words}
        every |= seen
        having = sum(count > 0 for count in counts)
        each = sum(counts) / max(len(counts), 1)
        never = len(vocabulary.lists_of.keys() - seen)
        counted = [
            f"{count:,}" for count in (len(catalog.ids(split)), len(found), having, len(found) - having)
        ]
        rows.append([split, *counted, f"{each:.1f}", f"{never:,}"])
    return rows, len(vocabulary.lists_of.keys() - every)
