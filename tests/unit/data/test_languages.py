import csv
import itertools
import json
import random

import pytest
from PIL import Image

from fashioniq.cli import main
from fashioniq.data.attributes import find_attributes, own_words, place_value
from fashioniq.data.catalog import SPLITS, Catalog
from fashioniq.data.differences import describe_difference, is_no_difference
from fashioniq.data.language_recognition import foreign_words
from fashioniq.data.languages import LANGUAGES, TYPES, language
from fashioniq.data.words import tokenize
from fashioniq.files import UserError
from fashioniq.prepare.importing import import_catalog
from fashioniq.prepare.source import ImportSource
from fashioniq.users.differences import LabelSpeaker

GERMAN = language("de")
COLUMNS = {
    "Farbe": ("Rot", "Dunkelblau", "Grün", "Weiß", "Petrol"),
    "Muster": ("Gestreift", "Einfarbig", "Geblümt"),
    "Material": ("Baumwolle", "Leinen"),
    "Ärmel": ("Langarm", "Kurzarm", "Ärmellos"),
}
TYPED = ("texture=Farbe", "texture=Muster", "fabric=Material", "part=Ärmel")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A German export of 500 dresses: semicolons, Latin-1, umlauts; pictures named by the article number."""
    folder = tmp_path_factory.mktemp("german")
    chance = random.Random(0)
    (folder / "Bilder").mkdir()
    with open(folder / "Kleider.csv", "w", encoding="latin-1", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["Artikelnummer", "Bezeichnung", *COLUMNS])
        for number in range(500):
            title = f"{chance.choice(['Sommerkleid', 'Kleid für Damen'])} mit Gürtel und {chance.choice(['Taschen', 'Schleife'])}"
            writer.writerow([f"K-{number}", title, *map(chance.choice, COLUMNS.values())])
            Image.new("RGB", (8, 8)).save(folder / "Bilder" / f"K-{number}.jpg")
    return folder


def imported(shop, out, **other):
    given = {"encoding": "latin-1", "attributes": TYPED, "language": "de", **other}
    source = ImportSource(shop / "Kleider.csv", shop / "Bilder", "Artikelnummer", "Bezeichnung", **given)
    return import_catalog(source, out, "kleider")


def captions(catalog):
    return [text for split in SPLITS for pair in catalog.pairs(split) for text in pair.captions]


def test_a_german_table_gives_german_labels_and_captions(shop, tmp_path):
    report = imported(shop, tmp_path / "de")
    catalog = Catalog(tmp_path / "de", "kleider")
    assert report.kept == 500 and report.differing > 490 and report.foreign is None
    assert catalog.language == "de" and catalog.labels
    words = {word for lists in catalog.labels.values() for word in itertools.chain(*lists)}
    assert words >= {"kleid", "grün", "petrol", "geblümt", "baumwolle", "langärmelig", "ärmellos", "gürtel"}
    texts = captions(catalog)
    assert not {"is", "has", "and", "instead", "of", "not", "look"} & {
        w for text in texts for w in tokenize(text)
    }
    assert all(
        any(said in text for text in texts) for said in ("grün statt rot", "langärmelig", "aus baumwolle")
    )


def test_a_german_table_that_is_imported_as_english_is_noticed(shop, tmp_path):
    report = imported(shop, tmp_path / "en", language="en")
    assert report.foreign and report.foreign.language == "de" and "gürtel" in report.foreign.words


def test_an_unknown_language_is_refused(shop, tmp_path):
    with pytest.raises(UserError, match=r"unknown language 'fr': expected one of de, en"):
        imported(shop, tmp_path / "fr", language="fr")


def test_relabelling_generates_the_captions_again_unless_people_wrote_them(shop, project, tmp_path, capsys):
    out = tmp_path / "de"
    imported(shop, out, attributes=("texture=Farbe", "style=Muster"))
    (tmp_path / "worte.csv").write_text("word,type,synonyms\nrosenrot,colour,rot\ngeblümt,print,blumig\n")
    given = {"data": out, "category": "kleider", "vocabulary": tmp_path / "worte.csv", "replace": True}
    command = project.arguments("extract-attributes", **given, column=["colour=Farbe", "print=Muster"])
    assert (
        main(command) == 0
        and "captions were generated again from these labels, for" in capsys.readouterr().out
    )
    catalog = Catalog(out, "kleider")
    texts = captions(catalog)
    assert any("rosenrot" in text for text in texts) and not any("im stil" in text for text in texts)
    about = json.loads((out / "catalog.json").read_text())["categories"]["kleider"]
    assert about["differing_pairs"] == sum(len(catalog.pairs(split)) for split in SPLITS)
    assert main(command) == 0 and captions(Catalog(out, "kleider")) == texts
    path = out / "captions/cap.kleider.val.json"
    written = path.read_text().replace("rosenrot", "hellrot")
    path.write_text(written)
    capsys.readouterr()
    assert main(command) == 0 and "captions are unchanged" in capsys.readouterr().out
    assert path.read_text() == written


@pytest.mark.parametrize("code", LANGUAGES)
def test_the_words_of_a_language_are_found_by_their_forms_and_spoken(code):
    speech, chance = language(code), random.Random(0)
    for word, group in speech.group_of.items():
        assert find_attributes(word, own_words(speech))[group.kind] == [word]
        assert place_value(word.capitalize(), speech) == (group.kind, word)
        assert group.lead.split()[0] in (speech.be.verb, speech.have.verb)
    for scale in speech.scales.values():
        assert all(word in speech.group_of for level in scale.levels for word in level)
    words = sorted(speech.group_of)
    for seed in range(500):
        products = [[[] for _ in TYPES] for _ in range(2)]
        for labels in products:
            for word in chance.sample(words, 6):
                labels[speech.group_of[word].kind].append(word)
        said = describe_difference(*products, seed, speech)
        assert all(
            text and text == text.lower() and "  " not in text and text.strip() == text for text in said
        )


def test_a_user_speaks_the_language_of_its_speaker():
    speaker = LabelSpeaker(
        [[[], ["rot"], [], [], [], []], [[], ["blau"], [], [], ["taschen"], []], [[]] * 6], GERMAN
    )
    said = {speaker.describe(1, 0, random.Random(seed)) for seed in range(30)}
    assert "ist blau statt rot und hat taschen" in said and "mit taschen" in said
    assert {speaker.describe(0, 1, random.Random(seed)) for seed in range(30)} & {
        "rot statt blau ohne taschen"
    }
    assert is_no_difference(speaker.describe(2, 0, random.Random(0)))


def test_letters_with_separate_accents_are_the_same_word():
    assert tokenize("gru\u0308n Ärmel-los") == ["grün", "ärmel-los"]


@pytest.mark.parametrize(
    "titles, expected",
    [
        (["Robe rouge avec manches longues", "Chemise blanche pour homme", "Jupe noire sans poches"], ""),
        (["红色 连衣裙", "蓝色 衬衫", "黑色 短裙"], ""),
        (["Kleid rot mit Gürtel", "Hemd blau", "Rock grün"], "de"),
    ],
)
def test_titles_in_another_language_are_noticed(titles, expected):
    found = foreign_words(titles * 10)
    assert found and found.language == expected


@pytest.mark.parametrize(
    "titles", [["Café Coton white shirt", "Étoile blue dress", "Les Copains red skirt"], ["x7"], []]
)
def test_english_titles_with_foreign_brands_are_not_noticed(titles):
    assert foreign_words(titles * 10) is None


def test_the_titles_of_a_real_english_shop_are_not_noticed(shared):
    path = shared / "myntra" / "styles.csv"
    if not path.exists():
        pytest.skip(f"no table {path}")
    with open(path, encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for column in ("productDisplayName", "baseColour", "usage"):
        assert foreign_words(row[column] for row in rows) is None
