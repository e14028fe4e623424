"""Drawn sample: a Fashion IQ folder of drawn garments with offers, to try every command without a download."""

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fashioniq.categories import FILE_NAMES, canonical
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import split_file, write_split
from fashioniq.data.dialogues import Dialogue, write_dialogues
from fashioniq.data.offers import Offer, offers_file, write_offers
from fashioniq.files import UserError, read_json, write_json, writing
from fashioniq.prepare.pairing import reference_pairs
from fashioniq.sample.drawing import draw_garment
from fashioniq.sample.garments import Garment, random_garment
from fashioniq.sample.grammar import two_captions
from fashioniq.sample.labels import labels_of, title_of
from fashioniq.sample.offers import offer_of
from fashioniq.sample.questions import question_dialog

SIZE = 96  # pixels of pictures per side; buttons and pockets are invisible in smaller ones
LEAST_PRODUCTS = 30
MADE_BY = "fashioniq draw-sample"

# 60/20/20; every product has the same split in samples of any size
_ROUND = ("train", "train", "train", "val", "test")
# including derived folders
_FOLDERS = (
    "image_splits",
    "captions",
    "attributes",
    "titles",
    "offers",
    "images",
    "dialogues",
    "features",
    "pairs",
)
_UNFINISHED = ".draw-sample-unfinished"  # left by a killed run, so that the next one may replace the folder


def draw_sample(
    root: Path,
    products: int = 1200,
    seed: int = 0,
    categories: Sequence[str] = ("dresses", "shirts", "tops"),
) -> None:
    """Write a Fashion IQ folder of drawn garments: `products` per category, pictures of 96×96 pixels.

    The sample is determined by the seed. A larger sample starts with the garments of a smaller one. An
    existing sample in `root` is replaced. Raises UserError if an argument is invalid, or if `root` contains
    anything else or cannot be written.
    """
    root = Path(root)
    wanted = _checked(products, categories)
    with writing(root):
        _make_room(root)
        try:
            for category in wanted:
                _write_category(root, category, products, seed)
            origin = {"made_by": MADE_BY, "pictures": "drawn", "captions": "drawn sample's grammar"}
            write_json(root / "catalog.json", {**origin, "seed": seed, "products": products, "size": SIZE})
            (root / _UNFINISHED).unlink()
        except (OSError, UserError):
            with suppress(OSError):  # leave nothing half-written on a full disk
                _clear(root)
                (root / _UNFINISHED).unlink(missing_ok=True)
            raise


def _checked(products: int, categories: Sequence[str]) -> list[str]:
    if products < LEAST_PRODUCTS:
        raise UserError(f"expected at least {LEAST_PRODUCTS} products for three splits, found {products}")
    wanted = list(dict.fromkeys(canonical(name) for name in categories))
    if not wanted or any(name not in FILE_NAMES for name in wanted):
        raise UserError(
            f"cannot draw {', '.join(wanted) or 'no category'}: choose from {', '.join(FILE_NAMES)}"
        )
    return wanted


def _make_room(root: Path) -> None:
    """Create an empty folder marked as unfinished.

    Raises UserError if it contains anything but a drawn sample.
    """
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is a file: give a folder for the sample")
    if root.is_dir() and any(root.iterdir()) and not _is_sample(root):
        raise UserError(f"{root} contains something other than a drawn sample: give an empty or new folder")
    root.mkdir(parents=True, exist_ok=True)
    (root / _UNFINISHED).touch()
    _clear(root)


def _clear(root: Path) -> None:
    """Remove the files of a sample."""
    for name in ("catalog.json", "coverage.json"):
        (root / name).unlink(missing_ok=True)
    for folder in _FOLDERS:
        if (root / folder).exists():
            shutil.rmtree(root / folder)


def _is_sample(root: Path) -> bool:
    if (root / _UNFINISHED).exists():
        return True
    about = root / "catalog.json"
    return about.exists() and read_json(about, "the catalog's description", dict).get("made_by") == MADE_BY


def _write_category(root: Path, category: str, products: int, seed: int) -> None:
    """Write the pictures of a category, then the other files."""
    pictures = root / "images" / FILE_NAMES[category]
    pictures.mkdir(parents=True)
    splits: dict[str, dict[str, Garment]] = {split: {} for split in SPLITS}
    titles: dict[str, str] = {}
    dialogues: dict[str, Dialogue] = {}
    offers: dict[str, Offer] = {}
    for number in range(products):
        name, garment, rng = _garment(category, number, seed)
        splits[_ROUND[number % len(_ROUND)]][name] = garment
        titles[name] = title_of(garment, rng)
        dialogues[name] = Dialogue(
            name, question_dialog(garment, random.Random(f"{seed} {category} {number} dialog"))
        )
        offers[name] = offer_of(name, garment, random.Random(f"{seed} {category} {number} offer"))
        draw_garment(garment, SIZE, rng).save(pictures / f"{name}.jpg", quality=90, subsampling=0)
    write_offers(offers_file(root, category), offers)
    for split, garments in splits.items():
        write_dialogues(
            split_file(root, "dialogues", category, split), [dialogues[name] for name in garments]
        )
        rows = _captioned_pairs(garments, titles, random.Random(f"{seed} {category} {split}"))
        if split == "test":  # test targets are not published, as in the released files
            rows = [{"candidate": row["candidate"], "captions": row["captions"]} for row in rows]
        write_split(
            root,
            category,
            split,
            labels={name: labels_of(garment) for name, garment in garments.items()},
            titles={name: {"title": titles[name]} for name in garments},
            pairs=rows,
        )


def garments_of(catalog: Catalog) -> dict[str, Garment]:
    """Garments of a category of a drawn sample by id, drawn again from its seed.

    Raises UserError if the catalog is not a drawn sample, or if its labels are those of other garments.
    """
    about, root = catalog.about, catalog.root
    if about.get("made_by") != MADE_BY or catalog.category not in FILE_NAMES:
        raise UserError(
            f"expected a drawn sample in {root}, found another catalog; draw one with `{MADE_BY}`"
        )
    named = (_garment(catalog.category, number, about["seed"]) for number in range(about["products"]))
    garments = {name: garment for name, garment, _ in named}
    if any(catalog.labels.get(name) != labels_of(garment) for name, garment in garments.items()):
        raise UserError(
            f"the labels in {root} are not those of the garments of seed {about['seed']}; draw the sample "
            f"again with `{MADE_BY}`"
        )
    return garments


def _garment(category: str, number: int, seed: int) -> tuple[str, Garment, random.Random]:
    """Id and garment of a number, and the random numbers that continue with its title and picture."""
    rng = random.Random(f"{seed} {category} {number}")
    return f"{FILE_NAMES[category][0].upper()}{number:09d}", random_garment(category, rng), rng


def _captioned_pairs(garments: dict[str, Garment], titles: dict[str, str], rng: random.Random) -> list[dict]:
    """Pairs with each product once as the target and the reference nearest by title, shuffled."""
    names = list(garments)
    references = reference_pairs([titles[name] for name in names])
    rows = [
        {
            "target": target,
            "candidate": names[reference],
            "captions": two_captions(garments[target], garments[names[reference]], rng),
        }
        for target, (reference,) in zip(names, references, strict=True)
        if reference >= 0
    ]
    rng.shuffle(rows)
    return rows
