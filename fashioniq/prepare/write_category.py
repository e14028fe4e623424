"""Files of a category in Fashion IQ's layout: splits, labels, titles, captioned pairs, pictures."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fashioniq.categories import file_name
from fashioniq.data.catalog import SPLITS
from fashioniq.data.catalog_files import write_split
from fashioniq.data.languages import Language
from fashioniq.data.offers import Offer, offers_file, unread_file, write_offers
from fashioniq.files import UserError, write_json
from fashioniq.prepare.captions import captioned_pairs, number_of
from fashioniq.prepare.retailer_products import Listing

_TRAIN, _TRAIN_AND_VAL = 0.6, 0.8


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
