"""Prices, sizes and stock."""

from types import SimpleNamespace

import pytest

from fashioniq.language.grammar import grammar, split
from fashioniq.language.tokens import folded
from fashioniq.language.wishes import OfferLimits

ENGLISH = {
    "under 50 euros": OfferLimits(most_minor=5000, currency="EUR"),
    "less than $40": OfferLimits(most_minor=4000, currency="USD"),
    "max 80": OfferLimits(most_minor=8000),
    "my budget: 80": OfferLimits(most_minor=8000),
    "up to about 80": OfferLimits(most_minor=8000),
    "UK 12": OfferLimits(sizes=("12",)),
    "that is over my budget": OfferLimits(cheaper=-1),
    "50 euros or less": OfferLimits(most_minor=5000, currency="EUR"),
    "up to 1,299.50 USD": OfferLimits(most_minor=129950, currency="USD"),
    "my budget is 100 pounds": OfferLimits(most_minor=10000, currency="GBP"),
    "a red dress for 30€": OfferLimits(most_minor=3000, currency="EUR"),
    "not more than 50 euros": OfferLimits(most_minor=5000, currency="EUR"),
    "nothing over 50 dollars": OfferLimits(most_minor=5000, currency="USD"),
    "over 100": OfferLimits(least_minor=10000),
    "I don't want to spend more than 60": OfferLimits(most_minor=6000),
    "over 100 is too much": OfferLimits(most_minor=10000),
    "I don't mind spending more than 100": OfferLimits(least_minor=10000),
    "no lace over 50": OfferLimits(least_minor=5000),
    "I wouldn't mind paying more than 100": OfferLimits(least_minor=10000),
    "no dresses over 100 euros": OfferLimits(most_minor=10000, currency="EUR"),
    "do you have nothing cheaper": OfferLimits(cheaper=-1),
    "isn't it there in size M?": OfferLimits(sizes=("M",)),
    "no red dresses over 100": OfferLimits(most_minor=10000),
    "I don't want it cheaper, but over 100": OfferLimits(least_minor=10000),
    "no problem if it is over 100": OfferLimits(least_minor=10000),
    "no I want at least 50": OfferLimits(least_minor=5000),
    "not under 20 euros": OfferLimits(least_minor=2000, currency="EUR"),
    "between 30 and 60 dollars": OfferLimits(3000, 6000, "USD"),
    "20-40 euros": OfferLimits(2000, 4000, "EUR"),
    "from 60 to 30": OfferLimits(3000, 6000),
    "about 50 euros": OfferLimits(4000, 6000, "EUR"),
    "a red dress around 50": OfferLimits(4000, 6000),
    "a dress for about 50 dollars": OfferLimits(4000, 6000, "USD"),
    "at least 20 euros and at most 40 euros": OfferLimits(2000, 4000, "EUR"),
    "cheaper": OfferLimits(cheaper=-1),
    "not so expensive": OfferLimits(cheaper=-1),
    "more expensive": OfferLimits(cheaper=1),
    "not so cheap": OfferLimits(cheaper=1),
    "it's too cheap": OfferLimits(cheaper=1),
    "nothing expensive": OfferLimits(cheaper=-1),
    "that is expensive, anything cheaper?": OfferLimits(cheaper=-1),
    "in M": OfferLimits(sizes=("M",)),
    "in a medium": OfferLimits(sizes=("M",)),
    "in size small": OfferLimits(sizes=("S",)),
    "size 38 or 40": OfferLimits(sizes=("38", "40")),
    "2xl": OfferLimits(sizes=("XXL",)),
    "red, L": OfferLimits(sizes=("L",)),
    "under 50 bucks": OfferLimits(most_minor=5000),
    "30-50 bucks": OfferLimits(3000, 5000),
    "under fifty euros": OfferLimits(most_minor=5000, currency="EUR"),
    "less than a hundred": OfferLimits(most_minor=10000),
    "under one hundred and thirty-five euros": OfferLimits(most_minor=13500, currency="EUR"),
    "under five hundred twenty": OfferLimits(most_minor=52000),
    "under two-hundred dollars": OfferLimits(most_minor=20000, currency="USD"),
    "under two  hundred": OfferLimits(most_minor=20000),
    "under fıfty": OfferLimits(most_minor=5000),  # of a Turkish keyboard
    "between a hundred and fifty and two hundred": OfferLimits(15000, 20000),
    "over 50 euros for women": OfferLimits(least_minor=5000, currency="EUR"),
    "cheeper": OfferLimits(cheaper=-1),
    "a striepd dress, too expencive": OfferLimits(cheaper=-1),
    "siez M": OfferLimits(sizes=("M",)),
    "I usually wear a 40": OfferLimits(sizes=("40",)),
    "eu 38": OfferLimits(sizes=("38",)),
    "in stock": OfferLimits(in_stock=True),
    "available now": OfferLimits(in_stock=True),
    "red dress under 50 euros in size M, in stock": OfferLimits(None, 5000, "EUR", ("M",), True),
}
GERMAN = {
    "unter 50 €": OfferLimits(most_minor=5000, currency="EUR"),
    "max 80": OfferLimits(most_minor=8000),
    "bis 50": OfferLimits(most_minor=5000),
    "Budget: 50": OfferLimits(most_minor=5000),
    "bis ca. 50 Euro": OfferLimits(most_minor=5000, currency="EUR"),
    "es macht nichts wenn es mehr als 100 Euro kostet": OfferLimits(least_minor=10000, currency="EUR"),
    "ein Kleid um die 50 Euro": OfferLimits(4000, 6000, "EUR"),
    "höchstens 49,99 €": OfferLimits(most_minor=4999, currency="EUR"),
    "nicht teurer als 60 Euro": OfferLimits(most_minor=6000, currency="EUR"),
    "mehr als 60 Euro möchte ich nicht ausgeben": OfferLimits(most_minor=6000, currency="EUR"),
    "über 60 Euro, nicht rot": OfferLimits(least_minor=6000, currency="EUR"),
    "ab 20 Euro": OfferLimits(least_minor=2000, currency="EUR"),
    "mindestens 1.299,50 €": OfferLimits(least_minor=129950, currency="EUR"),
    "zwischen 30 und 60 Euro": OfferLimits(3000, 6000, "EUR"),
    "günstiger": OfferLimits(cheaper=-1),
    "teurer": OfferLimits(cheaper=1),
    "zu billig": OfferLimits(cheaper=1),
    "nicht so billig": OfferLimits(cheaper=1),
    "bitte nichts Teures": OfferLimits(cheaper=-1),
    "Größe XL": OfferLimits(sizes=("XL",)),
    "Gr. 40": OfferLimits(sizes=("40",)),
    "in 38": OfferLimits(sizes=("38",)),
    "in Groesse M oder L unter 80 Euro auf Lager": OfferLimits(None, 8000, "EUR", ("M", "L"), True),
    "bis fünfzig Euro": OfferLimits(most_minor=5000, currency="EUR"),
    "guenstiger": OfferLimits(cheaper=-1),
    "biliger": OfferLimits(cheaper=-1),
    "fuer 40 Euro": OfferLimits(most_minor=4000, currency="EUR"),
    "sofort lieferbar": OfferLimits(in_stock=True),
    "keine Kleider über 100 Euro": OfferLimits(most_minor=10000, currency="EUR"),
    "geht das nicht günstiger": OfferLimits(cheaper=-1),
    "ist das nicht in Größe 38 da?": OfferLimits(sizes=("38",)),
    "nein Kleider über 100 Euro": OfferLimits(least_minor=10000, currency="EUR"),
    "habt ihr nichts über 100 Euro?": OfferLimits(least_minor=10000, currency="EUR"),
    "Bluse gr 40 bis 50€": OfferLimits(most_minor=5000, currency="EUR", sizes=("40",)),
}
NONE = [
    "in red",
    "with 3 buttons",
    "less than 3 buttons",
    "over the knee",
    "medium length",
    "small dots",
    "dresses for women over 50",
    "ten buttons",
    "checkered",
    "in a large print",
    "3/4 sleeves",
    "in a small floral print",
    "short sleeves",
    "a red dress",
    "not cheaper",
    "red, not in size M",
]


