"""A service whose model searches with the picture that it generates from the last words (GenIR)."""

import io
import re

import pytest
from PIL import Image

from fashioniq.loop.dialog import Dialog
from fashioniq.service.dialog_states import DRAWING
from fashioniq.service.problems import Problem
from tests.unit.service.conftest import Talking
from tests.unit.service.test_page import ORIGIN, Shopper
from tests.waiting import LIMIT


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/service.db"


@pytest.fixture
def service(service_of):
    return service_of(("shirts-0",))


@pytest.fixture
def talking(client):
    return Talking(client, category="shirts")


def made(service):
    """Prompts of the pictures generated so far."""
    return service.models.active("shirts").system.retriever.generator.made


def ids(ranking):
    return [one["product_id"] for one in ranking["results"]]


def picture(talking, n):
    answer = talking.request("GET", f"/turns/{n}/picture")
    assert answer.status_code == 200, answer.text
    return answer


def test_a_turn_finds_what_its_picture_finds_and_shows_it(talking, service):
    assert talking.started["last"]["picture"] is None
    turn = talking.turn(says="a red shirt").json()
    live = Dialog.start(service.models.active("shirts").system).say("a red shirt")
    assert ids(turn) == [one.id for one in live.nearest(8)]
    url = f"/v1/sessions/{talking.id}/turns/1/picture"
    assert turn["picture"] == {"url": url, "width": 64, "alt": "a red shirt"} and not turn["notices"]
    shown = picture(talking, 1)
    assert shown.headers["content-type"] == "image/webp" and shown.headers["cache-control"] == "no-store"
    expected = live.offer.pictures[0].getpixel((0, 0))
    found = Image.open(io.BytesIO(shown.content)).convert("RGB")
    assert found.size == (64, 64)
    assert all(abs(a - b) < 8 for a, b in zip(found.getpixel((9, 9)), expected, strict=True))
    assert talking.request("GET").json()["last"]["picture"] == turn["picture"]


def test_the_last_words_alone_count(talking):
    talking.turn(says="a red shirt")
    later = talking.turn(says="a blue shirt").json()
    assert ids(later) == ids(Talking(talking.client, category="shirts").turn(says="a blue shirt").json())


def test_another_process_makes_the_same_picture_and_no_more_than_it_needs(talking, service_of, client_of):
    for says in ("a red shirt", "a blue shirt"):
        talking.turn(says=says)
    filtered = talking.turn(filters={}).json()
    assert filtered["picture"]["alt"] == "a blue shirt"
    before = [picture(talking, n).content for n in (1, 2, 3)]
    elsewhere = service_of(())
    talking.client = client_of(elsewhere)
    assert [picture(talking, n).content for n in (3, 2, 1)] == [before[2], before[1], before[0]]
    assert made(elsewhere) == ["a blue shirt", "a blue shirt", "a red shirt"]
    assert before[0] != before[1] == before[2]
    talking.turn(says="a green shirt")
    assert made(elsewhere)[3:] == ["a green shirt"]


def test_undo_shows_the_picture_before(talking):
    first = talking.turn(says="a red shirt").json()
    shown = picture(talking, 1).content
    talking.turn(says="a blue shirt")
    back = talking.request("DELETE", "/turns/2").json()
    assert back["last"]["picture"] == first["picture"] and picture(talking, 1).content == shown
    assert talking.request("GET", "/turns/2/picture").json()["code"] == "unknown-picture"
    assert picture(talking, talking.turn(says="a green shirt").json()["turn"]).content != shown


def test_without_a_picture_the_text_is_searched_for_and_a_notice_says_so(talking, service):
    turn = talking.turn(says="an invisible shirt", key="k").json()
    assert turn["picture"] is None and [one["code"] for one in turn["notices"]] == ["no-picture"]
    system = service.models.active("shirts").system
    query_1D = system.retriever.text.encoder.texts(["an invisible shirt"])
    assert ids(turn) == [one.id for one in system.nearest(query_1D, 8)[0]]
    again = talking.turn(says="an invisible shirt", key="k").json()
    assert again["notices"] == turn["notices"] and again["query_id"] == turn["query_id"]
    assert talking.request("GET", "/turns/1/picture").status_code == 404
    assert len(made(service)) == 3, "two other seeds were tried, and nothing since"


