"""Table of a German shop made from a drawn sample, for import-catalog and eval-requests.

fashioniq draw-sample --data sample --products 500
python benchmarks/german_catalog.py sample dresses kleider.csv
fashioniq import-catalog --table kleider.csv --images sample/images --id Artikel --title Bezeichnung --picture Bild \
    --attributes garment=Artikelart texture=Farbe texture=Muster fabric=Material shape=Form part=Ausstattung style=Stil \
    --language de --category kleider --data kleider
"""

import csv
import random
import sys
from pathlib import Path

from fashioniq.data.catalog import Catalog

GERMAN = {  # words of the drawn labels
    "dress": "kleid", "shirt": "hemd", "top": "top",
    "black": "schwarz", "white": "weiß", "grey": "grau", "navy blue": "dunkelblau", "light blue": "hellblau",
    "red": "rot", "pink": "rosa", "green": "grün", "yellow": "gelb", "orange": "orange", "purple": "lila",
    "brown": "braun", "solid": "einfarbig", "striped": "gestreift", "floral": "geblümt",
    "polka dot": "gepunktet", "plaid": "kariert", "chevron": "zickzackmuster", "color block": "zweifarbig",
    "heart": "herzmotiv", "star": "sternmotiv", "diamond": "rautenmotiv", "circle": "kreismotiv",
    "lettering": "schriftzug", "cotton": "baumwolle", "linen": "leinen", "satin": "satin", "lace": "spitze",
    "knit": "strick", "chiffon": "chiffon", "jersey": "jersey", "denim": "denim", "flannel": "flanell",
    "poplin": "popeline", "mini": "mini", "knee length": "knielang", "maxi": "maxi", "cropped": "kurz",
    "regular": "hüftlang", "long": "lang", "fitted": "figurbetont", "straight fit": "gerade geschnitten",
    "loose": "locker", "flared": "ausgestellt", "strapless": "trägerlos", "spaghetti straps": "spaghettiträger",
    "sleeveless": "ärmellos", "short sleeve": "kurzärmelig", "three quarter sleeve": "dreiviertelarm",
    "long sleeve": "langärmelig", "bell sleeve": "trompetenärmel", "round neck": "rundhalsausschnitt",
    "v-neck": "v-ausschnitt", "square neck": "karree-ausschnitt", "collar": "hemdkragen",
    "turtleneck": "rollkragen", "buttons": "knopfleiste", "half placket": "knopfleiste", "zipper": "reißverschluss",
    "belt": "gürtel", "pockets": "taschen", "bow": "schleife", "ruffles": "rüschen",
    "contrast trim": "kontrastsaum", "office": "formell", "party": "festlich", "bohemian": "verspielt",
    "vintage": "klassisch", "elegant": "elegant", "beach": "strandmode", "sporty": "sportlich",
    "casual": "lässig",
}  # fmt: skip
COLUMNS = (
    "Artikelart",
    "Material",
    "Form",
    "Ausstattung",
    "Stil",
)  # of five of the six lists; textures are two columns
LISTS = (0, 2, 3, 4, 5)
COLOURS = set(list(GERMAN)[3:15])
BRANDS = ("Lindhof", "Mara Weiss", "Nordkante", "Elbmode", "Tannberg")
SIZES = ("XS", "S", "M", "L", "XL")


def row_of(name: str, labels: list[list[str]], picture: str, chance: random.Random) -> dict[str, str]:
    """Row of a product: title, attributes, and an invented price, sizes and stock."""
    colours = [GERMAN[word].title() for word in labels[1] if word in COLOURS]
    patterns = [GERMAN[word] for word in labels[1] if word not in COLOURS]
    said = [GERMAN[word] for lists in (labels[3], labels[4]) for word in lists]
    title = [chance.choice(BRANDS), GERMAN[labels[0][0]].title(), "in", " und ".join(colours)]
    extras = [word.title() for word in chance.sample(said, min(2, len(said)))]
    first = chance.randrange(len(SIZES))
    columns = zip(COLUMNS, (labels[number] for number in LISTS), strict=True)
    return {
        "Artikel": name,
        "Bezeichnung": " ".join(
            [*title, *[word.title() for word in patterns if chance.random() < 0.7], *extras]
        ),
        "Bild": picture,
        "Farbe": "|".join(colours),
        "Muster": "|".join(patterns),
        **{column: "|".join(GERMAN[word] for word in words) for column, words in columns},
        "Preis": f"{chance.randrange(15, 160)},{chance.choice((90, 95, 99))} €",
        "Größen": "|".join(SIZES[first:] if chance.random() < 0.5 else SIZES[: first + 1]),
        "Lager": str(chance.choice((0, 0, 1, 3, 12))),
    }


def main(data: str, category: str, table: str) -> None:
    """Write the table of a category of a drawn sample."""
    catalog, chance = Catalog(Path(data), category), random.Random(0)
    rows = [
        row_of(name, catalog.labels[name], catalog.images[name].name, chance) for name in catalog.all_ids()
    ]
    with open(table, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} products in {table}")


if __name__ == "__main__":
    main(*sys.argv[1:])
