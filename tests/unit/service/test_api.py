"""The API on a tiny system."""

import asyncio
import dataclasses
import gc
import json
import os
import re
import shutil
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import httpx
import msgspec
import pytest
import sqlalchemy
import torch
from fastapi.testclient import TestClient
from PIL import Image

from fashioniq.data.items import Items
from fashioniq.data.offers import Offer
from fashioniq.files import UserError
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.gallery import EngineError, Gallery
from fashioniq.loop.milvus import MilvusSearch
from fashioniq.service.access import Access
from fashioniq.service.api import create_app
from fashioniq.service.inference import Inference
from fashioniq.service.models import Models
from fashioniq.service.problems import TITLES, Problem
from fashioniq.service.store import ProductRow, Spool, Unavailable, spool
from tests.unit.service.conftest import COUNT, IDS, Talking, served, showing_system
from tests.waiting import LIMIT, happened, joined


def ids(answer):
    return [one["product_id"] for one in answer["results"]]


def test_a_turn_shows_what_a_live_dialog_shows(talking):
    first = talking.started["last"]["results"][0]["product_id"]
    answer = talking.turn(says="is navy with longer sleeves", about=first, k=5)
    assert answer.status_code == 201
    live = Dialog.start(showing_system()).about(first).say("is navy with longer sleeves")
    expected = live.nearest(5)
    assert ids(answer.json()) == [product.id for product in expected]
    assert answer.json()["results"][0]["score"] == round(1 / (1 + expected[0].distance), 2)
    assert answer.json()["heard"] == {
        "known": ["is", "navy", "with", "longer", "sleeves"],
        "unknown": [],
        "near": [],
        "changed": [],
        "wishes": [],
        "cut_after": None,
    }


def test_a_later_turn_continues_the_dialog_in_another_process_too(talking, service_of):
    second = ids(talking.turn(says="is navy").json())[1]
    answer = talking.turn(says="more formal", about=second, k=4).json()
    system = showing_system()
    live = Dialog.start(system).about().say("is navy").about(second).say("more formal")
    assert ids(answer) == [product.id for product in live.nearest(4)] and answer["turn"] == 2
    elsewhere = service_of(())
    other = TestClient(create_app(elsewhere, Access(elsewhere.store, local=True)), client=("127.0.0.1", 1))
    there = Talking.__new__(Talking)
    there.client, there.id, there.token = other, talking.id, talking.token
    assert there.request("GET").json()["last"]["results"] == answer["results"]
    said = there.turn(says="less floral", k=4).json()
    live = live.about(ids(answer)[0]).say("less floral")
    assert ids(said) == [product.id for product in live.nearest(4)]


def test_undo_gives_the_state_before_and_twice_the_same(talking):
    one = talking.turn(says="is navy").json()
    talking.turn(says="more formal")
    undone = talking.request("DELETE", "/turns/2")
    assert undone.json()["last"]["results"] == one["results"] and len(undone.json()["turns"]) == 2
    assert talking.request("DELETE", "/turns/2").json() == undone.json()
    again, fresh = talking.turn(says="more formal").json(), Talking(talking.client)
    fresh.turn(says="is navy")
    assert ids(again) == ids(fresh.turn(says="more formal").json()) and again["turn"] == 2
    assert talking.request("DELETE", "/turns/0").status_code == 422


def test_the_same_key_adds_no_second_turn(talking):
    one, two = (talking.turn(key="k1", says="is navy", after_turn=0) for _ in range(2))
    assert one.json()["query_id"] == two.json()["query_id"] and one.json()["results"] == two.json()["results"]
    assert talking.turn(key="k1", says="is red").json()["code"] == "key-reused"
    assert len(talking.request("GET").json()["turns"]) == 2


def test_many_equal_requests_at_once_add_one_turn(talking):
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(talking.turn(key="k", says="is navy")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["query_id"] for answer in answers}) == 1


def test_the_second_tab_is_told_that_the_conversation_went_on(talking):
    talking.turn(says="is navy", after_turn=0)
    late = talking.turn(says="is red", after_turn=0)
    assert late.status_code == 409 and late.json()["code"] == "turn-conflict" and late.json()["turn"] == 1


