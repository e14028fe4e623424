"""Titles and attribute labels of drawn garments."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fashioniq.categories import singular
from fashioniq.data.attributes import GARMENT, AttributeVocabulary, vocabulary_of
from fashioniq.sample.clauses import COLOUR_WORDS, SLEEVE_ORDER
from fashioniq.sample.garments import COLOURS, DETAILS, Garment, names_of, random_garment

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
    colour = rng.choice(COLOUR_WORDS[garment.colour]).title()
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
