"""Users of an evaluation besides captioners: label differences, the drawn sample's grammar, recorded captions."""

from typing import Any

from fashioniq.data.catalog import Catalog
from fashioniq.data.languages import language
from fashioniq.features.selection import pairs_with_targets
from fashioniq.files import UserError
from fashioniq.sample import garments_of
from fashioniq.systems.parts import EvaluationInputs
from fashioniq.users.describing import DescribingUser, DifferenceDescriber
from fashioniq.users.differences import LabelSpeaker
from fashioniq.users.grammar import GarmentSpeaker


def describing_user(
    name: str, parts: EvaluationInputs, seed: int
) -> tuple[DescribingUser, dict[str, Any], int]:
    """The user "differences" or "grammar", its facts, and the length of its replies in words.

    Raises UserError if the catalog has no labels, or is not a drawn sample.
    """
    speaker, facts = _differences(parts) if name == "differences" else _grammar(parts)
    max_words = parts.retriever.max_words
    facts |= {"decoding": "none"}
    return DescribingUser(speaker, parts.vocabulary, max_words, seed), facts, max_words


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


def _differences(parts: EvaluationInputs) -> tuple[DifferenceDescriber, dict[str, Any]]:
    labels, ids = parts.catalog.labels, parts.items.ids
    if not (labelled := sum(any(labels.get(name, ())) for name in ids)):
        raise UserError(
            f"--user differences needs attribute labels, found none of these products in {parts.catalog.root}; "
            "make them with `fashioniq extract-attributes`, or give another --user"
        )
    facts = {
        "user": "differences",
        "captions": "differences of attribute labels",
        "labelled": labelled / len(ids),
    }
    return LabelSpeaker([labels.get(name, []) for name in ids], language(parts.catalog.language)), facts


def _grammar(parts: EvaluationInputs) -> tuple[DifferenceDescriber, dict[str, Any]]:
    try:
        garments = garments_of(parts.catalog)
    except UserError as error:
        raise UserError(f"--user grammar: {error}") from error
    facts = {"user": "grammar", "captions": parts.catalog.captions_origin}
    return GarmentSpeaker([garments[name] for name in parts.items.ids]), facts
