"""The client of language models against a server of this process."""

import gzip
import importlib.util
import json
import sys
import threading
import time

import pytest

from fashioniq.files import UserError
from fashioniq.llm import endpoint as endpoints
from fashioniq.llm.completer import Sampling
from fashioniq.llm.endpoint import Endpoint

# not importorskip: every worker collects this file, but one needs the import, which takes two seconds
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openai") is None, reason="the extra chat is not installed"
)
KEY = "sk-very-secret-1234"


def said(text):
    return 200, {}, json.dumps({"choices": [{"message": {"role": "assistant", "content": text}}]}).encode()


@pytest.fixture
def serve(http_server, monkeypatch):
    """Start a server that answers by `replies`, a function of a request's number and body, and keeps what it
    was asked.
    """

    def start(replies):
        def reply(handler):
            body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
            with server.lock:
                number = len(server.asked)
                server.asked.append((handler.path, body))
                server.headers.append({name.lower(): value for name, value in handler.headers.items()})
                server.times.append(time.monotonic())
            status, headers, content = replies(number, body)
            handler.send_response(status)
            for name, value in {"Content-Length": len(content), **headers}.items():
                handler.send_header(name, str(value))
            handler.end_headers()
            handler.wfile.write(content)

        server = http_server(reply)
        server.asked, server.headers, server.times = [], [], []
        monkeypatch.setenv(endpoints.BASE, f"{server.address}/v1")
        return server

    monkeypatch.setenv(endpoints.KEY, KEY)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)
    return start


def test_prompts_are_answered_in_their_order_and_asked_once(serve, tmp_path):
    server = serve(lambda number, body: said("to " + body["messages"][0]["content"]))
    prompts = [f"prompt {number}" for number in range(9)]
    endpoint = Endpoint("small", tmp_path)
    assert endpoint.complete([*prompts, prompts[0]], 7) == [
        f"to {prompt}" for prompt in [*prompts, prompts[0]]
    ]
    assert len(server.asked) == 9
    path, body = server.asked[0]
    assert (
        path == "/v1/chat/completions"
        and body["model"] == "small"
        and body["max_tokens"] == 7
        and body["temperature"] == 0
    )
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_picture_goes_as_a_data_url(serve, tmp_path):
    server = serve(lambda number, body: said("blue"))
    assert Endpoint("small", tmp_path).complete(["what color?"], 5, [[b"\xff\xd8jpeg"]]) == ["blue"]
    text, picture = server.asked[0][1]["messages"][0]["content"]
    assert text == {"type": "text", "text": "what color?"}
    assert picture == {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,/9hqcGVn"}}


def test_another_seed_asks_for_another_sampled_answer_and_the_same_greedy_one(serve, tmp_path):
    server = serve(lambda number, body: said(f"answer {number}"))
    for sampling, answers in (
        (Sampling(0.7), ["answer 0", "answer 1", "answer 1"]),
        (Sampling(), ["answer 2"] * 3),
    ):
        models = [Endpoint("small", tmp_path, sampling=sampling, seed=seed) for seed in (0, 1, 1)]
        assert [model.complete(["a"], 5)[0] for model in models] == answers
    assert [body.get("seed") for _, body in server.asked] == [None, 1, None]


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ("<think>\nWhich color? Red.\n</think>\n\nblue", "\n\nblue"),
        ("Which color?\n</think>blue", "blue"),
        ("<think>\nWhich color? Re", ""),
        ("a dress <think> of </thin", "a dress <think> of </thin"),
    ],
)
def test_reasoning_is_no_part_of_an_answer(serve, tmp_path, content, answer):
    serve(lambda number, body: said(content))
    for _ in range(2):  # the second one is cached
        assert Endpoint("small", tmp_path).complete(["what color?"], 5) == [answer]


