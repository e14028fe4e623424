"""Compare rules for finding attribute words in titles with the released attribute labels.

python benchmarks/attribute_rules.py data/fashioniq list_attr_cloth.txt
"""

import re
import sys
from pathlib import Path

from fashioniq.data.attributes import find_attributes
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.catalog_files import title_of
from fashioniq.data.titles import product_rows
from fashioniq.data.vocabularies import _plural, read_vocabulary

ours = read_vocabulary(Path(sys.argv[2]))
words = list(ours.lists_of)
RUN, TOKEN = re.compile(r"[^\W_]+(?:[\s\-'’]+[^\W_]+)*"), re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def squeeze(form):
    return form.replace(" ", "").replace("-", "")


def forms_of(plurals, hyphens):
    forms = {word: word for word in words}
    for shape in (
        [_plural] * plurals
        + [squeeze] * hyphens
        + [lambda word: squeeze(_plural(word))] * (plurals and hyphens)
    ):
        for word in words:
            forms.setdefault(shape(word), word)
    return forms


def rule(plurals=False, hyphens=False, nested=True, compounds=True):
    forms = forms_of(plurals, hyphens)

    def find(title):
        found = set()
        for run in RUN.findall(title.lower()):
            tokens = list(TOKEN.finditer(run))
            start = 0
            while start < len(tokens):
                step = 1
                for size in range(min(4, len(tokens) - start), 0, -1):
                    first, last = tokens[start].start(), tokens[start + size - 1].end()
                    if compounds and (run[first - 1 : first] == "-" or run[last : last + 1] == "-"):
                        continue
                    word = forms.get(run[first:last]) or (
                        hyphens and forms.get("".join(token[0] for token in tokens[start : start + size]))
                    )
                    if word:
                        found.add(word)
                        if not nested:
                            step = size
                            break
                start += step
        return found

    return find


def as_released(title):
    text = title.lower()
    return {word for word in text.split() if word in ours.lists_of} | {
        word for word in words if " " in word and word in text
    }


RULES = {
    "words between blanks as written, phrases anywhere": as_released,
    "any part of the text": lambda title: {word for word in words if word in title.lower()},
    "whole words as written": rule(),
    "… and plurals": rule(plurals=True),
    "… and hyphen forms": rule(hyphens=True),
    "… and both: ours": rule(plurals=True, hyphens=True),
    "ours, but parts of compounds (the shirt of a t-shirt)": rule(
        plurals=True, hyphens=True, compounds=False
    ),
    "ours, but the longest word only": rule(plurals=True, hyphens=True, nested=False),
    "extract-attributes": lambda title: {word for some in find_attributes(title, ours) for word in some},
}
products = []
for category in ("dresses", "shirts", "tops"):
    catalog = Catalog(Path(sys.argv[1]), category)
    for split in SPLITS:
        rows = product_rows(catalog, split)
        products += [
            (title_of(row), {word for some in catalog.labels[name] for word in some})
            for name, row in rows.items()
            if title_of(row)
        ]
print(f"{len(products):,} products")
for name, find in RULES.items():
    pairs = [(find(title), labels) for title, labels in products]
    found, both, labelled = (
        sum(len(a) for a, _ in pairs),
        sum(len(a & b) for a, b in pairs),
        sum(len(b) for _, b in pairs),
    )
    print(f"{name:54} found {found:,} precision {100 * both / found:.1f} recall {100 * both / labelled:.1f}")