def test_a_request_that_is_no_json_is_named(client):
    answer = client.post(
        "/v1/categories/dresses/search", content="{bad", headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422 and answer.json()["errors"] == [
        {"pointer": "/", "reason": "json_invalid"}
    ]


def test_only_products_that_were_shown_can_be_talked_about(talking):
    shown = set(ids(talking.started["last"]))
    hidden = next(name for name in IDS if name not in shown)
    for field in ("about", "like"):
        answer = talking.turn(**({"says": "is navy"} if field == "about" else {}), **{field: hidden})
        assert answer.json()["code"] == "not-shown" and answer.json()["errors"][0]["pointer"] == f"/{field}"


def test_more_like_one_is_a_turn_and_the_next_words_are_about_it(talking):
    liked = ids(talking.started["last"])[3]
    answer = talking.turn(like=liked, k=5).json()
    assert ids(answer)[0] == liked
    said = talking.turn(says="is navy", k=5).json()
    live = Dialog.start(showing_system()).about(liked).say("is navy")
    assert ids(said) == [product.id for product in live.nearest(5)]


def test_nothing_understood_changes_nothing_and_offers_near_words(talking):
    answer = talking.turn(says="slevees nvay")
    assert answer.json()["code"] == "nothing-understood" and set(answer.json()["near"]) == {"sleeves", "navy"}
    assert len(talking.request("GET").json()["turns"]) == 1
    said = talking.turn(says="navy xyzzy").json()
    assert said["heard"]["unknown"] == ["xyzzy"] and said["heard"]["known"] == ["navy"]


def test_a_long_text_is_heard_in_clauses_and_what_is_not_heard_is_said(talking):
    text = "is navy with longer sleeves and more formal, less floral and red"
    first = ids(talking.started["last"])[0]
    answer = talking.turn(says=text, about=first, k=5).json()
    clauses = ["is navy with longer sleeves and more formal", "less floral and red"]
    live = Dialog.start(showing_system()).about(first).say(clauses[0]).about(first).say(clauses[1])
    assert ids(answer) == [product.id for product in live.nearest(5)] and answer["turn"] == 1
    cut = talking.turn(says="navy " * 12).json()
    assert cut["heard"]["cut_after"] == "navy" and "text-cut" in {one["code"] for one in cut["notices"]}
    late = talking.turn(says="is red").json()
    assert "more-turns-than-trained" in {one["code"] for one in late["notices"]}


def test_why_names_only_attributes_found_in_the_product(talking):
    said = talking.turn(says="is navy with longer sleeves and not red", k=30).json()["results"]
    for one in said:
        by_title = [{"word": "navy blue", "by": "title"}] if "Navy" in one["title"] else []
        own = [{"word": "navy", "by": "attribute"}]
        assert one["why"] == (own if one["product_id"] == "p3" else by_title)


def test_effects_are_the_places_lost_without_a_word(client, talking, service):
    says, about = "is navy with longer sleeves", talking.started["last"]["results"][1]["product_id"]
    body = {"turns": [{"says": says, "about": about}], "explain": True, "k": 5}
    found = client.post("/v1/categories/dresses/search", json=body).json()["results"]
    live = Dialog.start(service.models.active("dresses").system).about(about)
    ids = [product.id for product in live.say("is with longer sleeves").nearest(30)]
    assert [one["effects"]["navy"] for one in found] == [
        ids.index(one["product_id"]) - rank for rank, one in enumerate(found)
    ]
    assert set(found[0]["effects"]) == set(says.split())
    assert any(places for one in found for places in one["effects"].values())
    turn = talking.turn(says=says, about=about, explain=True, k=5).json()["results"]
    assert [one["effects"] for one in turn] == [one["effects"] for one in found]
    assert client.post("/v1/categories/dresses/search", json={**body, "turns": []}).status_code == 200


def test_conversations_that_explore_log_ranks_and_how_probable_their_products_were(client, service):
    service.explore = 1.0
    exploring, other = Talking(client, consent="training"), Talking(client, consent="service")
    answers = [talk.turn(says="is navy", k=6).json() for talk in (exploring, other)]
    shown, usual = (service.store.turns(talk.id)[1].shown for talk in (exploring, other))
    assert [one["id"] for one in shown] == ids(answers[0]) and len(set(ids(answers[0]))) == 6
    assert [one["rank"] for one in answers[0]["results"]] == [1, 2, 3, 4, 5, 6]
    assert answers[0]["notices"] == answers[1]["notices"]
    first = [one for one in shown if one["rank"] < 4]
    assert [one["id"] for one in first] == [one["id"] for one in usual[:4]]
    assert [one["rank"] for one in first] == [0, 1, 2, 3]
    assert {one["propensity"] for one in first} == {1.0}
    drawn = [one for one in shown if one["rank"] >= 4]
    assert len(drawn) == 2 and {one["propensity"] for one in drawn} == {2 / 26}
    assert all(one == {"id": one["id"], "score": one["score"], "propensity": 1.0} for one in usual)


def test_products_shown_to_someone_who_has_said_nothing_are_not_explored(client, service):
    service.explore = 1.0
    talk = Talking(client, consent="training")
    talk.turn(filters={})
    assert all("rank" not in one for turn in service.store.turns(talk.id) for one in turn.shown)


def test_a_notice_says_when_nothing_is_near(talking, service):
    served = service.models.active("dresses")
    codes = []
    for far in (1e9, 0.0):
        served.metrics["val_distance_95"] = far
        codes.append([notice["code"] for notice in talking.turn(says="is navy").json()["notices"]])
    assert codes == [[], ["nothing-near"]]


def test_notices_are_those_of_the_answer_that_was_given(talking, service):
    served = service.models.active("dresses")
    served.metrics["val_distance_95"] = 0.0
    for says in ("is red", "more formal"):
        talking.turn(says=says)
    asked = {"says": "navy " * 20, "about": ids(talking.started["last"])[0], "k": 3}
    first = talking.turn(key="k", **asked).json()
    codes = [notice["code"] for notice in first["notices"]]
    assert codes == ["more-turns-than-trained", "text-cut", "nothing-near"]
    served.metrics.clear()
    assert talking.turn(key="k", **asked).json() == first == talking.request("GET").json()["last"]


def test_stateless_search_is_the_session_without_a_trace(client, talking, service):
    first = ids(talking.started["last"])[0]
    answer = talking.turn(says="is navy", about=first, k=6).json()
    found = client.post(
        "/v1/categories/dresses/search", json={"turns": [{"says": "is navy", "about": first}], "k": 6}
    ).json()
    assert found["results"] == answer["results"] and found["turn"] == 1
    one = client.get(f"/v1/categories/dresses/products/{first}/similar?k=3").json()
    assert first not in ids(one) and [result["rank"] for result in one["results"]] == [1, 2, 3]
    assert client.get("/v1/categories/dresses/products/none/similar").status_code == 404


def test_filters_hold_until_they_are_replaced(client, talking, service_of):
    products = [
        {"id": name, "price": {"minor": 1000 * number, "currency": "EUR"}, "sizes": ["S"] if number % 3 else ["M"],
         "in_stock": number != 4, "title": f"dress {number}"}
        for number, name in enumerate(IDS[:10])
    ]  # fmt: skip
    put = client.put(
        "/v1/categories/dresses/products", json={"products": [*products, {"id": "new", "title": "x"}]}
    )
    assert {one["status"] for one in put.json()["items"]} == {201} and not put.json()["errors"]
    assert [one["searchable"] for one in put.json()["items"]] == [True] * 10 + [False]
    price = {"price": {"lte": 5000, "currency": "EUR"}}
    cheap = talking.turn(filters=price, k=30).json()
    assert set(ids(cheap)) == set(IDS[:6]) and cheap["eligible"] == 6
    said = talking.turn(says="is navy", k=30).json()
    assert set(ids(said)) == set(IDS[:6]) and said["results"][0]["price"]["currency"] == "EUR"
    both = talking.turn(filters={**price, "sizes": {"any": ["M"]}, "in_stock": True}, k=30).json()
    assert set(ids(both)) == {"p0", "p3"}
    none = talking.turn(filters={"sizes": {"any": ["XXL"]}, **price}, k=30).json()
    assert none["results"] == [] and "without sizes 6" in none["notices"][-1]["text"]
    assert client.patch("/v1/categories/dresses/products/p0", json={"in_stock": False}).status_code == 204
    assert ids(talking.turn(filters={**price, "sizes": {"any": ["M"]}, "in_stock": True}).json()) == ["p3"]
    assert client.delete("/v1/categories/dresses/products/p3").status_code == 204
    left = talking.turn(filters={}, k=50).json()
    assert len(left["results"]) == COUNT - 1 and "p3" not in ids(left)
    elsewhere = service_of(())
    elsewhere.models.refresh_all()
    assert elsewhere.models.active("dresses").shelf.row("p0").in_stock is False


@pytest.fixture
def offers(monkeypatch):
    """Offers that the catalog folder has of the models that are loaded from now on."""
    offers = {
        "p0": Offer(
            price_minor=100, currency="EUR", sizes=("L", "S"), in_stock=True, url="https://shop.example/0"
        ),
        "p1": Offer(price_minor=200, currency="EUR"),
        "p2": Offer(in_stock=False),
        "unknown": Offer(in_stock=True),
    }

    def load(run):
        made = served(run)
        made.__post_init__(dict(offers), None)
        return made

    monkeypatch.setattr("tests.unit.service.conftest.served", load)
    return offers


def facts(client, name):
    one = client.get(f"/v1/categories/dresses/products/{name}").json()
    return one["price"] and one["price"]["minor"], one["sizes"], one["in_stock"], one["url"]


def test_imported_offers_are_shown_and_found(offers, client):
    assert facts(client, "p0") == (100, ["S", "L"], True, "https://shop.example/0")
    assert facts(client, "p1") == (200, None, None, None) and facts(client, "p3") == (None, None, None, None)
    about = client.get("/v1/categories/dresses").json()
    assert about["features"]["filters"] and about["sizes"] == ["S", "L"]
    for filters, found in (({"price": {"lte": 150, "currency": "EUR"}}, {"p0"}), ({"in_stock": True}, {"p0"}),
                           ({"sizes": {"any": ["L", "M"]}}, {"p0"}), ({"price": {"gte": 1, "currency": "EUR"}}, {"p0", "p1"})):  # fmt: skip
        answer = client.post("/v1/categories/dresses/search", json={"filters": filters, "k": 30}).json()
        assert set(ids(answer)) == found and answer["eligible"] == len(found)


def test_rows_of_rest_calls_win_over_imported_offers_in_all_processes(
    offers, client, service, service_of, client_of, tmp_path
):
    elsewhere = client_of(service_of(()))
    path = "/v1/categories/dresses/products"
    assert client.patch(f"{path}/p0", json={"in_stock": False}).status_code == 204
    assert (
        client.put(path, json={"products": [{"id": "p1", "sizes": ["M"]}]}).json()["items"][0]["status"]
        == 201
    )
    assert client.delete(f"{path}/p2").status_code == 204 and client.delete(f"{path}/p2").status_code == 404
    assert client.patch(f"{path}/p3", json={"in_stock": False}).status_code == 404
    offers.update(
        dict.fromkeys(("p0", "p1", "p2", "p3"), Offer(price_minor=7, currency="EUR"))
    )  # the next import
    (tmp_path / "models/dresses-0").mkdir(parents=True)
    (tmp_path / "models/dresses-0/model.json").write_text("{}")
    assert client.post("/v1/models", json={"run": "dresses-0"}).status_code == 201
    for one in (client, elsewhere, client_of(service_of(("dresses-0",)))):  # the last one is a restart
        one.app.state.service.models.refresh_all()
        assert facts(one, "p0") == (100, ["S", "L"], False, "https://shop.example/0")
        assert facts(one, "p1") == (None, ["M"], True, None)
        assert facts(one, "p3") == (7, None, None, None)
        found = one.post("/v1/categories/dresses/search", json={"k": 50}).json()
        assert len(ids(found)) == COUNT - 1 and "p2" not in ids(found)


def test_a_new_price_says_nothing_of_the_stock(offers, client, service_of, client_of):
    price = {"price": {"minor": 300, "currency": "EUR"}}
    assert client.patch("/v1/categories/dresses/products/p1", json=price).status_code == 204
    for one in (client, client_of(service_of(()))):
        one.app.state.service.models.refresh_all()
        assert facts(one, "p1") == (300, None, None, None)
        stocked = {"filters": {"in_stock": True}, "k": 30}
        assert ids(one.post("/v1/categories/dresses/search", json=stocked).json()) == ["p0"]
    assert client.patch("/v1/categories/dresses/products/p1", json={"in_stock": True}).status_code == 204
    assert facts(client, "p1") == (300, None, True, None)


def test_products_and_events_are_typed_in_the_document_and_checked_one_by_one(client, talking):
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    for request, field, item in (
        ("ProductsBody", "products", "ProductBody"),
        ("EventsBody", "events", "EventBody"),
    ):
        assert schemas[request]["properties"][field]["items"] == {"$ref": f"#/components/schemas/{item}"}
    example = schemas["ProductBody"]["examples"][0]
    assert set(example) == set(schemas["ProductBody"]["properties"])
    given = [example, 5, None, "x", [], {"id": 5}, {"price": {"minor": 1}}]
    answer = client.put("/v1/categories/dresses/products", json={"products": given}).json()
    assert [one["status"] for one in answer["items"]] == [201] + [422] * 6
    assert answer["items"][1] == {"id": "#1", "status": 422, "reason": "/: model_type", "searchable": None}
    assert client.post("/v1/events", json={"events": [5]}).json()["items"][0]["status"] == 422


def test_five_hundred_products_fit_in_a_request(client):
    products = [{"id": f"new{number}", "title": "x" * 200} for number in range(500)]
    answer = client.put("/v1/categories/dresses/products", json={"products": products})
    assert answer.status_code == 200 and len(answer.json()["items"]) == 500
    big = client.put("/v1/categories/dresses/products", content=b" " * 3_000_000)
    assert big.status_code == 413 and big.json()["code"] == "too-large"


def test_one_wrong_product_does_not_stop_the_others(client):
    answer = client.put(
        "/v1/categories/dresses/products",
        json={
            "products": [
                {"id": "p1"},
                {"id": "p2", "price": {"minor": -1, "currency": "EUR"}},
                {"id": "\x00"},
            ]
        },
    ).json()
    assert [one["status"] for one in answer["items"]] == [201, 422, 422] and answer["errors"]
    assert answer["items"][2]["id"] == "#2" and "\\u0000" not in json.dumps(answer)


def event(talking, number=1, **changes):
    query = talking.request("GET").json()["last"]["query_id"]
    return {
        "event_id": f"e{number}", "action_name": "purchase", "query_id": query, "session_id": talking.id,
        "timestamp": "2026-11-22T10:00:00Z", "event_attributes": {"object": {"object_id": "p1"}},
    } | changes  # fmt: skip


def test_events_are_counted_once_and_refused_one_by_one(client, talking):
    good = event(talking)
    body = {
        "events": [good, good, event(talking, 2, query_id="q_none"), event(talking, 3, action_name="hack")]
    }
    answer = client.post("/v1/events", json=body)
    assert answer.status_code == 202
    assert [one["status"] for one in answer.json()["items"]] == [202, 202, 404, 422]
    assert len(talking.request("GET", "/export").json()["events"]) == 1


def test_events_wait_for_the_database_and_what_it_refuses_then_is_counted(
    client, talking, service, monkeypatch, wait_until, caplog, tmp_path
):
    service.events = Spool(service.store, tmp_path)
    monkeypatch.setattr("fashioniq.service.api.REFRESH", 0.01)
    sent = [event(talking), event(talking, 2, query_id="q_none"), event(talking, 3, action_name="hack")]
    post = partial(client.post, "/v1/events", json={"events": sent})
    with monkeypatch.context() as patch:
        patch.setattr(service.store, "write", lambda work: (_ for _ in ()).throw(Unavailable("no")))
        answer = post()
        patch.setattr(spool, "MOST", 0)
        assert post().json()["code"] == "database"
    assert answer.status_code == 202 and [one["status"] for one in answer.json()["items"]] == [202, 202, 422]
    assert talking.request("GET", "/export").json()["events"] == []

    def counted(outcome):
        return f'fashioniq_events_waited_total{{outcome="{outcome}"}} ' in client.get("/metrics").text

    assert counted("waiting") and not counted("created")
    monkeypatch.setattr(service.models, "refresh_all", lambda: 1 / 0)  # it does not stop them
    with client:
        wait_until(lambda: counted("created") and counted("unknown"), lambda: True)
    (one,) = talking.request("GET", "/export").json()["events"]
    assert one["event_id"] == "e1" and "1 of 2 events that waited were dropped" in caplog.text
    assert [one["status"] for one in post().json()["items"]] == [202, 404, 422]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "moment, status",
    [
        ("2026-11-22T10:00:00+02:00", 202),
        ("1970-01-01T00:00:00+14:00", 202),
        ("9998-12-31T23:59:59-12:00", 202),
        ("0001-01-01T00:00:00+14:00", 422),
        ("9999-12-31T23:59:59-12:00", 422),
    ],
)
def test_times_that_utc_does_not_have_are_refused(client, talking, moment, status):
    answer = client.post("/v1/events", json={"events": [event(talking, timestamp=moment)]})
    assert [one["status"] for one in answer.json()["items"]] == [status]


