"""Drawn sample: a Fashion IQ folder of drawn garments with offers, to try every command without a download."""

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fashioniq.categories import FILE_NAMES, canonical, singular
from fashioniq.data.attributes import GARMENT, AttributeVocabulary, vocabulary_of
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.dialogues import Dialogue, write_dialogues
from fashioniq.data.offers import Offer, offers_file, write_offers
from fashioniq.files import UserError, read_json, write_json, writing
from fashioniq.prepare.pairing import reference_pairs
from fashioniq.sample.drawing import draw_garment
from fashioniq.sample.garments import COLOURS, DETAILS, Garment, names_of, random_garment
from fashioniq.sample.grammar import COLOUR_WORDS, SLEEVE_ORDER, two_captions
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

_LABELS = {  # DeepFashion's words where they differ from the grammar's
    "navy": "navy blue", "blue": "light blue", "knee": "knee length", "straight": "straight fit",
    "boho": "bohemian", "straps": "spaghetti straps", "short sleeves": "short sleeve",
    "three-quarter sleeves": "three quarter sleeve", "long sleeves": "long sleeve", "round": "round neck",
    "square": "square neck", "half buttons": "half placket",
    "pocket": "pockets", "bell sleeves": "bell sleeve", "trim": "contrast trim",
}  # fmt: skip
_BRANDS = (
    "Marlowe", "Tessa Quill", "Northfold", "Bellweather", "Ivy & Oak", "Calder Row", "Linnea", "Fenwick Lane",
    "Rosalba", "Pepperwood", "Old Harbor", "Juno Street", "Maribel", "Kestrel", "Vantine", "Sunday Loom",
    "Harlan Co.", "Odette", "Plum & Pine", "Westerly",
)  # fmt: skip
_TITLE_SLEEVES = {
    "strapless": "Strapless", "straps": "Spaghetti Strap", "sleeveless": "Sleeveless",
    "short": "Short Sleeve", "three-quarter": "3/4 Sleeve", "long": "Long Sleeve",
}  # fmt: skip
_TITLE_NECKS = {
    "round": "Crew Neck",
    "v-neck": "V-Neck",
    "square": "Square Neck",
    "collar": "Collared",
    "turtleneck": "Turtleneck",
}
_TITLE_FITS = {"fitted": "Fitted", "straight": "Straight", "loose": "Loose Fit", "flared": "Flared"}


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
    file = FILE_NAMES[category]
    pictures = root / "images" / file
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
        write_json(root / "image_splits" / f"split.{file}.{split}.json", list(garments))
        labelled = {name: labels_of(garment) for name, garment in garments.items()}
        write_json(root / "attributes" / f"asin2attr.{file}.{split}.json", labelled, indent=None)
        write_json(
            root / "titles" / f"{file}.{split}.json", {name: {"title": titles[name]} for name in garments}
        )
        write_dialogues(root / "dialogues" / f"{file}.{split}.json", [dialogues[name] for name in garments])
        rows = _captioned_pairs(garments, titles, random.Random(f"{seed} {category} {split}"))
        if split == "test":  # test targets are not published, as in the released files
            rows = [{"candidate": row["candidate"], "captions": row["captions"]} for row in rows]
        write_json(root / "captions" / f"cap.{file}.{split}.json", rows)


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
    rows = []
    for position, (reference,) in enumerate(reference_pairs([titles[name] for name in names])):
        if reference >= 0:
            target, candidate = names[position], names[reference]
            rows.append(
                {
                    "target": target,
                    "candidate": candidate,
                    "captions": two_captions(garments[target], garments[candidate], rng),
                }
            )
    rng.shuffle(rows)
    return rows


def labels_of(garment: Garment) -> list[list[str]]:
    """Six lists of a Fashion IQ label: garment word, texture, fabric, shape, part, style.

    Colours and prints are textures.
    """
    colours = [garment.colour] if garment.pattern == "solid" else [garment.colour, garment.second]
    sleeves = f"{garment.sleeves} sleeves" if SLEEVE_ORDER[garment.sleeves] else garment.sleeves
    neckline = "" if garment.neckline == "straight" else garment.neckline
    lists = (
        (singular(garment.category),),
        (garment.pattern, *colours, garment.motif),
        (garment.fabric,),
        (garment.length, garment.fit),
        (sleeves, neckline, garment.closure, *sorted(garment.details)),
        (garment.style,),
    )
    return [[_LABELS.get(word, word) for word in words if word] for words in lists]


