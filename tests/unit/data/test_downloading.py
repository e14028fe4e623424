"""Pictures from a server that does all that servers do."""

import errno
import gzip
import io
import socket
import threading
import time
from collections import Counter
from dataclasses import replace
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from fashioniq import http
from fashioniq.files import UserError
from fashioniq.locks import locked
from fashioniq.prepare import fetching
from fashioniq.prepare.catalog_pictures import coverage
from fashioniq.prepare.downloading import TEMPORARY, Outcome, download, read_addresses
from fashioniq.prepare.fetching import Limits
from tests.waiting import LIMIT, joined

QUICK = Limits(
    connections=16, per_host=16, retries=2, timeout=60.0, max_bytes=50_000
)  # pauses are short; a busy machine has its time


def picture(seed=0, size=40, kind="JPEG"):
    pixels = np.random.default_rng(seed).integers(0, 255, (size, size, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def answer(content=b"", status=200, length=None, **headers):
    """A page; with another `length` than it has, the connection ends too early."""

    def page(handler, _):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content) if length is None else length))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(content)
        handler.close_connection = length is not None

    return page


def after(count, first, then):
    """`first` to the first `count` requests, `then` to the others."""
    return lambda handler, number: (first if number <= count else then)(handler, number)


def never(handler, _):
    handler.server.closing.wait(LIMIT)
    handler.close_connection = True


def endless(content, pause):
    def page(handler, _):
        handler.close_connection = True
        handler.send_response(200)
        handler.end_headers()
        while not handler.server.closing.wait(pause):
            handler.wfile.write(content)

    return page


def together(count, page):
    """`page` to each request once `count` of them have been waiting at the same time, and a little later, so
    that more could come.
    """

    def waiting(handler, number):
        if handler.server.at_work >= count:
            handler.server.enough.set()
        handler.server.enough.wait(LIMIT)
        time.sleep(0.02)
        page(handler, number)

    return waiting


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        with server.lock:
            server.asked[self.path] += 1
            number = server.asked[self.path]
            server.at_work += 1
            server.most_at_work = max(server.most_at_work, server.at_work)
        try:
            server.pages.get(self.path, answer(status=404))(self, number)
        except OSError:
            self.close_connection = True  # the downloader went away
        finally:
            with server.lock:
                server.at_work -= 1

    def log_message(self, *_):
        pass


