"""Attribute vocabularies from a file: DeepFashion's word list, or a CSV."""

import csv
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from fashioniq.data.attributes import GARMENT, GROUPS, OWN_WORDS, STYLE, TEXTURE, AttributeVocabulary
from fashioniq.data.deepfashion import word_rows
from fashioniq.data.languages import TYPES, squeezed
from fashioniq.files import UserError, read_text, why

_ALIASES = {"colour": TEXTURE, "color": TEXTURE, "print": TEXTURE}


class VocabularyEntry(NamedTuple):
    """A word, the number of its list, and its synonyms."""

    kind: int
    word: str
    synonyms: Sequence[str] = ()


def type_number(name: str) -> int | None:
    """Number of the list for an attribute type, or None for an unknown type.

    Colour and print are textures.
    """
    name = name.strip().lower()
    return TYPES.get(name, _ALIASES.get(name))


def read_vocabulary(path: Path) -> AttributeVocabulary:
    """Read DeepFashion's list_attr_cloth.txt, or a CSV with the columns word, type and synonyms.

    The format is detected from the first line, which is a number in DeepFashion's list.

    Raises UserError if the file is missing or malformed; the message names the line.
    """
    text = read_text(
        path,
        "vocabulary",
        "give DeepFashion's list_attr_cloth.txt, or a CSV with the columns word,type,synonyms",
    )
    if text.partition("\n")[0].strip().isdecimal():
        return _read_deepfashion(path)
    return _vocabulary(path.name, _csv_entries(path, text), nested=False)


def _read_deepfashion(path: Path) -> AttributeVocabulary:
    """Vocabulary from DeepFashion's words, nested as in the released labels.

    Garment words come from list_category_cloth.txt in the same folder, or from this package if there is none.
    """
    attributes = [
        VocabularyEntry(kind, word) for word, kind in word_rows(path, range(TEXTURE, STYLE + 1)).items()
    ]
    beside = path.with_name(path.name.replace("list_attr", "list_category"))
    if beside != path and beside.is_file():
        garments = [VocabularyEntry(GARMENT, word) for word in word_rows(beside, range(1, 4))]
        return _vocabulary(f"{path.name} and {beside.name}", [*garments, *attributes], nested=True)
    garments = [
        VocabularyEntry(GARMENT, word, synonyms)
        for group in GROUPS
        if group.kind == GARMENT
        for word, *synonyms in group.forms
    ]
    return _vocabulary(
        f"{path.name}, garment words of {OWN_WORDS.source}", [*garments, *attributes], nested=True
    )


def _csv_entries(path: Path, text: str) -> list[VocabularyEntry]:
    reader = csv.DictReader(StringIO(text, newline=""), strict=True)
    entries: list[VocabularyEntry] = []
    meaning: dict[str, tuple[str, int, int]] = {}  # word, list and line of each form
    try:
        names = reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or []]
        if "word" not in names or "type" not in names:
            found = ",".join(names)[:80] or "an empty file"
            raise UserError(f"{path}, line 1: expected the columns word,type,synonyms, found {found}")
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            entry = _csv_entry(row, where)
            entries.append(entry)
            for form in (entry.word, *entry.synonyms):
                word, kind, line = meaning.setdefault(form, (entry.word, entry.kind, reader.line_num))
                if line != reader.line_num and (word != entry.word or kind == entry.kind):
                    raise UserError(
                        f"{where}: {form!r} already means {word!r} in line {line}: give each form one meaning"
                    )
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num + 1}: {why(error)}") from error
    if not entries:
        raise UserError(
            f"{path} has no word below its header: expected lines such as navy blue,colour,navy|marine"
        )
    return entries


def _csv_entry(row: dict[str, str | None], where: str) -> VocabularyEntry:
    if None in row or any(value is None and name != "synonyms" for name, value in row.items()):
        raise UserError(
            f"{where}: expected as many fields as in the header; "
            "quote values with commas and separate synonyms by |"
        )
    word, kind = _normal(row["word"] or ""), type_number(row["type"] or "")
    synonyms = tuple(
        form for part in (row.get("synonyms") or "").replace(";", "|").split("|") if (form := _normal(part))
    )
    if not all(squeezed(form) for form in (word, *synonyms)):
        raise UserError(f"{where}: expected a word of letters or digits, found {row['word']!r}")
    if kind is None:
        raise UserError(
            f"{where}: expected a type, one of {', '.join([*TYPES, *_ALIASES])}, found {row['type']!r}"
        )
    return VocabularyEntry(kind, word, synonyms)


def _vocabulary(source: str, entries: Sequence[VocabularyEntry], nested: bool) -> AttributeVocabulary:
    """Vocabulary of the entries. Written forms take precedence over plurals, and both over squeezed forms."""
    lists_of: dict[str, tuple[int, ...]] = {}
    for entry in entries:
        lists_of[entry.word] = (*lists_of.get(entry.word, ()), entry.kind)
    written = [(form, entry.word) for entry in entries for form in (entry.word, *entry.synonyms)]
    forms: dict[str, str] = {}
    for shape in (lambda form: form, _plural, squeezed, lambda form: squeezed(_plural(form))):
        for form, word in written:
            forms.setdefault(shape(form), word)
    longest = max(len(form.replace("-", " ").split()) for form, _ in written)
    return AttributeVocabulary(source, lists_of, forms, max(longest, OWN_WORDS.longest), nested)


def _plural(form: str) -> str:
    if form.endswith(("s", "x", "z", "ch", "sh")):
        return form + "es"
    return form[:-1] + "ies" if form.endswith("y") and form[-2:-1] not in tuple("aeiou") else form + "s"


def _normal(form: str) -> str:
    return " ".join(form.lower().split())
