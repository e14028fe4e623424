"""Two small catalogs, English and German, and a short notation of what was understood."""

import random

import pytest

from fashioniq.language.lexicon import Lexicon
from fashioniq.language.reader import Reader

ENGLISH = {
    "garment": ["dress"],
    "colour": [
        "black",
        "white",
        "red",
        "pink",
        "yellow",
        "orange",
        "green",
        "purple",
        "brown",
        "grey",
        "light blue",
        "navy blue",
    ],
    "pattern": ["solid", "striped", "floral", "polka dot", "plaid", "chevron", "color block"],
    "fabric": ["cotton", "linen", "satin", "chiffon", "lace", "knit"],
    "length": ["mini", "knee length", "maxi"],
    "fit": ["fitted", "straight fit", "loose"],
    "sleeves": ["sleeveless", "short sleeve", "three quarter sleeve", "long sleeve"],
    "neck": ["v-neck", "round neck", "square neck", "strapless", "collar"],
    "detail": ["belt", "buttons", "pockets", "zipper", "bow", "ruffles"],
    "style": ["casual", "elegant", "vintage", "sporty", "bohemian"],
    "occasion": ["office", "party", "beach"],
}
GERMAN = {
    "garment": ["kleid", "t-shirt", "hemd", "bluse", "rock"],
    "colour": [
        "schwarz",
        "weiß",
        "beige",
        "grau",
        "rot",
        "bordeaux",
        "rosa",
        "gelb",
        "grün",
        "blau",
        "dunkelblau",
        "hellblau",
        "lila",
        "bunt",
    ],
    "pattern": ["einfarbig", "gestreift", "kariert", "gepunktet", "geblümt"],
    "fabric": ["baumwolle", "leinen", "denim", "viskose", "wolle", "spitze", "leder"],
    "length": ["mini", "kurz", "knielang", "midi", "lang", "maxi"],
    "fit": ["eng", "figurbetont", "gerade geschnitten", "locker"],
    "sleeves": ["ärmellos", "kurzärmelig", "dreiviertelarm", "langärmelig"],
    "neck": ["v-ausschnitt", "rundhalsausschnitt", "rollkragen"],
    "detail": ["taschen", "knopfleiste", "reißverschluss", "kapuze", "gürtel", "schleife"],
    "style": ["lässig", "elegant", "sportlich", "klassisch", "festlich"],
    "occasion": [],
}
HEARD = {
    "en": [
        "is",
        "with",
        "has",
        "and",
        "in",
        "the",
        "red",
        "longer",
        "shorter",
        "revealing",
        "neckline",
        "lower",
        "modern",
    ],
    "de": ["ist", "mit", "hat", "und", "ohne", "statt", "schwarz", "länger", "kürzer", "auffällig"],
}


def labels_of(words, count=300):
    """Six lists of each of some products: one label of each family, so that families are exclusive."""
    draw = random.Random(0)

    def one(*families):
        return [draw.choice(words[family]) for family in families if words[family]]

    return {
        f"P{number}": [
            one("garment"),
            one("pattern", "colour"),
            one("fabric"),
            one("length", "fit"),
            one("sleeves", "neck", "detail"),
            one("style", "occasion"),
        ]
        for number in range(count)
    }


def lexicon_of(words, language, **options):
    labels = labels_of(words)
    titles = [" ".join(["Odette", *lists[1], *lists[0]]) for lists in labels.values()]
    return Lexicon.of(labels, titles, HEARD[language], language, **options)


@pytest.fixture(scope="session")
def english():
    return Reader(lexicon_of(ENGLISH, "en"))


@pytest.fixture(scope="session")
def german():
    return Reader(lexicon_of(GERMAN, "de"))


def said(wish):
    """A wish in short: "not red", "light blue|navy blue", "length+", "'odette'"."""
    if wish.step and not wish.labels:
        return wish.family + ("+" if wish.step > 0 else "-")
    named = "|".join(sorted(wish.labels)) or repr(wish.text.lower())
    return f"not {named}" if wish.denied else named


def in_short(request):
    """Wishes, what is taken back, and unknown words, separated by commas."""
    parts = [said(wish) for wish in request.wishes]
    parts += [f"any {what}" for what in sorted(request.taken_back)]
    parts += [f"other {what}" for what in sorted(request.unlike)]
    parts += [f"?{word.lower()}" for word in request.unknown]
    return ", ".join((["like"] if request.like_shown else []) + parts)


def table(text):
    """Rows of "phrase => what was understood"."""
    rows = [
        line.split(" => ") if " => " in line else (line.removesuffix(" =>"), "")
        for line in text.strip().splitlines()
    ]
    return [(phrase.strip(), expected.strip()) for phrase, expected in rows]