def test_a_session_opens_only_with_its_token(client, talking):
    for token in ("", "x", talking.token[:-1]):
        answer = client.get(f"/v1/sessions/{talking.id}", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 404
    assert (
        client.get("/v1/sessions/none", headers={"Authorization": f"Bearer {talking.token}"}).json()["code"]
        == "unknown-session"
    )


def test_an_erased_session_is_gone(talking):
    assert talking.request("DELETE").status_code == 204
    assert talking.request("GET").status_code == 404 and talking.turn(says="is navy").status_code == 404


@pytest.mark.parametrize("id", ["4711", "shop/4711", "q80Kx+/f2A==", "/", "a b?#"])
def test_any_client_is_erased(client, id):
    talking = Talking(client, client_id=id)
    assert client.delete(f"/v1/clients/{quote(id, safe='')}").status_code == 204
    assert talking.request("GET").status_code == 404


def test_consent_is_stored(talking):
    assert talking.started["consent"] == "none"
    assert talking.request("PUT", "/consent", json={"consent": "training"}).status_code == 204
    assert talking.request("GET").json()["consent"] == "training"


def test_a_session_begins_with_words_as_its_first_turn_or_with_a_product(client):
    found = Talking(client, start={"text": "is navy"}, k=4)
    said = Talking(client).turn(says="is navy", k=4).json()
    assert ids(found.started["last"]) == ids(said) and found.started["last"]["heard"]["known"] == [
        "is",
        "navy",
    ]
    assert found.started["about"] == ids(said)[0]
    later = found.turn(says="more formal", k=4).json()
    live = Dialog.start(showing_system()).about().say("is navy").about(ids(said)[0]).say("more formal")
    assert ids(later) == [product.id for product in live.nearest(4)]
    found.client.app.state.service.states._dialogs.clear()
    assert ids(found.turn(filters={}, k=4).json()) == ids(later)
    refused = client.post("/v1/sessions", json={"category": "dresses", "start": {"text": "xyzzy"}})
    assert refused.json()["code"] == "nothing-understood"
    assert refused.json()["errors"] == [{"pointer": "/start/text", "reason": "no_known_word"}]
    liked = Talking(client, start={"product_id": "p7"}).started
    assert ids(liked["last"])[0] == "p7" and liked["about"] == "p7"


def test_a_system_that_asks_is_answered(service_of):
    service = service_of(("tops-0",))
    client = TestClient(create_app(service, Access(service.store, local=True)), client=("127.0.0.1", 1))
    talking = Talking(client, category="tops")
    one = talking.turn(says="a red top").json()
    assert one["question"].startswith("Is it") and one["turn"] == 1
    service.states._dialogs.clear()
    two = talking.turn(says="yes").json()
    assert two["question"].startswith("Is it") and two["question"] != one["question"]
    three = talking.turn(says="no").json()
    assert three["question"] == ""
    said = [turn["question"] for turn in talking.request("GET").json()["turns"]]
    assert said == ["", "", one["question"], two["question"]]
    assert talking.turn(like=ids(three)[0]).json()["code"] == "questions-only"


def test_a_session_keeps_its_model_and_new_ones_get_the_active_one(client, service, service_of, tmp_path):
    old = Talking(client)
    (tmp_path / "models/dresses-1").mkdir(parents=True)
    (tmp_path / "models/dresses-1/model.json").write_text("{}")
    made = client.post("/v1/models", json={"run": "dresses-1"}).json()
    assert made["model"] == "dresses@2026-01-01-1"
    assert Talking(client).started["model"] == "dresses@2026-01-01-0"
    client.post("/v1/models/dresses@2026-01-01-1/activate")
    assert Talking(client).started["model"] == made["model"]
    assert old.turn(says="is navy").json()["model"] == "dresses@2026-01-01-0"
    elsewhere = service_of(())
    assert elsewhere.models.active("dresses").version == made["model"]
    client.post("/v1/models/dresses@2026-01-01-0/activate")
    elsewhere.models.refresh_all()
    assert elsewhere.models.active("dresses").version == "dresses@2026-01-01-0"
    for name in ("../x", "none", "a/b"):
        assert client.post("/v1/models", json={"run": name}).status_code in (404, 422)
    assert client.post("/v1/models/none/activate").json()["code"] == "unknown-model"


def having(system, ids, features_ND, attributes_NA):
    """A system with other products."""
    items = Items(ids, features_ND, attributes_NA)
    gallery = Gallery(items, system.retriever.embed_images(features_ND))
    return dataclasses.replace(system, gallery=gallery)


def test_a_model_that_is_registered_again_has_the_products_of_today_in_all_processes(
    client, service, service_of, monkeypatch, tmp_path
):
    elsewhere, talking = service_of(()), Talking(client)
    shown = talking.turn(says="is navy").json()["results"][0]["product_id"]
    (tmp_path / "models/dresses-0").mkdir(parents=True)
    (tmp_path / "models/dresses-0/model.json").write_text("{}")
    items, loads = showing_system().gallery.items, []

    def loading(ids, features_ND, attributes_NA):
        def load(run):
            loads.append(run)
            made = served(run)
            made.system = having(made.system, ids, features_ND, attributes_NA)
            made.__post_init__(None, None)
            return made

        for models in (service.models, elsewhere.models):
            monkeypatch.setattr(models, "_load", load)

    asked_N = items.features_ND.mean(0, keepdim=True)  # near everything
    loading([*IDS, "new"], torch.cat([items.features_ND, asked_N]), items.attributes_NA[[*range(COUNT), 0]])
    path = "/v1/categories/dresses/products/new/similar"
    assert client.get(path).json()["code"] == "unknown-product"
    for _ in range(2):
        again = client.post("/v1/models", json={"run": "dresses-0"}).json()
        assert again["products"] == COUNT + 1 and again["active"]
        assert client.get(path).status_code == 200
        elsewhere.models.refresh_all()
        elsewhere.models.refresh_all()
        assert len(elsewhere.models.active("dresses").system.gallery) == COUNT + 1
    assert len(loads) == 3, "twice here, once elsewhere"
    assert talking.turn(says="with longer sleeves", about=shown).json()["eligible"] == COUNT + 1  # goes on
    rest = [position for position, name in enumerate(IDS) if name != shown]
    loading([IDS[one] for one in rest], items.features_ND[rest], items.attributes_NA[rest])
    client.post("/v1/models", json={"run": "dresses-0"})
    lost = talking.turn(says="more formal")
    assert lost.status_code == 409 and lost.json()["code"] == "model-retired"
    assert Talking(client).turn(says="is navy").status_code == 201


@pytest.mark.parametrize("changed", ["titles", "labels", "vectors", "nothing"])
def test_a_model_that_is_registered_again_has_the_catalog_of_today_in_all_processes(
    service, service_of, monkeypatch, changed
):
    elsewhere, loads = service_of(()), []
    elsewhere.models.refresh_all()

    def load(run):
        loads.append(run)
        made, labels = served(run), None
        if changed == "titles":
            made.system.cards.titles["p1"] = "Zebra"
        elif changed == "labels":
            labels = {"p1": [[], ["red"], [], [], [], []]}
        elif changed == "vectors":
            items = made.system.gallery.items
            made.system = having(made.system, IDS, items.features_ND.flip(0), items.attributes_NA)
            made.system.gallery.vectors_ND[0] *= 2
        made.__post_init__(None, labels)
        return made

    for models in (service.models, elsewhere.models):
        monkeypatch.setattr(models, "_load", load)
    service.models.register(service.models.folder / "dresses-0")
    elsewhere.models.refresh_all()
    assert len(loads) == (1 if changed == "nothing" else 2)
    elsewhere.models.refresh_all()
    assert len(loads) == (1 if changed == "nothing" else 2)


def test_a_picture_that_was_replaced_is_shown_at_once(client, service, tmp_path):
    path, address = tmp_path / "p1.png", "/v1/categories/dresses/products/p1/image"
    service.models.active("dresses").system.cards.images["p1"] = path
    pictures = []
    for number, color in enumerate(("red", "navy")):
        Image.new("RGB", (64, 64), color).save(path)
        os.utime(path, (number, number))
        pictures += [client.get(address).content for _ in range(2)]
    assert pictures[0] == pictures[1] != pictures[2] == pictures[3]
    path.unlink()
    assert client.get(address).status_code == 404


def selling(monkeypatch, *services, loads=None):
    """Let services load runs with all products but the last one."""

    def load(run):
        if loads is not None:
            loads.append(run)
        made, items = served(run), showing_system().gallery.items
        made.system = having(made.system, IDS[:-1], items.features_ND[:-1], items.attributes_NA[:-1])
        made.__post_init__(None, None)
        return made

    for one in services:
        monkeypatch.setattr(one.models, "_load", load)


def test_a_model_that_is_activated_again_has_the_products_of_today_in_all_processes(
    service, service_of, monkeypatch
):
    elsewhere, runs = service_of(()), [service.models.folder / name for name in ("dresses-0", "dresses-1")]
    elsewhere.models.refresh_all()
    service.models.activate(service.models.register(runs[1]).version)
    elsewhere.models.refresh_all()
    selling(monkeypatch, service, elsewhere)
    service.models.activate(service.models.register(runs[0]).version)
    elsewhere.models.refresh_all()
    active = elsewhere.models.active("dresses")
    assert (active.folder, len(active.system.gallery)) == (runs[0], COUNT - 1)


def test_a_conversation_whose_model_was_removed_is_told_so(
    client, service, service_of, monkeypatch, tmp_path
):
    old = Talking(client)
    (tmp_path / "models/dresses-1").mkdir(parents=True)
    (tmp_path / "models/dresses-1/model.json").write_text("{}")
    client.post("/v1/models", json={"run": "dresses-1", "activate": True})
    elsewhere = service_of(())

    def gone(run):
        raise UserError(f"there is no file {run}")

    monkeypatch.setattr(elsewhere.models, "_load", gone)
    other = TestClient(create_app(elsewhere, Access(elsewhere.store, local=True)), client=("127.0.0.1", 1))
    answer = other.get(f"/v1/sessions/{old.id}", headers={"Authorization": f"Bearer {old.token}"})
    assert answer.status_code == 409 and answer.json()["code"] == "model-retired"
    assert str(tmp_path) not in answer.text


def test_a_model_that_cannot_be_loaded_is_not_tried_by_each_request(service, service_of, tmp_path):
    service.models.activate(service.models.register(tmp_path / "models/dresses-1").version)
    service.store.activate_model("dresses@2026-01-01-0")
    elsewhere, loads = service_of(()), []

    def another(run):
        loads.append(run)
        return served(tmp_path / "dresses-2")

    elsewhere.models._load = another
    for _ in range(3):
        with pytest.raises(Problem, match="model-retired"):
            elsewhere.models.version("dresses@2026-01-01-1")
    assert len(loads) == 1
    elsewhere.models._load = served
    assert elsewhere.models.activate("dresses@2026-01-01-1").version == "dresses@2026-01-01-1"


def test_a_category_whose_model_cannot_be_loaded_does_not_stop_the_others(service_of, caplog, tmp_path):
    service = service_of(("dresses-0", "skirts-0"))
    elsewhere = service_of(())

    def gone(run):
        raise UserError(f"there is no file {run}")

    elsewhere.models._load = gone
    service.models.activate(service.models.register(tmp_path / "models/dresses-1").version)
    new = ProductRow(category="skirts", id="p1", title="New", updated_at=service.store.now())
    service.store.add_products("skirts", [new])
    with caplog.at_level("WARNING"):
        for _ in range(2):
            elsewhere.models.refresh_all()
    assert elsewhere.models.active("skirts").shelf.row("p1").title == "New"
    assert elsewhere.models.active("dresses").version == "dresses@2026-01-01-0"
    assert caplog.text.count("dresses@2026-01-01-1 cannot be loaded: there is no file") == 1


def test_a_category_whose_run_is_gone_does_not_keep_others_from_being_served(service, caplog, tmp_path):
    def load(run):
        if run.name == "dresses-0":
            raise UserError(f"there is no file {run}")
        return served(run)

    models = Models(service.store, service.inference, load, None)
    with pytest.raises(UserError, match="the active model of dresses cannot be loaded as it was"):
        models.open([])
    models.open([tmp_path / "models/skirts-0"])
    assert models.categories == ["skirts"] and "dresses is not served" in caplog.text
    models.refresh_all()
    assert caplog.text.count("there is no file") == 1


def test_a_run_that_replaces_the_active_model_at_the_start_is_named(service, service_of, caplog, tmp_path):
    service_of(("dresses-0",))  # a process that starts again
    assert not caplog.messages
    service_of(("dresses-1",))
    told = "dresses@2026-01-01-1 is active in place of dresses@2026-01-01-0"
    assert [message.partition(" (")[0] for message in caplog.messages] == [told]
    assert str(tmp_path / "models/dresses-0") in caplog.text


def test_new_products_that_cannot_be_loaded_are_tried_once(service, service_of, caplog, tmp_path):
    elsewhere, loads = service_of(()), []

    def damaged(run):
        loads.append(run)
        raise UserError(f"{run} is damaged")

    elsewhere.models._load = damaged
    model = service.store.active_model("dresses")
    service.store.register_model(msgspec.structs.replace(model, features={"products": "others"}))
    for _ in range(3):
        elsewhere.models.refresh_all()
    assert len(loads) == 1 and "keeps its products" in caplog.text


def test_few_models_stay_loaded(client, service, tmp_path):
    for seed in range(1, 6):
        (tmp_path / f"models/dresses-{seed}").mkdir(parents=True)
        (tmp_path / f"models/dresses-{seed}/model.json").write_text("{}")
        assert client.post("/v1/models", json={"run": f"dresses-{seed}", "activate": True}).status_code == 201
    assert len(service.models._versions) <= 4
    assert service.models.version("dresses@2026-01-01-0").category == "dresses"


def test_other_machines_need_a_key_with_the_scope(remote, service):
    assert remote.get("/metrics").status_code == 401
    assert remote.post("/v1/categories/dresses/search", json={}).status_code == 401
    id, secret = service.store.add_key(["search"])
    key = {"Authorization": f"Bearer {secret}"}
    assert remote.post("/v1/categories/dresses/search", json={}, headers=key).status_code == 200
    assert (
        remote.put("/v1/categories/dresses/products", json={"products": [{"id": "p1"}]}, headers=key).json()[
            "code"
        ]
        == "forbidden"
    )
    assert remote.post("/v1/models", json={"run": "x"}, headers=key).status_code == 403
    service.store.revoke_key(id)
    assert remote.post("/v1/categories/dresses/search", json={}, headers=key).status_code == 401


def test_without_the_database_keys_that_were_just_valid_are(remote, service, monkeypatch):
    def search(secret):
        headers = {"Authorization": f"Bearer {secret}"}
        return remote.post("/v1/categories/dresses/search", json={}, headers=headers).status_code

    used, other, revoked = (service.store.add_key(["search"]) for _ in range(3))
    assert [search(used[1]), search(revoked[1])] == [200, 200]
    service.store.revoke_key(revoked[0])
    assert search(revoked[1]) == 401
    monkeypatch.setattr(service.store, "read", lambda work: (_ for _ in ()).throw(Unavailable("no")))
    assert [search(secret) for _, secret in (used, other, revoked)] == [200, 503, 503]
    assert search(f"{used[0]}.guessed") == 503
    monkeypatch.setattr("fashioniq.service.access.REMEMBERED", -1)
    assert search(used[1]) == 503


def test_a_repeated_session_of_a_server_is_the_same_session(remote, service):
    _, secret = service.store.add_key(["search"])
    headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "s1"}
    one, two = (
        remote.post("/v1/sessions", json={"category": "dresses"}, headers=headers).json() for _ in range(2)
    )
    assert one == two and one["session_token"]
    _, other = service.store.add_key(["search"])
    headers["Authorization"] = f"Bearer {other}"
    three = remote.post("/v1/sessions", json={"category": "dresses"}, headers=headers).json()
    assert three["session_id"] != one["session_id"]


