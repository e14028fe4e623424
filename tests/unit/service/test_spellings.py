"""Ids whose accents are written with their letters (NFC) or after them (NFD)."""

from dataclasses import replace
from unicodedata import normalize
from urllib.parse import quote

import pytest

from fashioniq.data.cards import ItemCards
from fashioniq.loop.gallery import Gallery
from fashioniq.service.product_columns import ProductColumns
from fashioniq.service.store.rows import ProductRow
from tests.unit.service.conftest import IDS, SYSTEMS, Talking, showing_system
from tests.unit.service.test_page import Shopper

TOGETHER, APART = normalize("NFC", "café0"), normalize("NFD", "café1")
LIGATURE = "\ufb010"  # NFKC makes it "fi0", which is another product
NAMES = [TOGETHER, APART, LIGATURE, "fi0", *IDS[4:]]
FORMS = [(own, normalize(form, own)) for own in (TOGETHER, APART, LIGATURE, "fi0") for form in ("NFC", "NFD")]


@pytest.fixture
def engine():
    return "sqlite"


@pytest.fixture(autouse=True)
def spelled(monkeypatch):
    def system(seed):
        made = showing_system(seed)
        items = replace(made.gallery.items, ids=NAMES)
        cards = ItemCards({}, {name: f"title of {name}" for name in NAMES})
        return replace(made, gallery=Gallery(items, made.gallery.vectors_ND), cards=cards)

    monkeypatch.setitem(SYSTEMS, "dresses", system)


@pytest.mark.parametrize("own, given", FORMS)
def test_a_product_is_found_by_either_form_of_its_id(client, own, given):
    category = "/v1/categories/dresses"
    product = client.get(f"{category}/products/{quote(given)}").json()
    assert (product["product_id"], product["title"]) == (own, f"title of {own}")
    like = client.get(f"{category}/products/{quote(given)}/similar", params={"k": 50}).json()["results"]
    assert {one["product_id"] for one in like} == {*NAMES} - {own}
    said = {"about": given, "says": "is navy"}
    for turns in ([said], [{"like": given}], [{"less_like": given}, said]):
        assert client.post(f"{category}/search", json={"turns": turns}).status_code == 200
    talking = Talking(client, start={"product_id": given}, k=30)
    assert talking.started["about"] == own and talking.turn(**said, k=30).status_code == 201
    for turn in ({"like": given}, {"less_like": given}):
        assert talking.turn(**turn).status_code == 201
    assert [one["about"] for one in talking.request("GET").json()["turns"]] == [own] * 4


@pytest.mark.parametrize("own, given", FORMS)
def test_facts_and_events_are_those_of_the_product(client, own, given):
    path, other = "/v1/categories/dresses/products", normalize("NFD", own)
    put = {"id": given, "price": {"minor": 100, "currency": "EUR"}}
    item = client.put(path, json={"products": [put]}).json()["items"][0]
    assert (item["status"], item["searchable"]) == (201, True)
    assert client.get(f"{path}/{quote(own)}").json()["price"]["minor"] == 100
    changed = {"price": {"minor": 200, "currency": "EUR"}}
    assert client.patch(f"{path}/{quote(other)}", json=changed).status_code == 204
    assert client.get(f"{path}/{quote(given)}").json()["price"]["minor"] == 200
    talking = Talking(client, k=30)
    event = {
        "event_id": "e", "action_name": "purchase", "query_id": talking.started["last"]["query_id"],
        "session_id": talking.id, "timestamp": "2026-11-22T10:00:00Z",
        "event_attributes": {"object": {"object_id": given}},
    }  # fmt: skip
    assert client.post("/v1/events", json={"events": [event]}).json()["items"][0]["status"] == 202
    assert [one["product_id"] for one in talking.request("GET", "/export").json()["events"]] == [own]
    assert client.delete(f"{path}/{quote(other)}").status_code == 204
    assert own not in [one["product_id"] for one in Talking(client, k=30).started["last"]["results"]]


def test_rows_of_the_database_are_those_of_the_catalog_in_either_form(service):
    for id in (TOGETHER, APART):
        for form in ("NFC", "NFD"):
            shelf = ProductColumns({TOGETHER: 0, APART: 1})
            row = ProductRow(
                category="dresses", id=normalize(form, id), title=form, updated_at=service.store.now()
            )
            shelf.put([row])
            assert shelf.row(id).title == form


def test_the_page_goes_on_with_such_products(client, service):
    shopper = Shopper(client)
    shopper.client.get(f"/shop/dresses?about={quote(APART)}")
    shopper.send("say", says="is navy", about=normalize("NFC", APART))
    assert shopper.status == 200
    assert service.read(session_of(service, shopper)).turns[1].about == APART
    shown = next(iter(shopper.shown))
    assert shopper.send("choose", product=normalize("NFC", shown)).status == 200
    assert f"title of {shown}" in shopper.open(f"?chosen={quote(normalize('NFC', shown))}").text


def session_of(service, shopper):
    id, _, token = shopper.client.cookies["fashioniq-dresses"].partition(".")
    return service.open(id, token)


def test_a_client_is_erased_by_either_form_of_its_id(client):
    talking = Talking(client, client_id=normalize("NFC", "josé"), consent="training")
    assert client.delete(f"/v1/clients/{quote(normalize('NFD', 'josé'))}").status_code == 204
    assert talking.request("GET").status_code == 404
