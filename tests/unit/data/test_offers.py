"""Offers: the file of a category, prices, sizes, stock and links in tables, the order of sizes."""

import json

import pytest

from fashioniq.data.catalog import Catalog
from fashioniq.data.offers import (
    Offer,
    decimals,
    fault_of_offer,
    in_order,
    offers_file,
    read_offers,
    write_offers,
)
from fashioniq.files import UserError
from fashioniq.prepare.offers import OfferColumns, parse_link, parse_price, parse_sizes, parse_stock

WHOLE = Offer(price_minor=5990, currency="EUR", sizes=("S", "M"), in_stock=True, url="https://shop.example/1")


def test_offers_are_read_as_they_were_written(tmp_path):
    offers = {"a": WHOLE, "b": Offer(), "ü": Offer(in_stock=False)}
    path = offers_file(tmp_path, "dresses")
    write_offers(path, offers)
    assert path == tmp_path / "offers" / "dress.json" and read_offers(path) == offers
    assert json.loads(path.read_text(encoding="utf-8"))["b"] == {}
    assert read_offers(tmp_path / "none.json") == {}


def test_the_catalog_has_offers_that_its_fingerprint_leaves_out(tmp_path):
    (tmp_path / "image_splits").mkdir()
    (tmp_path / "image_splits/split.dress.train.json").write_text('["a"]')
    catalog = Catalog(tmp_path, "dresses")
    before = catalog.fingerprint()
    write_offers(offers_file(tmp_path, "dresses"), {"a": WHOLE})
    assert catalog.offers == {"a": WHOLE} and catalog.fingerprint() == before


@pytest.mark.parametrize(
    "row",
    [
        {"price_minor": -1, "currency": "EUR"},
        {"price_minor": 10**12 + 1, "currency": "EUR"},
        {"price_minor": 5.5, "currency": "EUR"},
        {"price_minor": 5},
        {"currency": "EUR"},
        {"price_minor": 5, "currency": "eur"},
        {"price_minor": 5, "currency": "EUR\n"},
        {"sizes": [""]},
        {"sizes": ["x" * 201]},
        {"sizes": ["x"] * 101},
        {"sizes": ["S\x00"]},
        {"sizes": "S"},
        {"in_stock": 1},
        {"url": "ftp://shop.example"},
        {"url": "https://shop.example/\n"},
        {"url": "https://shop.example/\x7f"},
        {"url": "https://shop.example/" + "x" * 2000},
        {"cost": 5},
        [],
        None,
    ],
)
def test_a_damaged_offer_is_refused_with_its_path_and_id(tmp_path, row):
    path = tmp_path / "dress.json"
    path.write_text(json.dumps({"good": {"in_stock": True}, "bad one": row}))
    with pytest.raises(UserError, match=r"dress\.json, offer of 'bad one': ") as refused:
        read_offers(path)
    assert "\n" not in str(refused.value) and fault_of_offer(row)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"a": "\xff"}', b"[" * 100_000, b'{"a": {}, "a"}'])
def test_a_file_that_is_not_offers_is_refused_in_a_line(tmp_path, content):
    path = tmp_path / "dress.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"dress\.json") as refused:
        read_offers(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("59,90 €", "", (5990, "EUR")),
        ("1.299,00", "EUR", (129900, "EUR")),
        ("1,299.00", "USD", (129900, "USD")),
        ("$49", "", (4900, "USD")),
        ("$49", "CAD", (4900, "CAD")),
        ("CA$ 20", "", (2000, "CAD")),
        ("49.90 EUR", "", (4990, "EUR")),
        ("49.90EUR", "eur", (4990, "EUR")),
        ("10 Euro", "", (1000, "EUR")),
        ("1299", "EUR", (129900, "EUR")),
        ("1.299", "EUR", (129900, "EUR")),
        ("12,9", "EUR", (1290, "EUR")),
        ("0.125", "EUR", (12, "EUR")),
        (".99", "EUR", (99, "EUR")),
        ("€ ,9", "", (90, "EUR")),
        ("1299.000", "EUR", (129900, "EUR")),
        ("1299,900 €", "", (129990, "EUR")),
        ("49.900000000000006", "EUR", (4990, "EUR")),
        ("1e3", "EUR", (100000, "EUR")),
        ("49,-", "EUR", (4900, "EUR")),
        ("49,– €", "", (4900, "EUR")),
        ("1 299,00 €", "", (129900, "EUR")),
        ("1\u202f299,00\u00a0€", "", (129900, "EUR")),
        ("1’299.00 CHF", "", (129900, "CHF")),
        ("Rs.1299", "", (129900, "INR")),
        ("ab 49,90 €", "", (4990, "EUR")),
        ("20 zł", "", (2000, "PLN")),
        ("299 kr", "SEK", (29900, "SEK")),
        ("¥1,000", "", (1000, "JPY")),
        ("1.250 KWD", "", (1250, "KWD")),
        ("1,250.500 KWD", "", (1250500, "KWD")),
        ("49", "€", (4900, "EUR")),
        ("0", "EUR", (0, "EUR")),
        ("٤٩", "EUR", (4900, "EUR")),
    ],
)
def test_prices_are_read(text, given, expected):
    assert parse_price(text, given) == expected


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", "EUR"), ("free shipping", "EUR"), ("nan", "EUR"), ("-5", "EUR"), ("€ -5", ""), ("49-59 €", ""),
        ("49,90 € statt 69,90 €", ""), ("49", ""), ("299 kr", ""), ("$49", "EUR"), ("49 €", "USD"), ("49", "kr"),
        ("49", "coins"), ("9" * 40, "EUR"), ("1e30", "EUR"), ("1.5.2024", "EUR"), ("³", "EUR"),
    ],
)  # fmt: skip
def test_what_is_no_price_is_refused(text, given):
    with pytest.raises(ValueError, match="expected"):
        parse_price(text, given)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S, M, L", "S M L"), ("xl/s/m", "S M XL"), ("S|M;L", "S M L"), ("L M S S", "S M L"), ("36 38 34", "34 36 38"),
        ("['S', 'M']", "S M"), ("Größe: M", "M"), ("size 10", "10"), ("37,5, 38", "37.5 38"), ("W32/L34", "L34 W32"),
        ("3xl 2xl", "2XL 3XL"), ("X-Large", "X-Large"),
    ],
)  # fmt: skip
def test_sizes_are_split_and_ordered(text, expected):
    assert parse_sizes(text) == tuple(expected.split())