def test_too_many_requests_are_refused_with_a_time_to_wait(remote):
    for _ in range(20):
        Talking(remote)
    answer = remote.post("/v1/sessions", json={"category": "dresses"})
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0
    assert answer.json()["code"] == "too-many-requests"


def test_a_network_of_ipv6_counts_as_one_address(service, client_of):
    app = client_of(service).app

    def asked(host):
        request = SimpleNamespace(client=SimpleNamespace(host=host), headers={})
        try:
            app.state.access.limit(request, "sessions")
        except Problem as problem:
            return problem.code
        return None

    assert {asked(f"2001:db8:0:1::{number:x}") for number in range(20)} == {None}
    assert asked("2001:db8:0:1:ffff::1") == "too-many-requests" and asked("2001:db8:0:2::1") is None
    assert {asked(f"::ffff:192.0.2.{number}") for number in range(40)} == {None}, "of IPv4"


def test_only_addresses_without_a_key_have_a_limit_of_sessions(remote, service):
    def statuses(secret, count):
        headers = {"Authorization": f"Bearer {secret}"}
        begin = partial(remote.post, "/v1/sessions", json={"category": "dresses"}, headers=headers)
        return [begin().status_code for _ in range(count)]

    _, key = service.store.add_key(["search"])
    _, limited = service.store.add_key(["search"], {"sessions": "2/hour", "search": "1/hour"})
    assert statuses(key, 25) == [201] * 25
    assert statuses(limited, 3) == [201, 201, 429]
    assert statuses("key_guessed.x", 1) == [401]
    assert Talking(remote).id, "its address has begun none"
    search = partial(remote.post, "/v1/categories/dresses/search", json={})
    asked = [search(headers={"Authorization": f"Bearer {limited}"}).status_code for _ in range(2)]
    assert asked == [200, 429]