@pytest.fixture
def web(monkeypatch):
    """A server: `pages` is what it gives, `asked` how often each was asked for, `address(path)` where it is."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(http, "PAUSE", 0.01)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads, server.handle_error = True, lambda *_: None  # the downloader may go away
    server.pages, server.asked, server.lock, server.closing = (
        {},
        Counter(),
        threading.Lock(),
        threading.Event(),
    )
    server.at_work, server.most_at_work, server.enough = 0, 0, threading.Event()
    server.address = lambda path: f"http://127.0.0.1:{server.server_port}{path}"
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    yield server
    server.closing.set()
    server.enough.set()
    server.shutdown()
    joined(thread)
    server.server_close()


@pytest.fixture
def nobody():
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/a.jpg"


@pytest.fixture
def two(web):
    """Two ids and their addresses."""
    web.pages |= {"/a.jpg": answer(picture(0)), "/b.jpg": answer(picture(1))}
    return {name: [web.address(f"/{name}.jpg")] for name in "ab"}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def told(outcomes):
    return {name: str(outcome) for name, outcome in outcomes.items()}


def test_every_answer_is_handled_and_named(web, tmp_path):
    good = picture()
    web.pages = {
        "/good": answer(good),
        "/500-twice": after(2, answer(status=500), answer(picture(1))),
        "/503": answer(status=503),
        "/empty": answer(),
        "/truncated": answer(good[: len(good) // 2]),
        "/html": answer(b"\n<!DOCTYPE html><html>Not here", Content_Type="image/jpeg"),
        "/moved": answer(status=302, Location="/moved-again"),
        "/moved-again": answer(status=301, Location=web.address("/good")),
        "/circle": answer(status=302, Location="/circle"),
        "/to-ftp": answer(status=302, Location="ftp://127.0.0.1/a.jpg"),
        "/endless": endless(b"x" * 10_000, 0.0),
        "/large": answer(b"x" * 50_001),
        "/packed": answer(
            gzip.compress(bytes(10**6)), Content_Encoding="gzip"
        ),  # which would be unpacked by the client
        "/tiny": answer(picture(2, 10)),
        "/png.jpg": answer(picture(3, kind="PNG")),
        "/cut": answer(good[:100], length=len(good)),
        "/cut-once": after(1, answer(good[:100], length=len(good)), answer(good)),
        "/410": answer(status=410),
        "/429-once": after(1, answer(status=429, Retry_After="0"), answer(picture(4, kind="WEBP"))),
    }
    addresses = {path[1:].removesuffix(".jpg"): [web.address(path)] for path in [*web.pages, "/404"]}
    addresses |= {
        "none": [],
        "file": ["file:///etc/passwd"],
        "word": ["nowhere"],
        "odd-port": ["http://127.0.0.1:a/"],
    }
    outcomes = download(addresses, tmp_path / "images", QUICK)
    assert told(outcomes) == {
        "good": "got",
        "500-twice": "got",
        "503": "failed: 503",
        "empty": "broken: empty",
        "truncated": "broken: OSError: " + told(outcomes)["truncated"].removeprefix("broken: OSError: "),
        "html": "broken: HTML instead of a picture",
        "moved": "got",
        "moved-again": "got",
        "circle": "dead: more than 5 redirects",
        "to-ftp": "dead: not an http or https address",
        "endless": "broken: larger than 0.05 MB",
        "large": "broken: larger than 0.05 MB",
        "packed": told(outcomes)["packed"],
        "tiny": "too small: 10×10 pixels",
        "png": "got",
        "cut": "failed: the connection broke off",
        "cut-once": "got",
        "410": "dead: 410",
        "429-once": "got",
        "404": "dead: 404",
        "none": "no address",
        "file": "dead: not an http or https address",
        "word": "dead: not an http or https address",
        "odd-port": "dead: not an http or https address",
    }
    assert "truncated" in told(outcomes)["truncated"]
    assert told(outcomes)["packed"].startswith("broken: ") and "larger" not in told(outcomes)["packed"]
    got = {
        "good": ".jpg",
        "500-twice": ".jpg",
        "moved": ".jpg",
        "moved-again": ".jpg",
        "png": ".png",
        "cut-once": ".jpg",
        "429-once": ".webp",
    }
    assert names(tmp_path / "images") == sorted(name + suffix for name, suffix in got.items())
    assert (tmp_path / "images" / "moved.jpg").read_bytes() == good
    asked = {
        "/500-twice": 3,
        "/503": 3,
        "/cut": 3,
        "/404": 1,
        "/410": 1,
        "/html": 1,
        "/empty": 1,
        "/large": 1,
        "/tiny": 1,
    }
    assert {path: web.asked[path] for path in asked} == asked


def test_what_does_not_come_in_time_is_given_up(web, tmp_path):
    web.pages = {"/never": never, "/trickle": endless(b"x", 0.05)}
    outcomes = download(
        {path[1:]: [web.address(path)] for path in web.pages}, tmp_path, replace(QUICK, timeout=2.0)
    )
    assert told(outcomes) == {
        "never": "failed: no answer from 127.0.0.1: none within 2 seconds",
        "trickle": "failed: not whole within 2 seconds",
    }
    assert 2 <= web.asked["/trickle"] <= 3  # a busy machine may not get to answer


def test_a_picture_of_32_pixels_is_large_enough_and_one_of_31_is_not(web, tmp_path):
    web.pages = {f"/{side}": answer(picture(size=side)) for side in (31, 32)}
    outcomes = download({path[1:]: [web.address(path)] for path in web.pages}, tmp_path, QUICK)
    assert told(outcomes) == {"31": "too small: 31×31 pixels", "32": "got"}


def test_each_further_attempt_comes_after_a_longer_pause(web, tmp_path, monkeypatch):
    monkeypatch.setattr(http, "PAUSE", 0.1)
    when = []

    def busy(handler, number):
        when.append(time.monotonic())
        answer(status=503)(handler, number)

    web.pages["/busy"] = busy
    assert told(download({"busy": [web.address("/busy")]}, tmp_path, Limits(retries=3))) == {
        "busy": "failed: 503"
    }
    assert all(
        later - earlier > pause
        for (earlier, later), pause in zip(pairwise(when), (0.1, 0.2, 0.4), strict=True)
    )


def test_the_first_sound_picture_of_several_addresses_is_taken(web, tmp_path, two):
    web.pages["/empty"] = answer()
    several = [web.address(path) for path in ("/404", "/empty", "/b.jpg", "/a.jpg")]
    outcomes = download({"several": several, "none": several[:2]}, tmp_path, QUICK)
    assert told(outcomes) == {"several": "got", "none": "broken: empty"}
    assert contents(tmp_path) == {"several.jpg": picture(1)}
    assert web.asked == {"/404": 1, "/empty": 1, "/b.jpg": 1}


def test_an_address_of_many_ids_is_asked_for_once(web, tmp_path, two):
    outcomes = download({name: two["a"] for name in ("x", "y.z", "a")}, tmp_path, QUICK)
    assert contents(tmp_path) == dict.fromkeys(("x.jpg", "y.z.jpg", "a.jpg"), picture(0))
    assert web.asked == {"/a.jpg": 1} and len({outcome.checksum for outcome in outcomes.values()}) == 1


def test_the_order_of_the_ids_does_not_matter(web, tmp_path, two):
    addresses = {**two, "both": [*two["b"], *two["a"]], "dead": [web.address("/404")], "same": two["a"]}
    outcomes = download(addresses, tmp_path / "one", QUICK)
    turned = download(dict(reversed(addresses.items())), tmp_path / "other", QUICK)
    assert told(outcomes) == told(turned) and list(outcomes) == list(reversed(turned))
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_a_complete_folder_is_left_as_it_is_and_nothing_is_asked_for(web, tmp_path, two):
    first = download(two, tmp_path, QUICK)
    web.asked.clear()
    assert download(two, tmp_path, QUICK) == first
    assert not web.asked and names(tmp_path) == ["a.jpg", "b.jpg"]


def test_only_what_is_missing_or_broken_is_asked_for(web, tmp_path, two):
    web.pages["/c.jpg"] = answer(picture(2, kind="PNG"))
    (tmp_path / "a.png").write_bytes(picture(7, kind="PNG"))
    (tmp_path / "b.jpg").write_bytes(picture(1)[:300])
    (tmp_path / "c.jpg").touch()
    (tmp_path / "other.jpg").write_bytes(b"not ours")
    (tmp_path / TEMPORARY).mkdir()
    (tmp_path / TEMPORARY / "b").write_bytes(b"of a run that was killed")
    outcomes = download({**two, "c": [web.address("/c.jpg")]}, tmp_path, QUICK)
    assert set(told(outcomes).values()) == {"got"} and web.asked == {"/b.jpg": 1, "/c.jpg": 1}
    assert names(tmp_path) == ["a.png", "b.jpg", "c.png", "other.jpg"] and (
        tmp_path / "b.jpg"
    ).read_bytes() == picture(1)


def test_pictures_that_lie_elsewhere_are_not_asked_for(web, tmp_path, two):
    (tmp_path / "older.jpg").write_bytes(picture(5))
    outcomes = download(
        two,
        tmp_path / "images",
        QUICK,
        there={"a": tmp_path / "older.jpg", "not asked": tmp_path / "none.jpg"},
    )
    assert outcomes["a"].picture == tmp_path / "older.jpg" and names(tmp_path / "images") == ["b.jpg"]


@pytest.mark.parametrize(("connections", "per_host"), [(3, 16), (16, 3)])
def test_no_more_downloads_at_a_time_than_allowed(web, tmp_path, connections, per_host):
    web.pages = {f"/{number}": together(3, answer(picture())) for number in range(20)}
    download(
        {path[1:]: [web.address(path)] for path in web.pages},
        tmp_path,
        Limits(connections=connections, per_host=per_host),
    )
    assert web.most_at_work == 3 and len(names(tmp_path)) == 20


@pytest.mark.parametrize("as_date", [False, True])
def test_a_server_that_asks_for_a_rest_gets_it(web, tmp_path, two, as_date):
    when = []

    def limited(handler, number):
        when.append(time.time())
        page = (
            answer(picture())
            if number > 1
            else answer(status=429, Retry_After=formatdate(time.time() + 2, usegmt=True) if as_date else "1")
        )
        page(handler, number)

    def note(handler, number):
        when.append(time.time())
        answer(picture(1))(handler, number)

    web.pages |= {"/a.jpg": limited, "/b.jpg": note}
    outcomes = download(two, tmp_path, Limits(connections=1, retries=1))
    assert set(told(outcomes).values()) == {"got"}
    assert when[1] - when[0] > 0.9  # whichever address came next


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7), ("86400", 120), ("-3", 0), ("", 0), ("soon", 0), ("nan", 0), ("9" * 5000, 0)],
)
def test_the_rest_that_a_server_asks_for_is_within_reason(value, seconds):
    assert http.asked_rest(value) == seconds


def test_no_odd_address_stops_a_run(web, tmp_path, two):
    odd = [
        "http://xn--/",
        "http://127.0.0.1:99999/",
        "http://127.0.0.1:a/",
        "http://[::1",
        "http:///x",
        "http://\ud800/",
        "//a/b",
        "",
    ]
    outcomes = download({str(place): [address] for place, address in enumerate(odd)} | two, tmp_path, QUICK)
    assert {outcomes[str(place)].reason for place in range(len(odd))} == {"dead"} and names(tmp_path) == [
        "a.jpg",
        "b.jpg",
    ]


@pytest.mark.parametrize(
    ("variable", "value"), [("ALL_PROXY", "odd://127.0.0.1"), ("SSL_CERT_FILE", "/nowhere/certificates.pem")]
)
def test_an_environment_that_cannot_be_used_is_told(tmp_path, two, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=variable):
        download(two, tmp_path, QUICK)


def test_a_host_that_stays_silent_is_given_up(web, tmp_path, nobody, two, monkeypatch):
    monkeypatch.setattr(fetching, "GIVE_UP", 0.2)
    monkeypatch.setattr(http, "PAUSE", 0.1)
    gone = {f"gone{number}": [f"{nobody}?{number}"] for number in range(1000)}
    attempts, silent = [], fetching._Host.silent
    monkeypatch.setattr(fetching._Host, "silent", lambda host, why: attempts.append(why) or silent(host, why))
    outcomes = download({**gone, **two}, tmp_path, Limits(connections=2, retries=20))
    assert len(attempts) < 200  # not 21 for each of 1,000 addresses
    assert {told(outcomes)[name] for name in gone} == {
        "failed: no answer from 127.0.0.1: All connection attempts failed"
    }
    assert names(tmp_path) == ["a.jpg", "b.jpg"]


def test_without_a_network_one_line_says_so(web, tmp_path, nobody):
    with pytest.raises(
        UserError,
        match=r"^no picture could be downloaded: no answer from 127.0.0.1: .*check the network[^\n]*$",
    ):
        download({"a": [nobody], "none": []}, tmp_path / "images", QUICK)
    assert names(tmp_path / "images") == []
    outcomes = download({"a": [nobody], "none": []}, tmp_path / "images", QUICK, require_answer=False)
    assert [outcome.reason for outcome in outcomes.values()] == ["failed", "no address"]


def test_a_network_that_went_away_loses_nothing(web, tmp_path, nobody, two):
    download(two, tmp_path, QUICK)
    assert told(download({**two, "c": [nobody]}, tmp_path, QUICK))["a"] == "got"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_cannot_be_written_is_told(web, tmp_path, two, monkeypatch, number):
    def broken(path, *_, **__):
        raise OSError(number, "the disk")

    monkeypatch.setattr(fetching, "open", broken, raising=False)
    with pytest.raises(
        UserError, match="no space left" if number == errno.ENOSPC else "cannot write .*: the disk"
    ):
        download(two, tmp_path, QUICK)
    assert names(tmp_path) == []


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "images").touch()
    with pytest.raises(UserError, match=r"cannot write .*images"):
        download({"a": []}, tmp_path / "images")


@pytest.mark.parametrize("name", ["", "../a", "a/b", ".a", "a" * 201, "a\0"])
def test_an_id_that_cannot_be_a_file_is_refused(tmp_path, name):
    with pytest.raises(UserError, match="is not a valid file name"):
        download({"good": [], name: []}, tmp_path / "images")
    assert not (tmp_path / "images").exists()


def test_two_downloads_into_one_folder_do_not_meet(tmp_path):
    with locked(tmp_path), pytest.raises(UserError, match="another process"):
        download({"a": []}, tmp_path)


def test_coverage_adds_up_and_counts_equal_pictures():
    outcomes = {
        "a": Outcome("got", picture="a.jpg", checksum="1"),
        "b": Outcome("dead", "404"),
        "c": Outcome("got", picture="c.jpg", checksum="1"),
        "d": Outcome("no address"),
        "e": Outcome("got", picture="e.jpg", checksum="2"),
    }
    found = coverage({"train": ["a", "b"], "val": ["e", "c", "d"]}, outcomes)
    nothing = {"dead": 0, "broken": 0, "too small": 0, "failed": 0, "no address": 0, "duplicates": 0}
    assert found == {
        "splits": {
            "train": {"asked": 2, **nothing, "got": 1, "dead": 1},
            "val": {"asked": 3, **nothing, "got": 2, "no address": 1, "duplicates": 1},
        },
        "missing": {"b": "dead: 404", "d": "no address"},
    }


def test_lists_of_addresses_are_read_as_published(tmp_path):
    path = tmp_path / "asin2url.dress.txt"
    text = "\ufeffA1 \t http://a/1.jpg\r\n\nB2\thttp://b/2%2B.jpg?x=1 \nNONE \t \nA1 http://a/other.jpg\nA1 http://a/1.jpg"
    path.write_text(text, encoding="utf-8")
    assert read_addresses(path) == {
        "A1": ["http://a/1.jpg", "http://a/other.jpg"],
        "B2": ["http://b/2%2B.jpg?x=1"],
    }


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "no address"), (b"A1,http://a/1.jpg\n", "no address.*A1,http"), (b"\xff\xd8\xff\xe0", "UTF-8")],
)
def test_what_is_no_list_of_addresses_is_refused(tmp_path, content, what):
    (tmp_path / "list.txt").write_bytes(content)
    with pytest.raises(UserError, match=what):
        read_addresses(tmp_path / "list.txt")
    with pytest.raises(UserError, match="there is no list of addresses"):
        read_addresses(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("category", "ids", "addresses"),
    [("dress", 19087, 18026), ("shirt", 31728, 31070), ("toptee", 26869, 26534)],
)
def test_the_published_lists_are_read_whole(shared, category, ids, addresses):
    read = read_addresses(shared / "fashioniq" / "image_url" / f"asin2url.{category}.txt")
    assert len(read) == ids and all(len(several) == 1 for several in read.values())
    assert len({several[0] for several in read.values()}) == addresses
