"""Generators on a server, against a server of this process."""

import base64
import io
import json
import sys
import threading

import numpy as np
import pytest
from PIL import Image

from fashioniq.files import UserError
from fashioniq.generators import endpoint as endpoints
from fashioniq.generators.endpoint import PictureEndpoint
from fashioniq.generators.pictures import PictureRequest
from fashioniq.llm.endpoint import BASE, KEY as KEY_NAME

pytest.importorskip("openai", reason="the extra chat is not installed")
KEY = "sk-very-secret-1234"
GOOD = PictureRequest("good", 0)


def picture(size=32, seed=0):
    pixels = np.random.default_rng(seed).integers(0, 256, (size, size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(file := io.BytesIO(), "PNG")
    return file.getvalue()


def black():
    Image.new("RGB", (32, 32)).save(file := io.BytesIO(), "PNG")
    return file.getvalue()


def drawn(content=None, **further):
    data = {"b64_json": base64.b64encode(content or picture()).decode(), **further}
    return 200, {}, json.dumps({"created": 0, "data": [data]}).encode()


def linked(url):
    return 200, {}, json.dumps({"data": [{"url": url}]}).encode()


def refusal(status, **error):
    return status, {}, json.dumps({"error": error}).encode()


@pytest.fixture
def serve(http_server, monkeypatch):
    """Start a server that answers requests for pictures by their prompt, "good" ones with a picture of noise,
    and other addresses from `files`; it keeps what it was asked.
    """

    def start(answers, files=None):
        def reply(handler):
            length = int(handler.headers.get("Content-Length") or 0)
            body = json.loads(handler.rfile.read(length)) if length else None
            with server.lock:
                server.asked.append((handler.path, body))
                server.headers.append({name.lower(): value for name, value in handler.headers.items()})
            if body is None:
                found = files[handler.path]
            else:
                found = drawn() if body["prompt"] == "good" else answers[body["prompt"]]
            status, headers, content = found(server) if callable(found) else found
            handler.send_response(status)
            for name, value in {"Content-Length": len(content), **headers}.items():
                handler.send_header(name, str(value))
            handler.end_headers()
            handler.wfile.write(content)

        server = http_server(reply)
        server.asked, server.headers = [], []
        monkeypatch.setenv(BASE, f"{server.address}/v1")
        return server

    monkeypatch.setenv(KEY_NAME, KEY)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    monkeypatch.setattr("fashioniq.http.PAUSE", 0.01)
    return start


def one_of(server_answer, serve, files=None, **options):
    """Outcome of a request beside one that works, and how often it was asked."""
    server = serve({"odd": server_answer}, files)
    endpoint = PictureEndpoint("model", **{"size": 32, "retries": 1, **options})
    good, odd = endpoint.generate([GOOD, PictureRequest("odd", 0)])
    assert good.status == "ok"
    return odd, sum(body is not None and body["prompt"] == "odd" for _, body in server.asked)


def test_pictures_come_in_the_order_of_their_requests(serve):
    server = serve({str(number): drawn(picture(seed=number)) for number in range(9)})
    found = PictureEndpoint("model", 32).generate([PictureRequest(str(number), 7) for number in range(9)])
    for number, one in enumerate(found):
        expected = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        assert np.array_equal(np.asarray(one.picture), expected)
        assert (one.status, one.seed, one.sent, one.revised) == ("ok", None, str(number), None)
    assert sorted(body["prompt"] for _, body in server.asked) == [str(number) for number in range(9)]
    path, body = server.asked[0]
    assert path == "/v1/images/generations"
    assert {**body, "prompt": ""} == {"model": "model", "prompt": "", "n": 1, "size": "32x32"}
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_no_request_needs_no_server(monkeypatch):
    monkeypatch.delenv(BASE, raising=False)
    endpoint = PictureEndpoint("model", 512)
    assert endpoint.generate([]) == []
    assert endpoint.identity == {"backend": "endpoint", "model": "model", "size": 512}


def test_without_a_size_the_server_chooses(serve):
    server = serve({"a": drawn(picture(48))})
    (one,) = PictureEndpoint("model", None).generate([PictureRequest("a", 0)])
    assert one.status == "ok" and one.picture.size == (48, 48) and "size" not in server.asked[0][1]


def test_the_prompt_of_the_server_is_kept(serve):
    odd, _ = one_of(drawn(revised_prompt="a very red dress"), serve)
    assert (odd.sent, odd.revised) == ("odd", "a very red dress")


def test_an_address_is_downloaded_without_the_key(serve):
    files = {"/moved": (302, {"Location": "/picture.png"}, b""), "/picture.png": (200, {}, picture(seed=5))}
    server = serve({"a": lambda server: linked(f"{server.address}/moved")}, files)
    (one,) = PictureEndpoint("model", 32).generate([PictureRequest("a", 0)])
    assert one.status == "ok"
    assert [path for path, _ in server.asked] == ["/v1/images/generations", "/moved", "/picture.png"]
    assert "authorization" in server.headers[0]
    assert all("authorization" not in headers for headers in server.headers[1:])


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ((404, {}, b""), "could not be downloaded: 404"),
        ((500, {}, b""), "could not be downloaded: 500"),
        ((200, {}, b"no picture"), "unreadable picture"),
        ((200, {}, b"x" * 100_001), "larger than 0.1 MB"),
    ],
)
def test_a_picture_that_cannot_be_downloaded_is_an_error(serve, monkeypatch, file, reason):
    monkeypatch.setattr(endpoints, "MOST_BYTES", 100_000)
    odd, _ = one_of(lambda server: linked(f"{server.address}/a"), serve, {"/a": file})
    assert (odd.picture, odd.status) == (None, "error") and reason in odd.reason