def test_what_was_answered_is_there_without_a_server(serve, tmp_path, monkeypatch):
    serve(lambda number, body: said("yes"))
    assert Endpoint("small", tmp_path).complete(["a", "b"], 5) == ["yes", "yes"]
    monkeypatch.delenv(endpoints.BASE)
    monkeypatch.delenv(endpoints.KEY)
    assert Endpoint("small", tmp_path).complete(["b", "a"], 5) == ["yes", "yes"]
    for changed in ({"model": "large"}, {"tokens": 6}, {"pictures": [[b"x"]]}):
        options = {"model": "small", "tokens": 5, "pictures": None} | changed
        with pytest.raises(UserError, match=endpoints.BASE):
            Endpoint(options["model"], tmp_path).complete(["a"], options["tokens"], options["pictures"])


def test_a_busy_server_is_asked_again_after_the_rest_that_it_asks_for(serve, tmp_path):
    first = [(429, {"Retry-After": "1"}, b""), (500, {}, b"oops"), (503, {}, b""), (408, {}, b"")]
    server = serve(lambda number, body: first[number] if number < len(first) else said("at last"))
    assert Endpoint("small", tmp_path, retries=4).complete(["a"], 5) == ["at last"]
    assert len(server.asked) == 5
    assert server.times[1] - server.times[0] >= 1.0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"choices": []}',
        b'{"choices": [{"message": null}]}',
        b"<html>no</html>",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_malformed_answer_is_asked_for_again_and_told_in_one_line(serve, tmp_path, content):
    server = serve(lambda number, body: (200, {}, content))
    with pytest.raises(UserError, match=r"no answer from .* in at most 2 attempts \(malformed answer\)"):
        Endpoint("small", tmp_path, retries=1).complete(["a"], 5)
    assert len(server.asked) == 2 and not list(tmp_path.rglob("*.json"))


def test_an_answer_that_does_not_come_is_not_waited_for(serve, tmp_path):
    late = threading.Event()
    server = serve(lambda number, body: late.wait(60) and said("late"))
    with pytest.raises(UserError, match=r"2 attempts \(not complete within 0\.2 seconds"):
        Endpoint("small", tmp_path, retries=1, timeout=0.2).complete(["a"], 5)
    assert not late.is_set() and len(server.asked) <= 2
    late.set()