WRONG = [
    ("POST", "/v1/sessions", b'{"category": "\\ud800"}'),
    ("POST", "/v1/sessions", b'{"\\ud800": 1, "category": "dresses"}'),
    ("POST", "/v1/sessions", b'{"category": "dresses", "k": NaN}'),
    ("POST", "/v1/sessions", b'{"category": "dresses", "k": 1e999}'),
    ("POST", "/v1/sessions", b'{"category": "dresses", "secretfield": "secretvalue"}'),
    ("POST", "/v1/sessions", b'{"category": "dresses", "client_id": "a\\u0000b"}'),
    ("POST", "/v1/sessions", b"[" * 100_000),
    ("POST", "/v1/sessions", b'{"k": ' + b"9" * 5000 + b"}"),
    ("POST", "/v1/sessions", b"\xff\xfe"),
    ("POST", "/v1/sessions", b"{" + b" " * 70_000 + b"}"),
    ("POST", "/v1/categories/dresses/search", b'{"turns": [{"says": "secretvalue secretword"}]}'),
    ("POST", "/v1/categories/secretvalue/search", b"{}"),
    ("GET", "/v1/categories/dresses/products/..%2f..%2fetc%2fpasswd/image", b""),
    ("GET", "/v1/categories/dresses/products/secretvalue", b""),
    ("GET", "/secretvalue", b""),
    ("PATCH", "/v1/sessions", b"{}"),
]


