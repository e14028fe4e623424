"""The caption page over HTTP, as a browser and as a hostile website would use it."""

import io
import json
import re
import socket
import threading
from html import unescape
from http.client import HTTPConnection
from urllib.parse import quote, urlencode

import pytest
from PIL import Image

from fashioniq.data.catalog import Catalog
from fashioniq.files import UserError
from fashioniq.local_page import LONGEST_BODY
from fashioniq.prepare.caption_server import CaptionServer
from fashioniq.prepare.captioning import Desk, plan
from fashioniq.report.caption import caption_page
from tests.waiting import joined

MARKUP = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
FORM = "application/x-www-form-urlencoded"


class Client:
    """Requests to a server, and what a person sees."""

    def __init__(self, server):
        self.server, self.desk = server, server.desk
        self.port, self.root = server.server_port, f"/{server.token}/"

    def request(self, method="GET", path="", body=None, at=None, **headers):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(
            method,
            self.root + path if at is None else at,
            body,
            {name.replace("_", "-"): value for name, value in headers.items()},
        )
        response = connection.getresponse()
        response.text = response.read()
        connection.close()
        return response

    def page(self, person):
        return self.request(path=f"?person={quote(person)}").text.decode()

    def pair(self, page):
        return {
            name: unescape(re.search(f'name="{name}" value="([^"]*)"', page)[1])
            for name in ("split", "candidate", "target")
        }

    def post(self, person, action="save", caption="", pair=None, **headers):
        pair = self.pair(self.page(person)) if pair is None else pair
        body = urlencode({**pair, "person": person, "action": action, "caption": caption})
        return self.request("POST", body=body, **{"Content_Type": FORM, **headers})

    def captions(self):
        folder = self.desk.files.folder
        return [
            row["captions"][0]
            for path in sorted(folder.glob("cap.*.json"))
            for row in json.loads(path.read_text())
        ]


