"""Files of a category in Fashion IQ's layout: splits, labels, titles, captioned pairs, pictures.

Captions are generated from labels: pairs of similar products, and how their labels differ.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import split_file, write_split
from fashioniq.data.differences import can_tell_apart, describe_difference
from fashioniq.data.languages import Language, language
from fashioniq.data.offers import Offer, offers_file, unread_file, write_offers
from fashioniq.data.words import composed
from fashioniq.files import UserError, write_json
from fashioniq.prepare.pairing import reference_pairs
from fashioniq.prepare.retailer_products import Listing

_TRAIN, _TRAIN_AND_VAL = 0.6, 0.8
CAPTIONS = "made from attribute differences"
NO_CAPTIONS = "none: no label tells two products apart"
Rows = dict[str, list[dict[str, Any]]]  # of captions/, by split

_NEAREST = 10  # nearest titles that are searched for a reference with other labels


def divide(products: Sequence[Listing], seed: int, earlier: Mapping[str, str]) -> dict[str, list[Listing]]:
    """Divide products into splits.

    Products of an `earlier` import keep their splits, by id. That of another one is the split of an earlier product
    of its group, or depends only on its group and the seed. Raises UserError if a split has too few products for a
    pair.
    """
    of_group = {product.group: earlier[product.id] for product in products if product.id in earlier}
    splits: dict[str, list[Listing]] = {split: [] for split in SPLITS}
    for product in products:
        share = number_of(f"{seed}:{product.group}") / 2**64
        drawn = SPLITS[(share >= _TRAIN) + (share >= _TRAIN_AND_VAL)]
        splits[earlier.get(product.id) or of_group.get(product.group, drawn)].append(product)
    for split, members in splits.items():
        if len(members) < 2:
            raise UserError(
                f"expected at least 2 products in the {split} split, found {len(members)}: "
                "add products, or use another --seed"
            )
    return splits


def write_category(
    folder: Path,
    category: str,
    splits: Mapping[str, Sequence[Listing]],
    pictures: Mapping[str, Path],
    seed: int,
    speech: Language,
) -> int:
    """Write the files of a category; return the number of pairs with captions.

    A pair whose labels do not differ has no difference to describe and is left out. Without any other pair,
    there are no files of captions.
    """
    pairs = captioned_pairs(splits, seed, speech)
    differing = sum(map(len, pairs.values()))
    for split, products in splits.items():
        write_split(
            folder,
            category,
            split,
            labels={product.id: product.labels for product in products},
            titles={product.id: {**product.values, "title": product.title} for product in products},
            pairs=pairs[split] if differing else None,
        )
    offers = {
        product.id: product.offer
        for products in splits.values()
        for product in products
        if product.offer != Offer()
    }
    if offers:
        write_offers(offers_file(folder, category), offers)
    unread = [
        {**product.place, "id": product.id, "reason": reason}
        for products in splits.values()
        for product in products
        for reason in product.unread
    ]
    if unread:
        write_json(unread_file(folder, category), unread)
    destination = folder / "images" / file_name(category)
    destination.mkdir(parents=True)
    for id, picture in pictures.items():
        _link_or_copy(picture.resolve(), destination / (id + picture.suffix.lower()))
    return differing


def _link_or_copy(picture: Path, destination: Path) -> None:
    try:
        os.link(picture, destination)
    except OSError:  # another file system, no hard links, or too many of them
        shutil.copyfile(picture, destination)


def captioned_pairs(splits: Mapping[str, Sequence[Listing]], seed: int, speech: Language) -> Rows:
    """A pair with each product as target, and two captions; pairs without a difference are left out.

    Test pairs have no target, as in the release.
    """
    return {split: list(_captioned(products, split, seed, speech)) for split, products in splits.items()}


def is_generated(catalog: Catalog) -> bool:
    """Whether the category was imported, and its captions are those of the import or of `renew_captions`."""
    return catalog.imported.get("fingerprint") == catalog.fingerprint()


def renew_captions(catalog: Catalog, labels: Mapping[str, Mapping[str, list[list[str]]]]) -> tuple[int, int]:
    """Generate the captions of an imported category from new labels; return the numbers of captions and pairs.

    Raises UserError if they cannot be written.
    """
    splits = {
        split: [
            Listing({}, name, title=catalog.titles.get(name, ""), labels=labels[split].get(name, [[]] * 6))
            for name in catalog.ids(split)
        ]
        for split in SPLITS
    }
    rows = captioned_pairs(splits, catalog.imported["seed"], language(catalog.language))
    differing = sum(map(len, rows.values()))
    for split in SPLITS:
        path = split_file(catalog.root, "captions", catalog.category, split)
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
    products: Sequence[Listing], split: str, seed: int, speech: Language
) -> Iterator[dict[str, Any]]:
    """Captioned pairs of a split. The reference is, by TF-IDF, the nearest title with different labels.

    If no title shares a word, the next products in the split are searched.
    """
    near = reference_pairs([product.title for product in products], _NEAREST).tolist()
    for own, (target, positions) in enumerate(zip(products, near, strict=True)):
        found = [position for position in positions if position >= 0]
        found = found or [(own + step) % len(products) for step in range(1, _NEAREST + 1)]
        others = (products[position] for position in found)
        apart = (other for other in others if can_tell_apart(other.labels, target.labels, speech))
        if reference := next(apart, None):
            number = number_of(json.dumps([seed, reference.id, target.id]))
            captions = describe_difference(reference.labels, target.labels, number, speech)
            shown = {} if split == "test" else {"target": target.id}
            yield {**shown, "candidate": reference.id, "captions": list(captions)}


def number_of(text: str) -> int:
    """64-bit hash of a text, in any Unicode form."""
    return int.from_bytes(hashlib.sha256(composed(text).encode()).digest()[:8], "big")