@pytest.mark.parametrize(("method", "path", "body"), WRONG)
def test_a_wrong_request_is_a_problem_that_repeats_nothing_of_it(client, method, path, body):
    answer = client.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"] in TITLES and problem["status"] == answer.status_code and problem["request_id"]
    assert b"secret" not in answer.content and b"Traceback" not in answer.content


def test_a_json_body_needs_its_content_type(client):
    answer = client.post(
        "/v1/sessions", content=b'{"category": "dresses"}', headers={"Content-Type": "text/plain"}
    )
    assert answer.status_code in (415, 422)


def test_an_unexpected_error_tells_nothing(client, service, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("secretvalue")

    monkeypatch.setattr(service.searches, "search", fail)
    answer = client.post("/v1/categories/dresses/search", json={})
    assert answer.status_code == 500 and answer.json()["code"] == "internal"
    assert "secretvalue" not in answer.text + caplog.text


def test_a_full_queue_and_a_broken_database_are_503(client, service, talking, monkeypatch, wait_until):
    stop, started = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=service.inference.call, args=[lambda: (started.set(), happened(stop))])
    ]
    threads[0].start()
    happened(started)
    monkeypatch.setattr(service.inference._jobs, "maxsize", 1)
    threads.append(threading.Thread(target=service.inference.call, args=[lambda: None]))
    threads[1].start()
    wait_until(lambda: service.inference.waiting, threads[1].is_alive)
    assert "\nfashioniq_waiting 1.0" in client.get("/metrics").text
    answer = client.post("/v1/categories/dresses/search", json={})
    assert (
        answer.status_code == 503 and answer.json()["code"] == "busy" and answer.headers["Retry-After"] == "1"
    )
    stop.set()
    joined(*threads)
    monkeypatch.setattr(service.store, "write", lambda work: (_ for _ in ()).throw(Unavailable("no")))
    monkeypatch.setattr("fashioniq.service.catalog_routes.WRITTEN", 0)
    assert talking.turn(says="is navy").json()["code"] == "database"
    assert client.get("/readyz").status_code == 503 and client.get("/livez").status_code == 200
    assert client.post("/v1/categories/dresses/search", json={}).status_code == 200