@pytest.mark.parametrize(("phrase", "expected"), ENGLISH.items())
def test_limits_in_english(phrase, expected, english):
    assert english.read(phrase).limits == expected


@pytest.mark.parametrize(("phrase", "expected"), GERMAN.items())
def test_limits_in_german(phrase, expected, german):
    assert german.read(phrase).limits == expected


@pytest.mark.parametrize("phrase", NONE)
def test_what_is_no_limit(phrase, english):
    assert english.read(phrase).limits == OfferLimits()


@pytest.mark.parametrize("code", ["en", "de"])
def test_every_phrase_is_looked_for_in_full(code, english, german, monkeypatch):
    offers = {"en": english, "de": german}[code].offers
    said = [*map(str, grammar(code).offers["numbers"].values()), *grammar(code).offers["sizes"].values()]
    said += [text for text in grammar(code).offers.values() if isinstance(text, str)]
    phrases = [phrase for text in said for phrase in split(text)]
    written = [change(phrase) for phrase in phrases for change in (str, str.upper, _typed)]
    texts = [
        text
        for phrase in written
        for text in (phrase, f"red, {phrase}", f"in {phrase} please", f"{phrase}'s")
    ]
    found = [offers.read(text) for text in texts]
    monkeypatch.setattr(offers, "_telling", SimpleNamespace(isdisjoint=lambda words: False))
    assert found == [offers.read(text) for text in texts]