def test_nobody_at_the_address_is_told(serve, tmp_path, monkeypatch):
    monkeypatch.setenv(endpoints.BASE, "http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match=r"no answer from 127\.0\.0\.1 in 1 attempt \(ConnectError\)"):
        Endpoint("small", tmp_path, retries=0).complete(["a"], 5)


def test_an_answer_that_is_far_too_long_is_refused(serve, tmp_path, monkeypatch):
    monkeypatch.setattr(endpoints, "MOST_BYTES", 1000)
    serve(lambda number, body: said("x" * 2000))
    with pytest.raises(UserError, match=r"larger than 0\.001 MB"):
        Endpoint("small", tmp_path, retries=0).complete(["a"], 5)


def test_a_compressed_answer_is_refused_unread(serve, tmp_path):
    packed = gzip.compress(said("x" * 10**6)[2])
    server = serve(lambda number, body: (200, {"Content-Encoding": "gzip"}, packed))
    with pytest.raises(UserError, match="compressed answer"):
        Endpoint("small", tmp_path, retries=0).complete(["a"], 5)
    assert server.headers[0]["accept-encoding"] == "identity"


def test_a_server_that_asks_for_a_very_long_rest_is_left_alone(serve, tmp_path):
    server = serve(lambda number, body: (429, {"Retry-After": "86400"}, b""))
    with pytest.raises(UserError, match=r"no answer from .*\(429\)"):
        Endpoint("small", tmp_path, retries=3).complete(["a"], 5)
    assert len(server.asked) == 1


def test_without_a_key_none_is_sent(serve, tmp_path, monkeypatch):
    monkeypatch.delenv(endpoints.KEY)
    server = serve(lambda number, body: said("yes"))
    assert Endpoint("small", tmp_path).complete(["a"], 5) == ["yes"]
    assert "authorization" not in server.headers[0]


def test_the_name_of_a_kept_answer_is_that_of_earlier_versions(serve, tmp_path):
    serve(lambda number, body: said("yes"))
    Endpoint("small", tmp_path).complete(["a"], 5, [[b"x"]])
    (kept,) = tmp_path.rglob("*.json")
    assert (
        kept.relative_to(tmp_path).as_posix()
        == "40/40f78fda504cca264a14d37934ca8c366906acb6ba2a8b598dc9155d50698c81.json"
    )
    assert kept.read_text() == '{\n  "model": "small",\n  "text": "yes"\n}\n'


def test_without_the_library_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setenv(endpoints.BASE, "http://127.0.0.1:9/v1")
    with pytest.raises(UserError, match=r"pip install 'fashioniq\[chat\]'"):
        Endpoint("small", tmp_path).complete(["a"], 5)


def test_half_a_character_is_kept_as_a_question_mark(serve, tmp_path):
    serve(lambda number, body: (200, {}, b'{"choices": [{"message": {"content": "red \\ud83d"}}]}'))
    assert [Endpoint("small", tmp_path).complete(["a"], 5) for _ in range(2)] == [["red ?"], ["red ?"]]


@pytest.mark.parametrize("content", ["", None, 7])
def test_silence_is_empty_and_kept(serve, tmp_path, content):
    server = serve(lambda number, body: said(content))
    assert [Endpoint("small", tmp_path).complete(["a"], 5) for _ in range(2)] == [[""], [""]]
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [301, 400, 401, 404])
def test_a_refusal_ends_at_once_and_what_was_answered_before_stays(serve, tmp_path, status):
    answers = {
        "a": said("yes"),
        "b": (status, {"Location": "http://127.0.0.1:9/"}, f"bad key {KEY}".encode()),
    }
    server = serve(lambda number, body: answers[body["messages"][0]["content"]])
    with pytest.raises(UserError, match=f"refused the request with status {status}") as caught:
        Endpoint("small", tmp_path, connections=1).complete(["a", "b"], 5)
    assert KEY not in str(caught.value) and len(server.asked) == 2
    assert Endpoint("small", tmp_path).complete(["a"], 5) == ["yes"] and len(server.asked) == 2


def test_the_key_is_nowhere_on_disk_or_in_errors(serve, tmp_path, monkeypatch, capsys):
    serve(lambda number, body: said("yes"))
    Endpoint("small", tmp_path).complete(["a"], 5)
    assert not any(KEY in path.read_text() for path in tmp_path.rglob("*.json"))
    monkeypatch.setenv(endpoints.KEY, KEY + "\x01é")
    with pytest.raises(UserError, match=endpoints.KEY) as caught:
        Endpoint("small", tmp_path).complete(["b"], 5)
    assert KEY not in str(caught.value) and KEY not in "".join(capsys.readouterr())


@pytest.mark.parametrize("address", ["", "example.org/v1", "ftp://example.org", "http://a:b/", "https://"])
def test_no_address_is_told(monkeypatch, tmp_path, address):
    monkeypatch.setenv(endpoints.BASE, address)
    with pytest.raises(UserError, match=f"{endpoints.BASE} is not set to a server address"):
        Endpoint("small", tmp_path).complete(["a"], 5)


def test_only_counts_are_counted(serve, tmp_path):
    serve(lambda number, body: said("yes"))
    Endpoint("small", tmp_path).complete(["a"], 5)
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text('{"text": "yes", "tokens": {"prompt": -5, "answer": true}}')
    endpoint = Endpoint("small", tmp_path)
    assert endpoint.complete(["a"], 5) == ["yes"] and endpoint.tokens == {"prompt": 0, "answer": 0}


def test_a_damaged_kept_answer_is_told_with_its_file(serve, tmp_path):
    serve(lambda number, body: said("yes"))
    Endpoint("small", tmp_path).complete(["a"], 5)
    (kept,) = tmp_path.rglob("*.json")
    kept.write_text('{"model": "small"}')
    with pytest.raises(UserError, match=kept.name):
        Endpoint("small", tmp_path).complete(["a"], 5)
