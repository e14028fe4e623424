"""Files of a category in Fashion IQ's layout: splits, labels, titles, captioned pairs, pictures."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS
from fashioniq.data.differences import can_tell_apart, describe_difference
from fashioniq.files import UserError, write_json
from fashioniq.prepare.listings import Listing
from fashioniq.prepare.pairing import reference_pairs

_NEAREST = 10  # nearest titles that are searched for a reference with other labels
_TRAIN, _TRAIN_AND_VAL = 0.6, 0.8


def divide(products: Sequence[Listing], seed: int) -> dict[str, list[Listing]]:
    """Divide products into splits.

    The split of a product depends only on its group and the seed, so that products added later do not move
    others. Raises UserError if a split has too few products for a pair.
    """
    splits: dict[str, list[Listing]] = {split: [] for split in SPLITS}
    for product in products:
        share = _number(f"{seed}:{product.group}") / 2**64
        splits[SPLITS[(share >= _TRAIN) + (share >= _TRAIN_AND_VAL)]].append(product)
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
) -> int:
    """Write the files of a category; return the number of pairs with captions.

    A pair whose labels do not differ has no difference to describe and is left out. Without any other pair,
    there are no files of captions.
    """
    name = file_name(category)
    pairs = {
        split: [
            (target, reference)
            for target, reference in zip(products, _references(products), strict=True)
            if can_tell_apart(reference.labels, target.labels)
        ]
        for split, products in splits.items()
    }
    differing = sum(map(len, pairs.values()))
    for split, products in splits.items():
        titles = {product.id: {**product.values, "title": product.title} for product in products}
        write_json(
            folder / "image_splits" / f"split.{name}.{split}.json", [product.id for product in products]
        )
        write_json(
            folder / "attributes" / f"asin2attr.{name}.{split}.json",
            {product.id: product.labels for product in products},
            indent=None,
        )
        write_json(folder / "titles" / f"{name}.{split}.json", titles)
        if differing:
            captioned = [_captioned(target, reference, split, seed) for target, reference in pairs[split]]
            write_json(folder / "captions" / f"cap.{name}.{split}.json", captioned)
    destination = folder / "images" / name
    destination.mkdir(parents=True)
    for id, picture in pictures.items():
        _link_or_copy(picture.resolve(), destination / (id + picture.suffix.lower()))
    return differing


def _captioned(target: Listing, reference: Listing, split: str, seed: int) -> dict[str, Any]:
    captions = describe_difference(
        reference.labels, target.labels, _number(json.dumps([seed, reference.id, target.id]))
    )
    names = (
        {"candidate": reference.id} if split == "test" else {"target": target.id, "candidate": reference.id}
    )
    return {**names, "captions": list(captions)}


def _references(products: Sequence[Listing]) -> list[Listing]:
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
        references.append(
            next((other for other in others if can_tell_apart(other.labels, product.labels)), others[0])
        )
    return references


def _link_or_copy(picture: Path, destination: Path) -> None:
    try:
        os.link(picture, destination)
    except OSError:  # another file system, no hard links, or too many of them
        shutil.copyfile(picture, destination)


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