def _typed(phrase):
    """A phrase without apostrophes, accents and spaces."""
    return folded(phrase).replace(" ", "-")


def test_a_limit_does_not_deny_what_follows(english):
    request = english.read("less than 50 euros, red and floral")
    assert [(wish.text, wish.denied) for wish in request.wishes] == [("red", False), ("floral", False)]


@pytest.mark.parametrize(
    ("phrase", "what"),
    [("any price", "price"), ("size doesn't matter", "size"), ("even if it's out of stock", "stock")],
)
def test_limits_are_taken_back(phrase, what, english):
    request = english.read(phrase)
    assert request.taken_back == {what}
    assert request.limits == OfferLimits()
    held = OfferLimits(1000, 2000, "EUR", ("M",), True).without(request.taken_back)
    assert {"price": held.most_minor, "size": held.sizes or None, "stock": held.in_stock or None}[
        what
    ] is None


def test_a_limit_that_is_denied_does_not_deny_what_follows(english):
    request = english.read("I don't want to spend more than 60 on a red dress")
    assert [(wish.text, wish.denied) for wish in request.wishes] == [("red", False)]


def test_cheaper_and_dearer_are_about_the_price_of_the_product():
    assert OfferLimits().after(OfferLimits(cheaper=-1), 4999) == OfferLimits(most_minor=4998)
    assert OfferLimits(most_minor=9000).after(OfferLimits(cheaper=1), 4999) == OfferLimits(5000, 9000)
    assert OfferLimits(most_minor=4000).after(OfferLimits(cheaper=1), 4999) == OfferLimits(least_minor=5000)
    assert OfferLimits().after(OfferLimits(cheaper=-1), None) == OfferLimits(cheaper=-1)


def test_a_later_price_replaces_an_earlier_one():
    held = OfferLimits(2000, 5000, "EUR", ("M",))
    assert held.after(OfferLimits(most_minor=8000), None) == OfferLimits(2000, 8000, "EUR", ("M",))
    assert held.after(OfferLimits(most_minor=1000), None) == OfferLimits(None, 1000, "EUR", ("M",))
    assert held.after(OfferLimits(least_minor=6000), None) == OfferLimits(6000, None, "EUR", ("M",))
    assert held.after(OfferLimits(sizes=("L",)), None).sizes == ("L",)