def test_a_picture_is_for_its_session_alone(talking, client):
    talking.turn(says="a red shirt")
    other = Talking(client, category="shirts")
    headers = {"Authorization": f"Bearer {other.token}"}
    assert client.get(f"/v1/sessions/{talking.id}/turns/1/picture", headers=headers).status_code == 404
    assert client.get(f"/v1/sessions/{talking.id}/turns/1/picture").status_code in (401, 404)
    for n, code in ((0, "unknown-picture"), (1, "unknown-picture"), (-1, "invalid"), (10**30, "invalid")):
        assert other.request("GET", f"/turns/{n}/picture").json()["code"] == code


def test_a_search_without_a_session_generates_one_picture(client, service, talking):
    turns = [{"says": "a red shirt"}, {"says": "a blue shirt"}]
    found = client.post("/v1/categories/shirts/search", json={"turns": turns, "explain": True}).json()
    assert made(service) == ["a blue shirt"] and found["picture"] is None
    assert ids(found) == ids(talking.turn(says="a blue shirt", explain=True).json())
    assert made(service) == ["a blue shirt", "a blue shirt"]
    assert talking.turn(like=ids(found)[0]).json()["code"] == "questions-only"
    features = client.get("/v1/categories/shirts").json()["features"]
    assert features["generated_pictures"] and not features["questions"]


def test_few_requests_may_generate_at_a_time(talking, service):
    taken = [service.states._drawing.acquire(blocking=False) for _ in range(DRAWING)]
    refused = talking.turn(says="a red shirt")
    assert refused.status_code == 503 and refused.headers["retry-after"] and made(service) == []
    assert taken == [True] * DRAWING and Shopper(talking.client, "shirts").status == 200
    service.states._drawing.release()
    assert talking.turn(says="a red shirt").status_code == 201
    assert service.states._drawing.acquire(timeout=LIMIT)
    assert picture(talking, 1).content, "it is in the memory"


def test_the_page_shows_the_picture_and_the_words_to_change(client):
    shopper = Shopper(client, "shirts")
    assert "Describe the shirt" in shopper.text and "<figure" not in shopper.response.text
    shopper.send("say", says='a red "shirt" <b>')
    image = re.search(
        '<img src="(/shop/shirts/turns/1/picture[^"]*)"[^>]* alt="([^"]*)"', shopper.response.text
    )
    assert image[2] == "a red &#34;shirt&#34; &lt;b&gt;"
    assert 'name="says" value="a red &#34;shirt&#34; &lt;b&gt;"' in shopper.response.text
    assert "This picture was drawn from your words" in shopper.text
    assert (
        "A picture was drawn from your words" in re.search('data-status="([^"]*)"', shopper.response.text)[1]
    )
    shown = client.get(image[1])
    assert shown.headers["content-type"] == "image/webp" and shown.headers["cache-control"] == "no-store"
    shopper.send("say", says="a blue shirt")
    later = re.search('<img src="(/shop/shirts/turns/2/picture[^"]*)"', shopper.response.text)[1]
    assert client.get(later).content != shown.content
    assert shopper.send("undo", to=1).response.text.count("turns/1/picture") == 1
    shopper.send("say", says="an invisible shirt")
    assert "No picture could be drawn" in shopper.text and "<figure" not in shopper.response.text
    assert 'name="says" value="an invisible shirt"' in shopper.response.text
    client.cookies.clear()
    assert client.get(image[1], headers=ORIGIN).status_code == 404


def test_a_conversation_ends_with_its_generator(talking, service, monkeypatch):
    talking.turn(says="a red shirt")
    models = service.models
    monkeypatch.setattr(models, "_versions", {})
    load = models._load

    def other(folder):
        served = load(folder)
        served.version += "-other"
        return served

    monkeypatch.setattr(models, "_load", other)
    with pytest.raises(Problem, match="model-retired"):
        models.version("shirts@2026-01-01-0")