def test_sizes_of_two_words_stay_together():
    assert parse_sizes("one-size") == parse_sizes("Einheitsgröße") == ("One Size",)
    assert parse_sizes("eu 40, EU 38") == ("EU 38", "EU 40")


@pytest.mark.parametrize("text", [",,", "x" * 201, " ".join(map(str, range(101))), "S\0M"])
def test_what_are_no_sizes_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse_sizes(text)


@pytest.mark.parametrize(
    ("stock", "texts"),
    [
        (True, "5|12.0|true|Yes|in stock|In_Stock|auf Lager|12 in stock|nur noch 3|noch 2 Stück|10+|ja"),
        (True, "https://schema.org/InStock|verfügbar|lieferbar"),
        (False, "0|-1|false|No|Out of stock|sold-out|ausverkauft|nicht lieferbar|0 auf Lager|nein|preorder"),
        (False, "http://schema.org/OutOfStock"),
    ],
)
def test_stock_is_read(stock, texts):
    for text in texts.split("|"):
        assert parse_stock(text) is stock, text


@pytest.mark.parametrize("text", ["maybe", "nan", "inf", "3 M", "2 or 3", "x"])
def test_what_is_no_stock_is_refused(text):
    with pytest.raises(ValueError, match="expected"):
        parse_stock(text)


def test_links_are_http_or_https():
    assert parse_link(" HTTPS://shop.example/a?b=ü ") == "https://shop.example/a?b=ü"
    for text in ("ftp://a", "javascript:alert(1)", "https://", "//a.b", "a.b", "https://a b", 'https://a"', "https://[::1",
                 "https://a/" + "x" * 2000):  # fmt: skip
        with pytest.raises(ValueError, match="expected an http or https address"):
            parse_link(text)


def test_a_row_is_an_offer_and_what_cannot_be_read_is_empty_with_a_reason():
    columns = OfferColumns(price="preis", currency="währung", sizes="größen", stock="lager", link="link")
    row = {"preis": "49", "währung": "CHF", "größen": "M S", "lager": "0", "link": "https://a.b"}
    read = Offer(price_minor=4900, currency="CHF", sizes=("S", "M"), in_stock=False, url="https://a.b")
    assert columns.offer_of(row) == (read, [])
    assert columns.offer_of(dict.fromkeys(row, "n/a")) == (Offer(), [])
    offer, unread = columns.offer_of(row | {"währung": "-", "lager": "?", "link": "x"})
    assert offer == Offer(sizes=("S", "M"))
    assert [reason.partition(":")[0] for reason in unread] == [
        "price not read",
        "stock not read",
        "link not read",
    ]
    in_dollars = OfferColumns(price="preis", currency="USD")
    assert columns.offer_columns["currency"] == "währung" and in_dollars.offer_columns["currency"] is None
    assert in_dollars.offer_of({"preis": "5"})[0] == Offer(price_minor=500, currency="USD")


def test_sizes_have_a_natural_order():
    order = "3XS|XXS|Extra Small|XS|S|S/M|M|Medium|L|X-Large|XL|XXL|3XL|12XL|5|10|W32|34|36|36.5|EU 38|100|Long|One Size"
    assert in_order(sorted(order.split("|"))) == order.split("|")
    assert in_order(["40", "36", "34", "38"]) == ["34", "36", "38", "40"] and in_order([]) == []


def test_amounts_have_the_decimals_of_their_currency():
    assert [decimals(code) for code in ("EUR", "JPY", "KWD", "ABC")] == [2, 0, 3, 2]