def test_monitors_that_ask_all_the_time_write_once_in_a_while(client, service, monkeypatch):
    monkeypatch.setattr("fashioniq.service.catalog_routes.WRITTEN", 600)
    commits = []
    sqlalchemy.event.listen(service.store.engine, "commit", lambda _: commits.append(1))
    service.store._written = -600
    assert {client.get("/readyz").status_code for _ in range(20)} == {200} and len(commits) == 1
    service.store._written -= 600
    assert client.get("/readyz").status_code == 200 and len(commits) == 2


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_database_file_that_was_replaced_is_told_and_stores_nothing(client, talking, service, tmp_path):
    path, sent = tmp_path / "service.db", {"events": [event(talking)]}
    path.rename(tmp_path / "away")
    shutil.copy(tmp_path / "away", path)
    assert [client.get("/readyz").json()[name] for name in ("status", "code")] == [503, "database-replaced"]
    for answer in (talking.turn(says="is navy"), talking.request("GET"), talking.request("DELETE")):
        assert answer.status_code == 503 and answer.json()["code"] == "database"
    assert client.post("/v1/events", json=sent).json()["items"][0]["status"] == 202
    assert client.post("/v1/categories/dresses/search", json={}).status_code == 200
    (tmp_path / "away").replace(path)
    assert client.get("/readyz").status_code == 200 and talking.turn(says="is navy").json()["turn"] == 1
    assert set(service.events.replay()) == {"created"}


def test_more_requests_than_can_be_answered_in_time_are_refused_at_once(client, service, monkeypatch):
    monkeypatch.setattr("fashioniq.service.api.ADMITTED", 1)
    stop, started = threading.Event(), threading.Event()
    monkeypatch.setattr(service.searches, "similar", lambda *_: (started.set(), happened(stop)))
    path = "/v1/categories/dresses/products/p1/similar"
    slow = threading.Thread(target=client.get, args=[path])
    slow.start()
    happened(started)
    refused = client.get("/v1/categories")
    alive = client.get("/livez")
    stop.set()
    joined(slow)
    assert refused.status_code == 503 and refused.json()["code"] == "busy" and alive.status_code == 200
    assert client.get("/v1/categories").status_code == 200


