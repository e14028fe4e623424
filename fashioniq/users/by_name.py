"""Users of an evaluation besides captioners: label differences, the drawn sample's grammar, recorded captions."""

from collections.abc import Sequence
from typing import Any

from fashioniq.data.catalog import Catalog
from fashioniq.data.languages import language
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import pairs_with_targets
from fashioniq.files import UserError
from fashioniq.sample import garments_of
from fashioniq.users.describing import DescribingUser, DifferenceDescriber
from fashioniq.users.differences import LabelSpeaker
from fashioniq.users.grammar import GarmentSpeaker


def describing_user(
    name: str, catalog: Catalog, ids: Sequence[str], vocabulary: Vocabulary, max_words: int, seed: int
) -> tuple[DescribingUser, dict[str, Any]]:
    """The user "differences" or "grammar" of these products, and its facts; its replies have at most `max_words`.

    Raises UserError if the catalog has no labels, or is not a drawn sample.
    """
    speaker, facts = _differences(catalog, ids) if name == "differences" else _grammar(catalog, ids)
    return DescribingUser(speaker, vocabulary, max_words, seed), facts | {"decoding": "none"}


def users_of_catalog(catalog: Catalog, split: str) -> list[str]:
    """Those of "differences", "grammar" and "human" for which the catalog has data."""
    users = ["differences"] if any(any(catalog.labels.get(name, ())) for name in catalog.ids(split)) else []
    needed = {
        "grammar": lambda: garments_of(catalog),
        "human": lambda: pairs_with_targets(catalog, split),
    }
    for name, read in needed.items():
        try:
            read()
            users.append(name)
        except UserError:
            pass
    return users


def _differences(catalog: Catalog, ids: Sequence[str]) -> tuple[DifferenceDescriber, dict[str, Any]]:
    labels = catalog.labels
    if not (labelled := sum(any(labels.get(name, ())) for name in ids)):
        raise UserError(
            f"--user differences needs attribute labels, found none of these products in {catalog.root}; "
            "make them with `fashioniq extract-attributes`, or give another --user"
        )
    facts = {
        "user": "differences",
        "captions": "differences of attribute labels",
        "labelled": labelled / len(ids),
    }
    return LabelSpeaker([labels.get(name, []) for name in ids], language(catalog.language)), facts


def _grammar(catalog: Catalog, ids: Sequence[str]) -> tuple[DifferenceDescriber, dict[str, Any]]:
    try:
        garments = garments_of(catalog)
    except UserError as error:
        raise UserError(f"--user grammar: {error}") from error
    facts = {"user": "grammar", "captions": catalog.captions_origin}
    return GarmentSpeaker([garments[name] for name in ids]), facts
