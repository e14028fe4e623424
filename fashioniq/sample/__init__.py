"""The drawn sample: a whole Fashion IQ folder of drawn garments, so that every command can be tried without a download."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

from fashioniq.categories import FILE_NAMES, canonical
from fashioniq.data.catalog import SPLITS
from fashioniq.data.dialogues import Dialogue, write_dialogues
from fashioniq.files import UserError, read_json, write_json
from fashioniq.prepare.pairing import reference_pairs
from fashioniq.sample.drawing import draw_garment
from fashioniq.sample.garments import Garment, random_garment
from fashioniq.sample.grammar import COLOUR_WORDS, SLEEVE_ORDER, two_captions
from fashioniq.sample.questions import NOUNS, question_dialog

LEAST_SIZE = 96  # below it a button or a pocket cannot be seen
LEAST_PRODUCTS = 30
MADE_BY = "fashioniq draw-sample"

_ROUND = ("train", "train", "train", "val", "test")  # 60/20/20, and a larger sample keeps every product in its split
_FOLDERS = ("image_splits", "captions", "attributes", "titles", "images", "dialogues", "features", "pairs")  # and what was made of them
_UNFINISHED = ".draw-sample-unfinished"  # a killed run leaves it, so that the next may start over

_LABELS = {  # where DeepFashion's word is not ours
    "navy": "navy blue", "blue": "light blue", "knee": "knee length", "straight": "straight fit", "boho": "bohemian",
    "straps": "spaghetti straps", "short sleeves": "short sleeve", "three-quarter sleeves": "three quarter sleeve",
    "long sleeves": "long sleeve", "round": "round neck", "square": "square neck", "half buttons": "half placket",
    "pocket": "pockets", "bell sleeves": "bell sleeve", "trim": "contrast trim",
}  # fmt: skip
_BRANDS = (
    "Marlowe", "Tessa Quill", "Northfold", "Bellweather", "Ivy & Oak", "Calder Row", "Linnea", "Fenwick Lane", "Rosalba", "Pepperwood",
    "Old Harbor", "Juno Street", "Maribel", "Kestrel", "Vantine", "Sunday Loom", "Harlan Co.", "Odette", "Plum & Pine", "Westerly",
)  # fmt: skip
_TITLE_SLEEVES = {"strapless": "Strapless", "straps": "Spaghetti Strap", "sleeveless": "Sleeveless", "short": "Short Sleeve",
                  "three-quarter": "3/4 Sleeve", "long": "Long Sleeve"}  # fmt: skip
_TITLE_NECKS = {"round": "Crew Neck", "v-neck": "V-Neck", "square": "Square Neck", "collar": "Collared", "turtleneck": "Turtleneck"}
_TITLE_FITS = {"fitted": "Fitted", "straight": "Straight", "loose": "Loose Fit", "flared": "Flared"}


def draw_sample(root: Path, products: int = 1200, size: int = 96, seed: int = 0, categories: Sequence[str] = ("dresses", "shirts", "tops")) -> None:
    """Write a Fashion IQ folder of drawn garments, `products` in each category, pictures of `size` by `size`.

    All of it follows from the seed; a larger sample has the smaller one's garments first. An earlier sample in `root` is replaced.
    Raises UserError for an unusable argument, or where `root` holds anything else or cannot be written.
    """
    root = Path(root)
    wanted = _checked(products, size, categories)
    try:
        _make_room(root)
        for category in wanted:
            _write_category(root, category, products, size, seed)
        origin = {"made_by": MADE_BY, "pictures": "drawn", "captions": "drawn sample's grammar"}
        write_json(root / "catalog.json", {**origin, "seed": seed, "products": products, "size": size})
        (root / _UNFINISHED).unlink()
    except OSError as error:
        raise UserError(f"cannot write the sample to {root}: {error.strerror or error}") from error


def _checked(products: int, size: int, categories: Sequence[str]) -> list[str]:
    if size < LEAST_SIZE:
        raise UserError(f"pictures of {size} pixels are too small to see a garment's details: give a size of at least {LEAST_SIZE}")
    if products < LEAST_PRODUCTS:
        raise UserError(f"{products} products are too few for three splits: give at least {LEAST_PRODUCTS}")
    wanted = list(dict.fromkeys(canonical(name) for name in categories))
    if not wanted or any(name not in FILE_NAMES for name in wanted):
        raise UserError(f"cannot draw {', '.join(wanted) or 'no category'}: choose from {', '.join(FILE_NAMES)}")
    return wanted


def _make_room(root: Path) -> None:
    """Leave an empty folder that is marked as unfinished; raises UserError where it holds what is not ours to remove."""
    if root.exists() and not root.is_dir():
        raise UserError(f"{root} is a file: give a folder to draw the sample in")
    if root.is_dir() and any(root.iterdir()) and not _is_sample(root):
        raise UserError(f"{root} holds something other than a drawn sample: give an empty or a new folder")
    root.mkdir(parents=True, exist_ok=True)
    (root / _UNFINISHED).touch()
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


def _write_category(root: Path, category: str, products: int, size: int, seed: int) -> None:
    """Pictures first, then what is said of them."""
    file = FILE_NAMES[category]
    pictures = root / "images" / file
    pictures.mkdir(parents=True)
    splits: dict[str, dict[str, Garment]] = {split: {} for split in SPLITS}
    titles: dict[str, str] = {}
    dialogues: dict[str, Dialogue] = {}
    for number in range(products):
        rng = random.Random(f"{seed} {category} {number}")
        name = f"{file[0].upper()}{number:09d}"
        garment = random_garment(category, rng)
        splits[_ROUND[number % len(_ROUND)]][name] = garment
        titles[name] = title_of(garment, rng)
        dialogues[name] = Dialogue(name, question_dialog(garment, random.Random(f"{seed} {category} {number} dialog")))
        draw_garment(garment, size, rng).save(pictures / f"{name}.jpg", quality=90, subsampling=0)
    for split, garments in splits.items():
        write_json(root / "image_splits" / f"split.{file}.{split}.json", list(garments))
        labelled = {name: labels_of(garment) for name, garment in garments.items()}
        write_json(root / "attributes" / f"asin2attr.{file}.{split}.json", labelled, indent=None)
        write_json(root / "titles" / f"{file}.{split}.json", {name: {"title": titles[name]} for name in garments})
        write_dialogues(root / "dialogues" / f"{file}.{split}.json", [dialogues[name] for name in garments])
        rows = _captioned_pairs(garments, titles, random.Random(f"{seed} {category} {split}"))
        if split == "test":  # as released: who takes part in a test pair as the target is not told
            rows = [{"candidate": row["candidate"], "captions": row["captions"]} for row in rows]
        write_json(root / "captions" / f"cap.{file}.{split}.json", rows)


def _captioned_pairs(garments: dict[str, Garment], titles: dict[str, str], rng: random.Random) -> list[dict]:
    """Each product once as the target, with the reference that its title finds; shuffled."""
    names = list(garments)
    rows = []
    for place, (reference,) in enumerate(reference_pairs([titles[name] for name in names])):
        if reference >= 0:
            target, candidate = names[place], names[reference]
            rows.append({"target": target, "candidate": candidate, "captions": two_captions(garments[target], garments[candidate], rng)})
    rng.shuffle(rows)
    return rows


def labels_of(garment: Garment) -> list[list[str]]:
    """The six lists of a Fashion IQ label: garment word, texture, fabric, shape, part, style. Colours and prints are textures."""
    colours = [garment.colour] if garment.pattern == "solid" else [garment.colour, garment.second]
    sleeves = f"{garment.sleeves} sleeves" if SLEEVE_ORDER[garment.sleeves] else garment.sleeves
    neckline = "" if garment.neckline == "straight" else garment.neckline
    lists = (
        (NOUNS[garment.category],),
        (garment.pattern, *colours, garment.motif),
        (garment.fabric,),
        (garment.length, garment.fit),
        (sleeves, neckline, garment.closure, *sorted(garment.details)),
        (garment.style,),
    )
    return [[_LABELS.get(word, word) for word in words if word] for words in lists]


def title_of(garment: Garment, rng: random.Random) -> str:
    """The garment as a shop writes it: a brand, some of its attributes, and what shops add."""
    wearers = ("Men's", "Mens", "Women's", "") if garment.category == "shirts" else ("Women's", "Women's", "Womens", "Juniors", "")
    colour = rng.choice(COLOUR_WORDS.get(garment.colour, (garment.colour,))).title()
    offered = (
        (0.75, colour),
        (0.8, "" if garment.pattern == "solid" else garment.pattern.title()),
        (0.4, garment.fabric.title()),
        (0.5, _TITLE_SLEEVES[garment.sleeves]),
        (0.5, _TITLE_NECKS.get(garment.neckline, "")),
        (0.3, _TITLE_FITS[garment.fit]),
        (0.3, garment.style.title()),
        (0.7, {"regular": "", "knee": "Knee Length", "long": "Tunic Length"}.get(garment.length, garment.length.title())),
        (0.6, f"{garment.motif.title()} Print" if garment.motif else ""),
    )
    told = [text for share, text in offered if rng.random() < share]
    words = [rng.choice(_BRANDS), rng.choice(wearers), *told, _title_noun(garment, rng)]
    shown = {"belt": "with Belt", "pocket": "with Pocket", "pockets": "with Pockets", "bow": "with Bow", "ruffles": "with Ruffles"}
    extras = [text for name, text in shown.items() if name in garment.details and rng.random() < 0.5][:1]
    fitting = rng.choice(("X-Small", "Small", "Medium", "Large", "X-Large"))
    noise = (f"({fitting})", f", {colour}", f"- Style {rng.randint(1000, 9999)}", "New Arrival", "Plus Size")
    extras += [rng.choice(noise)] if rng.random() < 0.4 else []
    return " ".join(word for word in [*words, *extras] if word).replace(" ,", ",")


def _title_noun(garment: Garment, rng: random.Random) -> str:
    if garment.category == "dresses":
        return rng.choice(("Dress", "Dress", "Dress", "Sundress")) if garment.sleeves in ("straps", "sleeveless") else "Dress"
    if garment.category == "shirts":
        if garment.neckline == "collar":
            return {"buttons": "Button Down Shirt", "half buttons": "Polo Shirt"}.get(garment.closure, "Shirt")
        return "Graphic Tee" if garment.motif else rng.choice(("Shirt", "T-Shirt"))
    return rng.choice(("Top", "Top", "Blouse", "Tunic" if garment.length == "long" else "Tee"))
