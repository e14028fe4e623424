"""Captions generated from labels: pairs of similar products, and how their labels differ."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.differences import can_tell_apart, describe_difference
from fashioniq.data.languages import Language, language
from fashioniq.data.words import composed
from fashioniq.files import write_json
from fashioniq.prepare.pairing import reference_pairs

CAPTIONS = "made from attribute differences"
NO_CAPTIONS = "none: no label tells two products apart"
Rows = dict[str, list[dict[str, Any]]]  # of captions/, by split

_NEAREST = 10  # nearest titles that are searched for a reference with other labels


@dataclass(frozen=True)
class LabeledProduct:
    """What captions are generated from: the id, the title and the labels of a product."""

    id: str
    title: str
    labels: list[list[str]]


def captioned_pairs(splits: Mapping[str, Sequence[LabeledProduct]], seed: int, speech: Language) -> Rows:
    """A pair with each product as target, and two captions; pairs without a difference are left out.

    Test pairs have no target, as in the release.
    """
    return {
        split: [
            _captioned(target, reference, split, seed, speech)
            for target, reference in zip(products, _references(products, speech), strict=True)
            if can_tell_apart(reference.labels, target.labels, speech)
        ]
        for split, products in splits.items()
    }


def is_generated(catalog: Catalog) -> bool:
    """Whether the category was imported, and its captions are those of the import or of `renew_captions`."""
    return catalog.imported.get("fingerprint") == catalog.fingerprint()


def renew_captions(catalog: Catalog, labels: Mapping[str, Mapping[str, list[list[str]]]]) -> tuple[int, int]:
    """Generate the captions of an imported category from new labels; return the numbers of captions and pairs.

    Raises UserError if they cannot be written.
    """
    splits = {
        split: [
            LabeledProduct(name, catalog.titles.get(name, ""), labels[split].get(name, [[]] * 6))
            for name in catalog.ids(split)
        ]
        for split in SPLITS
    }
    rows = captioned_pairs(splits, catalog.imported["seed"], language(catalog.language))
    differing = sum(map(len, rows.values()))
    for split in SPLITS:
        path = catalog.root / "captions" / f"cap.{file_name(catalog.category)}.{split}.json"
        if differing:
            write_json(path, rows[split])
        else:
            path.unlink(missing_ok=True)
    renewed = {"differing_pairs": differing, "fingerprint": catalog.fingerprint()}
    categories = catalog.about["categories"] | {catalog.category: catalog.imported | renewed}
    write_json(
        catalog.root / "catalog.json",
        catalog.about | {"captions": origin_of(categories), "categories": categories},
    )
    return differing, sum(map(len, splits.values()))


def origin_of(categories: Mapping[str, Mapping[str, Any]]) -> str:
    """Origin of the captions in catalog.json, for the categories that it describes."""
    return CAPTIONS if any(about.get("differing_pairs", 1) for about in categories.values()) else NO_CAPTIONS


def _captioned(
    target: LabeledProduct, reference: LabeledProduct, split: str, seed: int, speech: Language
) -> dict[str, Any]:
    own = number_of(json.dumps([seed, reference.id, target.id]))
    captions = describe_difference(reference.labels, target.labels, own, speech)
    names = (
        {"candidate": reference.id} if split == "test" else {"target": target.id, "candidate": reference.id}
    )
    return {**names, "captions": list(captions)}


def _references(products: Sequence[LabeledProduct], speech: Language) -> list[LabeledProduct]:
    """Reference of each product: by TF-IDF, the nearest title with different labels.

    If no title shares a word, the next products in the split are searched. If no labels differ, it is the
    first of those searched.
    """
    near = reference_pairs([product.title for product in products], _NEAREST).tolist()
    references = []
    for own, (product, positions) in enumerate(zip(products, near, strict=True)):
        found = [position for position in positions if position >= 0]
        found = found or [(own + step) % len(products) for step in range(1, _NEAREST + 1)]
        others = [products[position] for position in found]
        apart = (other for other in others if can_tell_apart(other.labels, product.labels, speech))
        references.append(next(apart, others[0]))
    return references


def number_of(text: str) -> int:
    """64-bit hash of a text, in any Unicode form."""
    return int.from_bytes(hashlib.sha256(composed(text).encode()).digest()[:8], "big")
