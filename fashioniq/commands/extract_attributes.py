"""Find attribute words in the product texts of a catalog, and write them as labels."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name
from fashioniq.config import ExtractAttributes
from fashioniq.data.attributes import OWN_WORDS, TYPES, Vocabulary, add_word, find_attributes, squeezed
from fashioniq.data.catalog import LABEL_FOLDERS, LONGEST_TITLE, SPLITS, Catalog
from fashioniq.data.titles import product_rows, text_of, values_of
from fashioniq.data.vocabularies import read_vocabulary, type_number
from fashioniq.files import UserError, atomic_write
from fashioniq.report.tables import print_table

Labels = dict[str, list[list[str]]]
Column = tuple[int, str]  # number of the list for its values, and its name

_EXAMPLES = 8


def run(settings: ExtractAttributes) -> None:
    """Label the products of all splits, or compare the words found with existing labels."""
    catalog = Catalog(settings.data, settings.category)
    vocabulary = read_vocabulary(settings.vocabulary) if settings.vocabulary else OWN_WORDS
    columns = [_column(text) for text in settings.column]
    if not settings.compare and not settings.replace:
        _refuse_to_replace(catalog)
    rows = {split: product_rows(catalog, split) for split in SPLITS}
    _check_columns(columns, rows)
    print(f"{catalog.category}: {len(vocabulary.lists_of):,} words of {vocabulary.source}")
    long = sum(
        len(str(row.get("title"))) > LONGEST_TITLE
        for split_rows in rows.values()
        for row in split_rows.values()
    )
    if long:
        print(
            f"  skipped: {long} titles of more than {LONGEST_TITLE:,} characters, which are not real titles"
        )
    labels = {split: _label(split_rows, vocabulary, columns) for split, split_rows in rows.items()}
    if settings.compare:
        _compare(catalog, {name: lists for found in labels.values() for name, lists in found.items()})
    else:
        _write(catalog, labels)
        _print_counts(catalog, labels, vocabulary)


def _column(text: str) -> Column:
    kind, equals, name = (part.strip() for part in text.partition("="))
    number = type_number(kind)
    if not equals or not name or number is None:
        raise UserError(
            f"--column: expected TYPE=COLUMN such as texture=baseColour, with a type of {', '.join(TYPES)}, "
            f"found {text!r}"
        )
    return number, name


def _check_columns(columns: Sequence[Column], rows: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    known = dict.fromkeys(name for split_rows in rows.values() for row in split_rows.values() for name in row)
    for _, column in columns:
        if column not in known:
            raise UserError(
                f"no product has a column {column!r} in titles/: found {', '.join(known) or 'no products'}"
            )


def _refuse_to_replace(catalog: Catalog) -> None:
    for split in SPLITS:
        for folder in LABEL_FOLDERS:
            path = catalog.root / folder / _file(catalog, split).name
            if path.exists():
                raise UserError(
                    f"{path} exists: use --replace to replace the labels of {catalog.category}, "
                    "or --compare to measure against them"
                )


def _file(catalog: Catalog, split: str) -> Path:
    return catalog.root / "attributes" / f"asin2attr.{file_name(catalog.category)}.{split}.json"


def _label(
    rows: Mapping[str, Mapping[str, Any]], vocabulary: Vocabulary, columns: Sequence[Column]
) -> Labels:
    """Words of every product with text or values.

    A value that is a form of a word of its type becomes that word.
    """
    labels: Labels = {}
    for name, row in rows.items():
        text, values = (
            text_of(row),
            [(kind, value) for kind, column in columns for value in values_of(row, column)],
        )
        if text or values:
            labels[name] = find_attributes(text, vocabulary)
            for kind, value in values:
                word = vocabulary.forms.get(value) or vocabulary.forms.get(squeezed(value), value)
                add_word(labels[name], kind, word if kind in vocabulary.lists_of.get(word, ()) else value)
    return labels


def _write(catalog: Catalog, labels: Mapping[str, Labels]) -> None:
    """Write the labels of all splits; no file is moved into place before all are written."""
    with ExitStack() as files:
        temporary = {split: files.enter_context(atomic_write(_file(catalog, split))) for split in labels}
        for split, path in temporary.items():
            path.write_text(json.dumps(labels[split], ensure_ascii=False) + "\n", encoding="utf-8")


def _print_counts(catalog: Catalog, labels: Mapping[str, Labels], vocabulary: Vocabulary) -> None:
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
    print_table(
        ["split", "products", "with text", "with words", "without", "words each", "words never found"], rows
    )
    never = len(vocabulary.lists_of.keys() - every)
    print(
        f"{never:,} of {len(vocabulary.lists_of):,} words were not found in any split; "
        f"labels are in {_file(catalog, '*')}"
    )


def _compare(catalog: Catalog, found: Labels) -> None:
    """Print precision, recall and F1 of the words found, over the products with both text and labels."""
    both = [name for name in found if name in catalog.labels]
    if not both:
        raise UserError(
            f"{catalog.root} has no labels of {catalog.category} to compare with: "
            f"expected {_file(catalog, 'train')}"
        )
    print(
        f"{len(both):,} products with text and labels; "
        f"{len(catalog.labels) - len(both):,} with labels only are not compared"
    )
    rows = []
    extra: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    total = [0, 0, 0]
    for kind_name, kind in TYPES.items():
        counts = [0, 0, 0]
        for name in both:
            ours, theirs = set(found[name][kind]), set(catalog.labels[name][kind])
            counts = [
                before + len(words)
                for before, words in zip(counts, (theirs, ours, ours & theirs), strict=True)
            ]
            extra.update(ours - theirs)
            missed.update(theirs - ours)
        total = [before + count for before, count in zip(total, counts, strict=True)]
        rows.append(_found_row(kind_name, *counts))
    rows.append(_found_row("all", *total))
    print_table(["type", "labelled", "found", "both", "precision", "recall", "F1"], rows)
    for what, words in (("found, not labelled", extra), ("labelled, not found", missed)):
        examples = ", ".join(f"{word} {count:,}" for word, count in words.most_common(_EXAMPLES))
        print(f"most often {what}: {examples or 'none'}")


def _found_row(name: str, labelled: int, found: int, both: int) -> list[str]:
    precision, recall, f1 = (
        100 * part / max(of, 1)
        for part, of in ((both, found), (both, labelled), (2 * both, found + labelled))
    )
    return [
        name,
        *(f"{count:,}" for count in (labelled, found, both)),
        *(f"{share:.1f}" for share in (precision, recall, f1)),
    ]