def test_only_http_addresses_are_downloaded(serve):
    odd, _ = one_of(linked("file:///etc/passwd"), serve)
    assert odd.status == "error" and "not an http or https address" in odd.reason


@pytest.mark.parametrize("code", ["moderation_blocked", "content_policy_violation"])
@pytest.mark.parametrize("key", ["code", "type"])
def test_a_blocked_prompt_is_not_asked_again(serve, code, key):
    odd, asked = one_of(refusal(400, **{key: code, "message": "no"}), serve)
    assert (odd.picture, odd.status, asked) == (None, "blocked", 1) and code in odd.reason


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        ((429, {}, b""), "error", "status 429"),
        ((500, {}, b"oops"), "error", "status 500"),
        ((504, {}, b""), "timeout", "status 504"),
        ((200, {}, b'{"data": []}'), "error", "answer without a picture"),
        ((200, {}, b'{"data": null}'), "error", "answer without a picture"),
        ((200, {}, b'{"data": [{"b64_json": null}]}'), "error", "answer without a picture"),
        ((200, {}, b"["), "error", "answer without a picture"),
    ],
)
def test_failures_that_may_pass_are_reported_after_all_attempts(serve, answer, status, reason):
    odd, asked = one_of(answer, serve)
    assert (odd.picture, odd.status, odd.reason, asked) == (None, status, reason, 2)


def test_an_answer_that_does_not_come_is_a_timeout(serve, monkeypatch):
    late = threading.Event()
    serve({"odd": lambda server: late.wait(60) and drawn()})
    good = PictureEndpoint("model", 32, retries=0)
    assert good.generate([GOOD])[0].status == "ok"
    good.timeout = 0.2
    (odd,) = good.generate([PictureRequest("odd", 0)])
    assert (odd.status, odd.reason) == ("timeout", "not complete within 0.2 seconds")
    assert not late.is_set()
    late.set()


@pytest.mark.parametrize("content", [b"no picture", picture()[:500], b"\xff\xd8\xff"])
def test_a_corrupt_picture_is_an_error(serve, content):
    odd, asked = one_of(drawn(content), serve)
    assert (odd.picture, odd.status, asked) == (None, "error", 1) and "unreadable picture" in odd.reason


def test_what_is_not_base64_is_an_error(serve):
    odd, _ = one_of(drawn(b64_json="abc"), serve)
    assert (odd.status, odd.reason) == ("error", "unreadable picture: not in base64")


def test_black_pictures_and_other_sizes_are_found(serve):
    odd, _ = one_of(drawn(black()), serve)
    assert (odd.picture, odd.status) == (None, "black")
    odd, _ = one_of(drawn(picture(48)), serve)
    assert odd.picture.size == (48, 48) and odd.status == "wrong size"
    assert odd.reason == "expected 32×32 pixels, found 48×48"


def test_another_refusal_of_one_prompt_is_its_error_and_does_not_show_the_key(serve):
    odd, asked = one_of(refusal(400, message=f"prompt too long\nfor {KEY}"), serve)
    assert (odd.status, asked) == ("error", 1)
    assert odd.reason == "status 400: prompt too long for …"


def test_settings_that_never_work_end_the_run(serve):
    server = serve({"a": refusal(400, message="size 7 is not available")})
    with pytest.raises(UserError, match=r"'model' generates no pictures \(status 400: size 7 is not avail"):
        PictureEndpoint("model", 7).generate([PictureRequest("a", 0)])
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_refused_key_or_model_ends_the_run_once(serve, status):
    server = serve({"a": refusal(status, message=f"bad key {KEY}")})
    with pytest.raises(UserError, match=f"refused the request with status {status}") as caught:
        PictureEndpoint("model", connections=1).generate([PictureRequest("a", seed) for seed in range(5)])
    assert len(server.asked) == 1 and KEY not in str(caught.value)


def test_pictures_that_were_made_before_a_refusal_are_returned(serve):
    serve({"a": refusal(401)})
    found = PictureEndpoint("model", 32, connections=1).generate([GOOD, PictureRequest("a", 0), GOOD])
    assert [one.status for one in found] == ["ok", "error", "error"]
    assert all("status 401" in one.reason for one in found[1:])


def test_nobody_at_the_address_is_told(monkeypatch, serve):
    monkeypatch.setenv(BASE, "http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match=r"no connection to 127\.0\.0\.1"):
        PictureEndpoint("model", retries=0).generate([GOOD])


def test_without_an_address_the_variable_is_named(monkeypatch):
    monkeypatch.delenv(BASE, raising=False)
    with pytest.raises(UserError, match=BASE):
        PictureEndpoint("model").generate([GOOD])


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setenv(BASE, "http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match=r"pip install 'fashioniq\[chat\]'"):
        PictureEndpoint("model").generate([GOOD])