def test_the_search_for_garbage_leaves_out_what_is_loaded(service, monkeypatch):
    collected, threshold = [], gc.get_threshold()
    monkeypatch.setattr(gc, "collect", lambda: collected.append(gc.get_freeze_count()))
    try:
        for _ in range(2):
            service.models.settle()
        assert collected == [0] and gc.get_freeze_count() > 0
        service.models.register(Path("dresses-1"))
        service.models.settle()  # what was frozen before is searched once more
        assert collected == [0, 0]
        assert not any(one is service.models.active("dresses") for one in gc.get_objects())
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)


def test_clients_that_send_slowly_take_no_place_of_others(client, monkeypatch):
    monkeypatch.setattr("fashioniq.service.api.ADMITTED", 1)

    async def talk():
        begun, stop = asyncio.Event(), asyncio.Event()

        async def body():
            yield b"{"
            begun.set()
            await stop.wait()
            yield b"}"

        transport = httpx.ASGITransport(client.app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            path, headers = "/v1/categories/dresses/search", {"Content-Type": "application/json"}
            slow = asyncio.create_task(http.post(path, content=body(), headers=headers))
            await begun.wait()
            other = await http.post(path, json={})
            stop.set()
            return other, await slow

    answers = asyncio.run(asyncio.wait_for(talk(), LIMIT))
    assert [answer.status_code for answer in answers] == [200, 200]
    assert client.app.admitted == 0


def test_a_client_that_does_not_send_its_request_is_given_up(client, monkeypatch):
    monkeypatch.setattr("fashioniq.service.api.SENT", 0.05)

    async def body():
        yield b"{"
        await asyncio.sleep(LIMIT)

    async def talk():
        transport = httpx.ASGITransport(client.app, client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            headers = {"Content-Type": "application/json"}
            return await http.post("/v1/categories/dresses/search", content=body(), headers=headers)

    answer = asyncio.run(asyncio.wait_for(talk(), LIMIT))
    assert answer.status_code == 400 and answer.json()["code"] == "malformed"
    assert client.app.admitted == 0


def test_work_that_does_not_end_is_given_up(monkeypatch):
    inference, stop = Inference(), threading.Event()
    with pytest.raises(Problem, match="busy"):
        inference.call(lambda: stop.wait(LIMIT), 0.05)
    monkeypatch.setattr("fashioniq.service.inference.ENDED", 0.05)
    with pytest.raises(TimeoutError, match="have not completed their last work"):
        inference.close()
    stop.set()
    joined(inference._thread)


def test_dialogs_that_wait_are_searched_together(service, wait_until):
    stop, started = threading.Event(), threading.Event()
    threads = [
        threading.Thread(target=service.inference.call, args=[lambda: (started.set(), happened(stop))])
    ]
    threads[0].start()
    happened(started)
    live, found = Dialog.start(showing_system()), {}
    lives = {name: live.at(name) for name in IDS[:5]}

    def search(name):
        found[name] = service.inference.search(lambda: lives[name], 3, None)[1]

    threads += [threading.Thread(target=search, args=[name]) for name in lives]
    for thread in threads[1:]:
        thread.start()
    wait_until(lambda: service.inference.waiting >= 5, threads[0].is_alive)
    stop.set()
    joined(*threads)
    assert service.inference.largest == 5
    assert all(found[name] == lives[name].nearest(3) for name in lives)


def test_measures_and_answers_carry_no_text_and_safe_headers(client, talking):
    talking.turn(says="is navy with xyzzysecret")
    text = client.get("/metrics").text
    assert "fashioniq_turns_total" in text and "xyzzy" not in text and talking.id not in text
    answer = client.get("/livez")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_what_is_too_old_is_removed_also_soon_after_the_start_of_the_machine(client, service, monkeypatch):
    monkeypatch.setattr("fashioniq.service.api.REFRESH", 0.01)
    clock = SimpleNamespace(monotonic=lambda: 10.0, perf_counter=time.perf_counter)
    monkeypatch.setattr("fashioniq.service.api.time", clock)
    swept, looked = list[bool](), threading.Event()
    monkeypatch.setattr(service.store, "sweep", lambda: swept.append(True))
    monkeypatch.setattr(service.events, "replay", looked.set)
    with client:
        happened(looked)
    assert len(swept) == 1


def counted(client):
    """Requests by method and status in the measures."""
    of_each = r'fashioniq_request_seconds_count{method="(\w+)",route="[^"]*",status="(\d+)"} (\d+)'
    return {
        (method, status): int(n) for method, status, n in re.findall(of_each, client.get("/metrics").text)
    }


def test_every_answer_is_counted_also_refusals_and_unexpected_errors(client, service, monkeypatch):
    monkeypatch.setattr(service.searches, "search", lambda *_: 1 / 0)
    assert client.post("/v1/categories/dresses/search", json={}).status_code == 500
    monkeypatch.setattr("fashioniq.service.api.ADMITTED", 0)
    assert client.post("/v1/categories/dresses/search", json={}).status_code == 503
    for word in ("DRESS", "SKIRT"):
        assert client.request(word, "/livez").status_code == 405
    expected = {("POST", "500"): 1, ("POST", "503"): 1, ("other", "405"): 2}
    assert counted(client) == expected


def test_the_schema_describes_every_call(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert "/v1/sessions/{session_id}/turns" in paths and "/v1/categories/{category}/search" in paths


def test_without_the_search_engine_only_searches_fail_and_they_recover(service_of, client_of):
    service = service_of(("dresses-0",))
    client, gallery = client_of(service), service.models.active("dresses").system.gallery
    request = {"turns": [{"says": "is navy"}]}

    def failing(*args):
        raise EngineError("no answer in 0.3 seconds")

    before = client.post("/v1/categories/dresses/search", json=request).json()
    gallery.index = failing
    answer = client.post("/v1/categories/dresses/search", json=request)
    assert (answer.status_code, answer.json()["code"]) == (503, "engine") and answer.headers[
        "Retry-After"
    ] == "5"
    assert client.get("/v1/categories/dresses").status_code == 200
    gallery.index = None
    after = client.post("/v1/categories/dresses/search", json=request).json()
    assert after["results"] == before["results"]


def test_activation_moves_the_alias_of_the_category_first(service_of):
    service = service_of(("dresses-0",))
    served = service.models.active("dresses")
    moved = []
    client = SimpleNamespace(alter_alias=lambda collection, alias, timeout: moved.append((collection, alias)))
    served.system.gallery.index = MilvusSearch(client, "dresses_1")
    service.models.activate(served.version)
    assert moved == [("dresses_1", "dresses")]
