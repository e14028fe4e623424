"""The service as a process: a real run, real requests, kills and restarts."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from importlib import import_module
from io import BytesIO
from pathlib import Path

import httpx
import pytest

from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from tests.waiting import LIMIT, ended, joined

# The service closes idle connections after some seconds, which a busy machine may take between two requests.
NO_REUSE = httpx.Limits(max_keepalive_connections=0)


class Server:
    """A process that serves a run."""

    def __init__(self, forked_command, wait_until, out, arguments):
        self.out = out
        with open(os.devnull) as none, out.open("w") as written:
            streams = none.fileno(), written.fileno(), written.fileno()
            self.process = forked_command(["serve", *arguments, "--port", "0"], streams)
        wait_until(lambda: "Ctrl-C" in out.read_text(), self.process.is_alive)
        self.address = re.search(r"http://\S+:\d+", out.read_text())[0]
        self.http = httpx.Client(base_url=self.address, timeout=60, limits=NO_REUSE)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        ended(self.process)
        self.http.close()


@pytest.fixture
def serve(forked_command, wait_until, tmp_path, runs):
    """Start the service on a database of this test."""
    started = []

    def serve(*more, run=runs.retriever):
        out = tmp_path / f"serve{len(started)}.txt"
        arguments = [
            "--database",
            f"sqlite:///{tmp_path}/log/service.db",
            "--run",
            str(run),
            *more,
        ]
        started.append(Server(forked_command, wait_until, out, arguments))
        return started[-1]

    yield serve
    for server in started:
        if server.process.is_alive():
            server.kill()


def session(server, **fields):
    made = server.http.post("/v1/sessions", json={"category": "dresses", **fields}).json()
    return made, {"Authorization": f"Bearer {made['session_token']}"}


def test_a_person_reaches_products_of_a_real_run_in_words_and_by_a_picture(serve, attribute_runs, runs):
    server = serve("--predictor", str(attribute_runs[1]))
    about = server.http.get("/v1/categories/dresses").json()
    assert about["features"] == {
        "questions": False,
        "pictures": True,
        "filters": True,
        "generated_pictures": False,
    }
    made, token = session(server)
    path = f"/v1/sessions/{made['session_id']}/turns"
    said = server.http.post(path, json={"says": "is red"}, headers=token).json()
    assert said["turn"] == 1 and len(said["results"]) == 8
    picture = server.http.get(said["results"][0]["image"]["url"])
    assert picture.headers["content-type"] == "image/webp" and picture.headers["cache-control"].startswith(
        "public"
    )
    name = said["results"][2]["product_id"]
    content = next(runs.catalog.glob(f"images/**/{name}.*")).read_bytes()
    upload = {"content": content, "headers": {"Content-Type": "image/png"}, "params": {"category": "dresses"}}
    seen = server.http.post("/v1/pictures", **upload).json()
    started, other = session(server, start={"picture_id": seen["picture_id"]})
    assert started["last"]["results"][0]["product_id"] == name and seen["attributes"]
    path = f"/v1/sessions/{started['session_id']}/turns"
    of_picture = server.http.post(path, json={"says": "is red"}, headers=other).json()
    about = {"says": "is red", "about": seen["picture_id"]}
    again = server.http.post(f"/v1/sessions/{made['session_id']}/turns", json=about, headers=token).json()
    assert of_picture["turn"] == 1 and again["turn"] == 2
    path = f"/v1/sessions/{started['session_id']}"
    exported = server.http.get(f"{path}/export", headers=other).json()
    assert [one["id"] for one in exported["pictures"]] == [seen["picture_id"]]
    assert server.http.delete(path, headers=other).status_code == 204
    start = {"category": "dresses", "start": {"picture_id": seen["picture_id"]}}
    assert server.http.post("/v1/sessions", json=start).json()["code"] == "unknown-picture"
    bad = {"content": b"GIF89a" + bytes(100), "headers": {"Content-Type": "image/gif"}}
    refused = server.http.post("/v1/pictures", params={"category": "dresses"}, **bad)
    assert refused.status_code == 422 and refused.json()["code"] == "unreadable-picture"
    assert "GIF89a" not in refused.text


def test_without_training_the_encoder_reads_whole_sentences_as_it_does_for_one_request(
    forked_command, wait_until, project, runs, tmp_path, capsys
):
    catalog = shutil.copytree(runs.catalog, tmp_path / "catalog")
    options = {"encoder": "metadata", "data": catalog, "category": "dresses"}
    words = "i would like to see a dress that is longer, for the office and the evening"
    project.run("search", **options, text=words, count=8, json=True)
    expected = json.loads(capsys.readouterr().out)["products"]
    arguments = [*project.arguments("serve", **options), "--database", f"sqlite:///{tmp_path}/service.db"]
    server = Server(forked_command, wait_until, tmp_path / "serve.txt", arguments[1:])
    try:
        made, token = session(server)
        path = f"/v1/sessions/{made['session_id']}/turns"
        said = server.http.post(path, json={"says": words}, headers=token).json()
    finally:
        server.kill()
    assert [one["product_id"] for one in said["results"]] == [one["id"] for one in expected]


def children(process):
    try:
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # it has just ended
        return []


def test_uploads_go_on_when_their_decoder_is_killed(serve, attribute_runs, runs, wait_until):
    server = serve("--predictor", str(attribute_runs[1]))
    content = next(path for path in runs.catalog.glob("images/**/*") if path.is_file()).read_bytes()
    sent = {"content": content, "headers": {"Content-Type": "image/png"}, "params": {"category": "dresses"}}
    decoders = lambda: [one for child in children(server.process.pid) for one in children(child)]  # noqa: E731
    for _ in range(3):
        assert server.http.post("/v1/pictures", **sent).status_code == 201
        wait_until(decoders, server.process.is_alive)
        for one in decoders():
            os.kill(one, signal.SIGKILL)


UPLOAD = "POST /v1/pictures?category=dresses HTTP/1.1\r\nHost: {host}\r\nContent-Type: image/png\r\n"
FORM = (
    "POST /shop/dresses/say HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
    "Content-Type: application/x-www-form-urlencoded\r\n"
)
LENGTH = "Content-Length: 9000\r\n\r\nkey="


def begun(server, request):
    """A connection on which the beginning of a request was sent."""
    host = server.address.removeprefix("http://")
    connection = socket.create_connection(tuple(host.split(":")), LIMIT)
    connection.sendall(request.format(host=host).encode())
    return connection


def test_the_service_ends_while_clients_send_slowly(serve, monkeypatch, attribute_runs):
    monkeypatch.setattr("fashioniq.service.server.LAST", 0.5)  # of the server, too, which is forked
    server = serve("--predictor", str(attribute_runs[1]), "--log")
    made, token = session(server)
    sent = [begun(server, request) for request in (UPLOAD + LENGTH, FORM + LENGTH, UPLOAD, "")]
    said = {"json": {"says": "is red"}, "headers": token}
    assert server.http.post(f"/v1/sessions/{made['session_id']}/turns", **said).status_code == 201
    server.process.terminate()
    assert ended(server.process) == -signal.SIGTERM
    assert "failed" not in server.out.read_text()
    for one in sent:
        with contextlib.suppress(ConnectionResetError):
            assert one.recv(1) == b"", "no answer to half a request"
        one.close()
    again = serve()
    assert (
        again.http.get(f"/v1/sessions/{made['session_id']}", headers=token).json()["turns"][1]["says"]
        == "is red"
    )


def test_the_file_of_the_database_is_complete_when_the_service_has_ended(serve, tmp_path):
    server = serve()
    made, _ = session(server)
    server.process.terminate()
    assert ended(server.process) == -signal.SIGTERM
    copy = shutil.copy(tmp_path / "log" / "service.db", tmp_path / "backup.db")
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("select id from session").fetchall() == [(made["session_id"],)]
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["service.db"]


def test_a_second_interrupt_ends_the_service_without_a_traceback(serve, wait_until, monkeypatch):
    monkeypatch.setattr(
        "fashioniq.service.server.LAST", 10 * LIMIT
    )  # the connection is cut by the second one alone
    server = serve()
    connection = begun(server, FORM + LENGTH)
    os.kill(server.process.pid, signal.SIGINT)
    wait_until(lambda: is_closed(server), server.process.is_alive)
    os.kill(server.process.pid, signal.SIGINT)
    assert ended(server.process) == 0
    connection.close()
    assert "Traceback" not in server.out.read_text()


def is_closed(server):
    try:
        begun(server, "").close()
    except ConnectionRefusedError:
        return True
    return False


def test_requests_that_are_broken_off_are_no_failures(serve, attribute_runs, wait_until):
    server = serve("--predictor", str(attribute_runs[1]), "--log")
    for number, request in enumerate((UPLOAD, FORM), 1):
        begun(server, request + LENGTH).close()
        wait_until(lambda: server.out.read_text().count(" 400 ") == number, server.process.is_alive)  # noqa: B023
    assert "failed" not in server.out.read_text()


def test_imported_offers_are_served_and_a_later_import_replaces_them(
    serve, runs, project, tmp_path, wait_until, capsys
):
    data, run = tmp_path / "catalog", tmp_path / "models" / "shop"
    shutil.copytree(runs.catalog, data)
    shutil.copytree(runs.retriever, run)
    config = (run / "config.yaml").read_text()
    (run / "config.yaml").write_text(re.sub("(?m)^data: .*$", f"data: {data}", config))
    table = tmp_path / "offers.csv"

    def imported(rows):
        table.write_text("sku;price;sizes;stock;link\n" + "\n".join(rows), encoding="utf-8")
        options = {"table": table, "id": "sku", "data": data, "category": "dresses"}
        columns = {"price": "price", "sizes": "sizes", "stock": "stock", "link": "link"}
        assert main(project.arguments("import-catalog", **options, **columns)) == 0
        return capsys.readouterr().out

    first, second = Catalog(data, "dresses").ids("test")[:2]
    told = imported(
        [f"{first};1.299,00 €;L/S;auf Lager;https://a.b/1", f"{second};?;;ausverkauft;", "x;5 €;;;"]
    )
    assert (
        "2 of 60 products have an offer" in told
        and "not read: 1 × price" in told
        and "no such product" in told
    )
    servers = [serve("--models", str(run.parent), "--split", "all", run=run) for _ in range(2)]
    path = "/v1/categories/dresses/products"

    def shown(server, name):
        one = server.http.get(f"{path}/{name}").json()
        return [one[field] for field in ("price", "sizes", "in_stock", "url")]

    dear = {
        "filters": {"price": {"gte": 100_000, "currency": "EUR"}, "sizes": {"any": ["S"]}, "in_stock": True}
    }
    for server in servers:
        assert shown(server, first) == [
            {"minor": 129_900, "currency": "EUR"},
            ["S", "L"],
            True,
            "https://a.b/1",
        ]
        assert shown(server, second) == [None, None, False, None]
        found = server.http.post("/v1/categories/dresses/search", json=dear).json()
        assert [one["product_id"] for one in found["results"]] == [first] and found["eligible"] == 1
    put = {"products": [{"id": second, "price": {"minor": 100, "currency": "EUR"}}]}
    assert servers[0].http.put(path, json=put).json()["items"][0]["status"] == 201
    imported([f"{first};19,90 €;M;0;", f"{second};5 €;;;"])
    assert servers[0].http.post("/v1/models", json={"run": "shop"}).status_code == 201
    new = [{"minor": 1990, "currency": "EUR"}, ["M"], False, None]
    wait_until(lambda: shown(servers[1], first) == new, servers[1].process.is_alive)
    assert shown(servers[0], first) == new
    for server in (*servers, serve(run=run)):
        assert shown(server, second)[0] == {"minor": 100, "currency": "EUR"}, "what came by REST stays"


def test_killed_under_load_no_acknowledged_turn_is_lost_or_doubled(serve, tmp_path, wait_until):
    acknowledged, server = {}, serve()
    lock = threading.Lock()

    def shopper(number):
        with contextlib.suppress(httpx.HTTPError, KeyError):
            made, token = session(server)
            for turn in range(1, 20):
                answer = server.http.post(
                    f"/v1/sessions/{made['session_id']}/turns",
                    json={"says": "is red", "after_turn": turn - 1},
                    headers=token | {"Idempotency-Key": f"{number}-{turn}"},
                )
                if answer.status_code == 201:
                    with lock:
                        acknowledged[answer.json()["query_id"]] = made["session_id"], turn

    for kill in range(3):
        threads = [threading.Thread(target=shopper, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        before = len(acknowledged)
        enough = before + 5 + 3 * kill
        wait_until(lambda: len(acknowledged) >= enough, server.process.is_alive)  # noqa: B023
        server.kill()
        joined(*threads)
        server = serve()
    with contextlib.closing(sqlite3.connect(tmp_path / "log/service.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        rows = database.execute("SELECT query_id, session_id, n FROM turn WHERE n > 0").fetchall()
        doubled = (
            "SELECT count(*) FROM turn WHERE undone_at IS NULL GROUP BY session_id, n HAVING count(*) > 1"
        )
        assert database.execute(doubled).fetchall() == []
    stored = {query: (owner, n) for query, owner, n in rows}
    assert acknowledged and {query: stored.get(query) for query in acknowledged} == acknowledged
    assert server.http.get("/readyz").status_code == 200


def test_killed_while_the_database_is_locked_no_accepted_event_is_lost(
    serve, tmp_path, wait_until, monkeypatch
):
    monkeypatch.setattr("fashioniq.service.store.engine.WAIT", 0.1)  # of the servers, too, which are forked
    path, servers = tmp_path / "log/service.db", [serve(), serve()]
    made, _ = session(servers[0])

    def send(server, number):
        event = {
            "event_id": f"e{number}",
            "action_name": "click",
            "query_id": made["last"]["query_id"],
            "session_id": made["session_id"],
            "timestamp": "2026-11-22T10:00:00Z",
            "event_attributes": {"object": {"object_id": made["last"]["results"][0]["product_id"]}},
        }
        return server.http.post("/v1/events", json={"events": [event]}).status_code

    def stored():
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows = database.execute("SELECT event_id FROM event ORDER BY server_at").fetchall()
        return [id for (id,) in rows]

    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert [send(servers[number % 2], number) for number in range(6)] == [202] * 6
        servers[0].kill()
        assert stored() == []
        other.rollback()
    wait_until(lambda: len(stored()) == 6, servers[1].process.is_alive)
    assert stored() == [f"e{number}" for number in range(6)]
    wait_until(lambda: not list(path.parent.glob("*-events-*")), servers[1].process.is_alive)


def test_mistakes_of_the_command_are_one_line(refused, runs, tmp_path, sample):
    common = {"run": [runs.retriever], "database": f"sqlite:///{tmp_path}/service.db", "port": 0}
    assert "--run" in refused("serve", **common | {"run": []})
    assert "cannot listen" in refused("serve", **common, host="192.0.2.1")
    assert "cannot listen" in refused("serve", **common, host="漢字 кириллица")
    assert "cannot" in refused("serve", **common | {"database": f"sqlite:///{sample}/catalog.json/x.db"})
    assert "cannot" in refused("serve", **common, spool=f"{sample}/catalog.json/x")
    assert "captioner" in refused("serve", **common | {"run": [runs.captioner]})
    again = shutil.copytree(runs.retriever, tmp_path / "again")
    told = refused("serve", **common | {"run": [runs.retriever, again]})
    assert told.startswith(f"error: {runs.retriever} and {again} are both of the category dresses")
    assert "train-dialog-encoder" in refused("serve", **common, generator="drawn:1")
    assert "--data and --category go with --encoder" in refused("serve", **common, data=sample)


def test_a_predictor_of_other_features_is_noted(serve, attribute_runs):
    of_all, of_dresses = map(str, attribute_runs)
    printed = serve("--predictor", of_all, of_dresses).out.read_text()
    assert f"--predictor {of_all} has not computed the features" in printed and of_dresses not in printed


def test_a_picture_begins_a_conversation_on_the_page(serve, attribute_runs, runs):
    server = serve("--predictor", str(attribute_runs[1]))
    browser, origin = server.http, {"Origin": server.address}
    page = browser.get("/shop/dresses").text
    key = re.search(r'name="key" value="([^"]+)"', page)[1]
    assert 'type="file"' in page
    content = next(path for path in runs.catalog.glob("images/**/*") if path.is_file()).read_bytes()
    files = {"picture": ("mine.png", content, "image/png")}
    sent = browser.post("/shop/dresses/picture", data={"key": key}, files=files, headers=origin)
    assert sent.status_code == 303
    begun = browser.get("/shop/dresses").text
    assert "You began with a picture of yours" in begun and "mine.png" not in begun
    key = re.search(r'name="key" value="([^"]+)"', begun)[1]
    about = re.search(r'name="about" value="([^"]+)"', begun)[1]
    said = {"key": key, "says": "is red", "after_turn": "0", "about": about}
    assert browser.post("/shop/dresses/say", data=said, headers=origin).status_code == 303
    assert "about your picture" in browser.get("/shop/dresses").text
    files = {"picture": ("mine.png", b"<script>alert(1)</script>", "image/png")}
    refused = browser.post("/shop/dresses/picture", data={"key": key}, files=files, headers=origin)
    assert refused.status_code == 422 and "This picture cannot be read" in refused.text
    other = browser.post(
        "/shop/dresses/picture", data={"key": key}, files=files, headers={"Origin": "http://evil"}
    )
    assert other.status_code == 403


def test_the_examples_of_the_documentation_work_word_for_word(serve, runs, tmp_path):
    text = (Path(__file__).parents[2] / "docs/service.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4 and shutil.which("curl") and shutil.which("jq")
    script = "\n".join(blocks).replace("curl -s ", "curl -sS --fail-with-body ")
    name = Catalog(runs.catalog, "dresses").ids("test")[0]
    script = script.replace("http://127.0.0.1:8000", serve().address).replace("D000000064", name)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr
    first, later = (json.loads((tmp_path / name).read_text()) for name in ("session.json", "turn.json"))
    assert first["last"]["holding"][0]["text"] == "red or navy"
    assert [one["said"] for one in later["heard"]["changed"]] == ["wiht", "slevees"]
    assert later["facets"]["families"] and len(later["holding"]) == 2
    assert done.stdout.count('"results"') == 6 and '"parts"' in done.stdout


def test_a_generated_client_makes_the_requests_of_the_documentation(
    serve, runs, attribute_runs, tmp_path, monkeypatch
):
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if (generator := shutil.which("openapi-python-client", path=beside)) is None:
        pytest.skip("openapi-python-client is not installed")
    server = serve("--predictor", str(attribute_runs[1]))
    made = subprocess.run(
        [generator, "generate", "--url", f"{server.address}/openapi.json", "--output-path", tmp_path / "shop_client",
         "--meta", "none", "--fail-on-warning"],
        env={**os.environ, "PATH": beside}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    monkeypatch.syspath_prepend(tmp_path)

    def call(name, *path, client, **options):
        answer = import_module(f"shop_client.api.{name}").sync_detailed(*path, client=client, **options)
        assert answer.status_code < 300, answer.content
        return answer.parsed

    shop, types = import_module("shop_client"), import_module("shop_client.models")
    product = Catalog(runs.catalog, "dresses").ids("test")[0]
    with shop.Client(base_url=server.address, raise_on_unexpected_status=True) as client:
        said = [
            types.SearchTurnBody(says="a red dress with long sleeves"),
            types.SearchTurnBody(says="not floral"),
        ]
        body = types.SearchBody(turns=said, k=3, facets=True)
        ranking = call("search.find", "dresses", client=client, body=body)
        assert len(ranking.results) == 3 and ranking.facets.families and ranking.holding[-1].denied
        said = [types.SearchTurnBody(about=product, says="is navy with longer sleeves")]
        body = types.SearchBody(turns=said, k=3, explain=True)
        assert call("search.find", "dresses", client=client, body=body).results[0].parts.wishes
        assert call("search.similar", "dresses", product, client=client, k=4).results
        price = types.PriceBody(minor=5990, currency="EUR")
        offer = types.ProductBody(
            id=product, price=price, sizes=["S", "M", "L"], in_stock=True, url="https://shop.example/1"
        )
        body = types.ProductsBody(products=[offer])
        answer = call("catalog.put", "dresses", client=client, body=body)
        assert not answer.errors and answer.items[0].status in (200, 201)
        content = next(path for path in runs.catalog.glob("images/**/*") if path.is_file()).read_bytes()
        file = import_module("shop_client.types").File(payload=BytesIO(content))
        assert call("sessions.upload", client=client, category="dresses", body=file).picture_id
        body = types.SessionBody(category="dresses", start=types.StartBody(text="red or navy"))
        begun = call("sessions.start", client=client, body=body)
        assert begun.last.holding[0].text == "red or navy"

    with shop.AuthenticatedClient(base_url=server.address, token=begun.session_token) as client:

        def turn(key=shop.types.UNSET, **fields):
            body = types.TurnBody(**fields)
            return call("sessions.turn", begun.session_id, client=client, body=body, idempotency_key=key)

        fields = {"says": "wiht longer slevees", "after_turn": 0, "facets": True}
        first = turn("5f0c", **fields)
        assert [one.said for one in first.heard.changed] == ["wiht", "slevees"] and first.facets.families
        assert turn("5f0c", **fields).query_id == first.query_id
        assert any(one.denied for one in turn(wish=types.LabelWishBody(label="floral", denied=True)).holding)
        assert turn(says="under 100 euros, in M").filters.price.lte == 10000
        shown = turn(less_like=first.results[0].product_id)
        assert first.results[0].product_id not in [one.product_id for one in shown.results]
        last = turn(drop=first.holding[0].id)
        assert first.holding[0].id not in [one.id for one in last.holding]
        undone = call("sessions.undo", begun.session_id, last.turn, client=client)
        assert undone.last.query_id == shown.query_id
        assert len(call("sessions.read", begun.session_id, client=client).turns) == last.turn
        call("sessions.erase", begun.session_id, client=client)