def garment_of(words: Sequence[str], category: str, rng: random.Random, quality: float = 1.0) -> Garment:
    """Random garment with the attributes of these label words, each with the probability `quality`.

    The first color is that of the garment, the next one its second color.
    """
    garment = random_garment(category, rng)
    names, fields = {label: name for name, label in _LABELS.items()}, names_of(category)
    colours = ["second", "colour"]
    for word in words:
        name, said = names.get(word, word), rng.random() < quality
        if name in COLOURS and colours:
            field: str | None = colours.pop()
        else:
            field = next((field for field, values in fields.items() if name in values), None)
        if said and field:
            changed: dict[str, Any] = {field: name.removesuffix(" sleeves")}
            garment = replace(garment, **changed)
        elif said and (detail := _detail(name, category)):
            garment = replace(garment, details=garment.details | {detail})
    return garment


def _detail(name: str, category: str) -> str | None:
    """The detail of a category with this name, in the singular or plural."""
    names = (*DETAILS[category], "trim", "bell sleeves")
    return next((one for one in names if one.removesuffix("s") == name.removesuffix("s")), None)


def label_words(category: str) -> AttributeVocabulary:
    """The label words of the drawn garments of a category, to find them in text."""
    names = {name for values in names_of(category).values() for name in values} | COLOURS.keys()
    names |= {*DETAILS[category], "trim", "bell sleeves"}
    return vocabulary_of({_LABELS.get(name, name): (GARMENT,) for name in names})


def title_of(garment: Garment, rng: random.Random) -> str:
    """Title in the style of a shop: a brand, some of the attributes, and typical additions."""
    wearers = (
        ("Men's", "Mens", "Women's", "")
        if garment.category == "shirts"
        else ("Women's", "Women's", "Womens", "Juniors", "")
    )
    colour = rng.choice(COLOUR_WORDS.get(garment.colour, (garment.colour,))).title()
    candidates = (
        (0.75, colour),
        (0.8, "" if garment.pattern == "solid" else garment.pattern.title()),
        (0.4, garment.fabric.title()),
        (0.5, _TITLE_SLEEVES[garment.sleeves]),
        (0.5, _TITLE_NECKS.get(garment.neckline, "")),
        (0.3, _TITLE_FITS[garment.fit]),
        (0.3, garment.style.title()),
        (
            0.7,
            {"regular": "", "knee": "Knee Length", "long": "Tunic Length"}.get(
                garment.length, garment.length.title()
            ),
        ),
        (0.6, f"{garment.motif.title()} Print" if garment.motif else ""),
    )
    chosen = [text for share, text in candidates if rng.random() < share]
    words = [rng.choice(_BRANDS), rng.choice(wearers), *chosen, _title_noun(garment, rng)]
    shown = {
        "belt": "with Belt",
        "pocket": "with Pocket",
        "pockets": "with Pockets",
        "bow": "with Bow",
        "ruffles": "with Ruffles",
    }
    extras = [text for name, text in shown.items() if name in garment.details and rng.random() < 0.5][:1]
    fitting = rng.choice(("X-Small", "Small", "Medium", "Large", "X-Large"))
    noise = (f"({fitting})", f", {colour}", f"- Style {rng.randint(1000, 9999)}", "New Arrival", "Plus Size")
    extras += [rng.choice(noise)] if rng.random() < 0.4 else []
    return " ".join(word for word in [*words, *extras] if word).replace(" ,", ",")


def _title_noun(garment: Garment, rng: random.Random) -> str:
    if garment.category == "dresses":
        return (
            rng.choice(("Dress", "Dress", "Dress", "Sundress"))
            if garment.sleeves in ("straps", "sleeveless")
            else "Dress"
        )
    if garment.category == "shirts":
        if garment.neckline == "collar":
            return {"buttons": "Button Down Shirt", "half buttons": "Polo Shirt"}.get(
                garment.closure, "Shirt"
            )
        return "Graphic Tee" if garment.motif else rng.choice(("Shirt", "T-Shirt"))
    return rng.choice(("Top", "Top", "Blouse", "Tunic" if garment.length == "long" else "Tee"))