@pytest.fixture
def serve():
    """Start servers of catalogs; they stop at the end of the test."""
    started = []

    def serve(folder, count=6):
        catalog = Catalog(folder, "dresses")
        server = CaptionServer(
            catalog, Desk(catalog, plan(catalog, {"train": count, "val": 2}, 0)), caption_page, 0
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        started.append((server, thread))
        return Client(server)

    yield serve
    for server, thread in started:
        server.shutdown()
        joined(thread)
        server.stop()


@pytest.fixture
def client(serve, photo_catalog):
    return serve(photo_catalog())


def test_the_first_page_asks_for_a_name_and_the_next_shows_a_pair(client):
    assert "Your name" in client.request().text.decode()
    page = client.page("Ann")
    assert "How does the wanted product differ?" in page and "0 of 8 pairs done" in page
    assert f"Dress {client.pair(page)['target']}" in page
    for picture in re.findall(r'img src="([^"]+)"', page):
        assert Image.open(io.BytesIO(client.request(path=picture).text)).size == (64, 64)


def test_save_skip_and_undo_lead_to_the_next_page(client):
    first = client.post("Ann", caption="is red")
    assert first.status == 303 and first.getheader("Location") == "./?person=Ann"
    assert client.captions() == ["is red"]
    assert client.post("Ann", "skip").status == 303
    page = client.page("Ann")
    assert "2 of 8 pairs done, 1 of them skipped · 1 caption by Ann" in page
    client.post("Ann", "undo")
    client.post("Ann", "undo")
    page = client.page("Ann")
    assert "0 of 8 pairs done" in page and 'value="is red"' in page and client.captions() == []


def test_two_people_see_different_pairs_and_then_the_end(client):
    assert client.pair(client.page("Ann")) != client.pair(client.page("Ben"))
    for _ in range(7):
        client.post("Ann", caption="is red")
    assert "All other pairs are with other people" in client.page("Ann")
    client.post("Ben", caption="is blue")
    assert "All pairs are done" in client.page("Ann")
    assert len(client.captions()) == 8


def test_a_refused_caption_is_shown_again_with_the_reason(client):
    response = client.post("Ann", caption="x" * 301)
    page = response.text.decode()
    assert response.status == 422 and "longer than 300 characters" in page and "x" * 301 in page
    assert client.captions() == []


def test_markup_in_titles_captions_and_names_is_text(serve, photo_catalog):
    folder = photo_catalog()
    for path in (folder / "titles").iterdir():
        path.write_text(json.dumps({name: {"title": MARKUP} for name in json.loads(path.read_text())}))
    client = serve(folder)
    assert client.post(MARKUP[:40], caption=MARKUP).status == 303
    assert client.captions() == [MARKUP]
    client.post(MARKUP[:40], "undo")
    for page in (
        client.page(MARKUP[:40]),
        client.post("Ann", caption="!" + "?").text.decode(),
        client.post(MARKUP, caption=MARKUP, pair=client.pair(client.page("Ann"))).text.decode(),
    ):
        assert "<script>alert" not in page and "<img src=x" not in page
        assert page.count("<script") == 2, "the scripts of the page itself"
    assert (
        unescape(re.search(r'id="caption" name="caption" value="([^"]*)"', client.page(MARKUP[:40]))[1])
        == MARKUP
    )


def test_ids_are_escaped_in_addresses(serve, photo_catalog):
    folder = photo_catalog()
    name = 'a b?"&#%2F'
    split = folder / "image_splits" / "split.dress.val.json"
    split.write_text(json.dumps([name, "val1"]))
    (folder / "images" / "dress" / "val0.png").rename(folder / "images" / "dress" / f"{name}.png")
    client = serve(folder)
    client.post("Ann", caption="is red", pair={"split": "val", "candidate": name, "target": "val1"})
    client.post("Ann", "undo")
    page = client.page("Ann")
    assert client.pair(page) == {"split": "val", "candidate": name, "target": "val1"}
    for picture in re.findall(r'img src="([^"]+)"', page):
        assert client.request(path=unescape(picture)).status == 200


def test_every_answer_forbids_scripts_of_others_and_frames(client):
    page = client.request(path="?person=Ann")
    policy = page.getheader("Content-Security-Policy")
    nonce = re.search(r"script-src 'nonce-([^']+)'", policy)[1]
    assert (
        f'<script nonce="{nonce}">' in page.text.decode() and f'<style nonce="{nonce}">' in page.text.decode()
    )
    assert nonce not in client.request(path="?person=Ann").getheader("Content-Security-Policy")
    for response in (
        page,
        client.request(path="picture/train1"),
        client.request(at="/"),
        client.request(path="x"),
    ):
        policy = response.getheader("Content-Security-Policy")
        assert policy.startswith("default-src 'none'") and "frame-ancestors 'none'" in policy
        assert response.getheader("X-Content-Type-Options") == "nosniff"


@pytest.mark.parametrize("path", ["/", "/?person=Ann", "/x/", "/{}x/", "//", "/%00/", "/../"])
def test_without_the_token_nothing_is_found(client, path):
    assert client.request(at=path.format(client.server.token)).status in (400, 404)


@pytest.mark.parametrize(
    "path", ["picture/..%2F..%2Fcatalog.json", "picture/../../catalog.json", "picture/", "picture/val99",
             "picture/%00", "picture/train1.png", "captions", "?person=Ann/../x/y"]
)  # fmt: skip
def test_only_pictures_of_products_are_served(client, path):
    response = client.request(path=path)
    assert response.status == 404 or response.getheader("Content-Type").startswith("text/html")
    assert response.getheader("Content-Type") != "image/jpeg"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example:80", "localhost.evil", "", "[", "0.0.0.0"]
)
def test_another_host_name_is_refused(client, host):
    pair = client.pair(client.page("Ann"))
    assert client.request(Host=host).status in (400, 403)
    assert client.post("Ann", caption="is red", pair=pair, Host=host).status in (400, 403)
    assert client.captions() == []


def test_local_names_are_accepted_with_any_port_as_a_tunnel_may_change_it(client):
    for host in ("localhost:9999", "127.0.0.1", f"localhost:{client.port}"):
        assert client.request(Host=host).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1"])
def test_a_form_of_another_page_is_refused(client, origin):
    pair = client.pair(client.page("Ann"))
    assert client.post("Ann", caption="is red", pair=pair, Origin=origin).status == 403
    assert client.captions() == []
    own = f"http://127.0.0.1:{client.port}"
    assert client.post("Ann", caption="is red", pair=pair, Origin=own).status == 303


def test_odd_requests_are_refused(client):
    pair = client.pair(client.page("Ann"))
    big = {"Content_Type": FORM, "Content_Length": str(LONGEST_BODY + 1)}
    assert client.request("POST", **big).status == 413
    assert client.request("POST", **{**big, "Content_Length": "9" * 5000}).status == 413
    assert client.request("POST", **{**big, "Content_Length": "-1"}).status == 411
    assert client.request("POST", Content_Type=FORM, Transfer_Encoding="chunked").status == 411
    assert client.request("POST", body="{}", Content_Type="application/json").status == 400
    assert client.request("POST", body="&".join(["a=1"] * 100), Content_Type=FORM).status == 400
    assert client.request("POST", path="picture/train1", body="a=1", Content_Type=FORM).status == 400
    assert client.request("POST", body=b"\xff\x00%ff=%", Content_Type=FORM).status == 400
    assert client.post("Ann", "destroy", pair=pair).status == 400
    assert client.post("Ann", caption="red", pair={**pair, "split": "../x"}).status == 422
    assert client.post("Ann", caption="red", pair={**pair, "target": pair["candidate"]}).status == 422
    assert client.request("DELETE").status == 501
    assert client.captions() == [] and "0 of 8" in client.page("Ann")


def test_a_failure_to_save_keeps_the_text_on_the_page(client, monkeypatch):
    pair = client.pair(client.page("Ann"))

    def full(*_):
        raise UserError("no space left")

    monkeypatch.setattr(client.desk.files, "add", full)
    response = client.post("Ann", caption="is red", pair=pair)
    assert response.status == 500
    assert "no space left" in response.text.decode() and 'value="is red"' in response.text.decode()


def test_only_this_machine_is_served_and_a_port_in_use_is_an_error(client):
    assert client.server.server_address[0] == "127.0.0.1"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match=r"cannot use port \d+ .*; give another --port"):
            CaptionServer(client.server.catalog, client.desk, caption_page, taken.getsockname()[1])


def test_a_product_without_a_picture_is_a_card_with_its_title(serve, photo_catalog):
    folder = photo_catalog()
    for path in (folder / "images" / "dress").iterdir():
        path.unlink()
    page = serve(folder).page("Ann")
    assert "<img" not in page and 'class="tile card"' in page
