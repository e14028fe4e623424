"""Texts of the page in all languages, and the language that a shopper gets."""

import re
from importlib.resources import files

import pytest
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from fashioniq.service.schemas import PriceFilter
from fashioniq.service.translations import LANGUAGES, SOURCE, interface
from fashioniq.service.visit import Sent

ROOT = files("fashioniq.service")
TRANSLATED = [language for language in LANGUAGES if language != SOURCE]
JINJA = {"extensions": "jinja2.ext.i18n", "newstyle_gettext": "true", "trimmed": "true", "silent": "false"}


@pytest.fixture(scope="module")
def messages():
    """(context, message) of each text in the templates and the code."""
    methods = [("templates/**.html", "jinja2"), ("**.py", "python")]
    found = extract_from_dir(str(ROOT), method_map=methods, options_map={"templates/**.html": JINJA})
    return {(context, message) for _, _, message, _, context in found}


@pytest.mark.parametrize("language", TRANSLATED)
def test_every_text_is_translated(language, messages):
    catalog = read_po(ROOT.joinpath("locale", f"{language}.po").open("rb"), language)
    missing = [
        one
        for one in messages
        if not (found := catalog.get(one[1], one[0])) or not found.string or found.fuzzy
    ]
    assert missing == []
    stale = [one.id for one in catalog if one.id and (one.context, one.id) not in messages]
    assert stale == []


@pytest.mark.parametrize("language", TRANSLATED)
def test_translations_have_the_values_of_their_texts(language):
    def values(text):
        return sorted(re.findall(r"%\(\w+\)s|{\w+}|</?\w+>", text))

    for one in read_po(ROOT.joinpath("locale", f"{language}.po").open("rb"), language):
        if one.id:
            ids, strings = ([text] if isinstance(text, str) else text for text in (one.id, one.string))
            assert len(ids) == 1 or len(strings) == 2
            assert all(strings) and {str(values(text)) for text in strings} == {str(values(ids[0]))}


def test_templates_have_no_text_of_their_own():
    for file in ROOT.joinpath("templates").iterdir():
        text = re.sub(
            r"{% trans.*?{% endtrans %}|{[{%].*?[%}]}", "", file.read_text(encoding="utf-8"), flags=re.DOTALL
        )
        spoken = re.findall(r'(?:aria-label|alt|placeholder|title)="([^"]*[A-Za-z][^"]*)"', text)
        assert spoken + re.findall(r"[A-Za-z]{2,}", re.sub(r"<[^>]*>", "", text)) == [], file.name


def test_texts_of_scripts_come_from_the_page():
    script = ROOT.joinpath("static", "page.js").read_text(encoding="utf-8")
    assert re.findall(r'textContent = "|say\("|`[^`]*[a-z]{2} [^`]*`', script) == []


@pytest.mark.parametrize(
    ("accepted", "own", "tag"),
    [
        ("", "de", "de"),
        ("", "en", "en"),
        ("fr,nl;q=0.5", "de", "de"),
        ("fr,de-AT;q=0.7,en;q=0.3", "en", "de-AT"),
        ("en-GB,en;q=0.9,de;q=0.8", "de", "en-GB"),
        ("de;q=0,en", "de", "en"),
        ("de;q=0", "en", "en"),
        ("*", "de", "de"),
        ("de-XX-xyz123, de;q=0.1", "en", "de"),
        (",;q=,=,de;q=2,\u00e9,x-y" + "fr," * 10_000 + "de", "en", "en"),
        ("", "fr", "en"),
    ],
)
def test_the_language_is_that_of_the_browser_or_of_the_catalog(accepted, own, tag):
    assert interface(accepted, own).tag == tag


@pytest.mark.parametrize(
    ("accepted", "minor", "currency", "shown"),
    [
        ("en", 13390, "EUR", "€133.90"),
        ("de", 13390, "EUR", "133,90\u00a0€"),
        ("de", 123456, "USD", "1.234,56\u00a0$"),
        ("en", 1999, "JPY", "¥1,999"),
        ("de", 1999, "JPY", "1.999\u00a0¥"),
        ("en", 1999, "KWD", "KWD\u00a01.999"),
        ("de-CH", 5990, "CHF", "CHF\u00a059.90"),
    ],
)
def test_prices_are_written_as_the_shopper_does(accepted, minor, currency, shown):
    assert interface(accepted, "en").price(minor, currency) == shown


@pytest.mark.parametrize(
    ("accepted", "minor", "currency", "typed"),
    [
        ("en", 129900, "EUR", "1299.00"),
        ("de", 129990, "EUR", "1299,90"),
        ("de", 1999, "JPY", "1999"),
        ("de", 1999500, "KWD", "1999,500"),
        ("de-CH", 129990, "CHF", "1299.90"),
    ],
)
def test_the_price_of_a_filter_is_in_its_field_as_the_shopper_types_it(accepted, minor, currency, typed):
    assert interface(accepted, "en").amount(minor, currency) == typed
    sent = Sent(key="k" * 16, price_from=typed, currency=currency)
    assert sent.filters.price == PriceFilter(currency=currency, gte=minor)


@pytest.mark.parametrize(
    ("accepted", "category", "one", "many", "of"),
    [
        ("en", "dresses", "dress", "dresses", "dresses"),
        ("de", "dresses", "Kleid", "Kleider", "Kleidern"),
        ("de", "kleider", "Kleid", "Kleider", "Kleidern"),
        ("de", "shirts", "Hemd", "Hemden", "Hemden"),
        ("de", "tops", "Top", "Tops", "Tops"),
        ("de", "schuhe", "Schuhe", "Schuhe", "Schuhe"),
        ("en", "shoes", "shoes", "shoes", "shoes"),
    ],
)
def test_categories_have_names(accepted, category, one, many, of):
    ui = interface(accepted, "en")
    assert (ui.things(category, 1), ui.things(category, 8), ui.of_things(category)) == (one, many, of)
