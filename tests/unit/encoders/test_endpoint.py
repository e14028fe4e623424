"""Embeddings of a server on this machine."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from fashioniq import encoders
from fashioniq.encoders.endpoint import EmbeddingsEndpoint
from fashioniq.files import UserError
from fashioniq.http import Policy
from tests.waiting import LIMIT

QUICK = Policy(retries=1, timeout=5.0, max_bytes=10_000)


def embedded(text):
    return [float(len(text)), 1.0, float("red" in text)]


@pytest.fixture
def server(monkeypatch):
    """A server: its `answer` makes status and body from a request; `requests` are those that it got."""
    monkeypatch.setattr("fashioniq.http.PAUSE", 0.0)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.requests.append((self.path, body, self.headers.get("Authorization")))
            status, content = served.answer(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    def answer(body):
        rows = [{"index": number, "embedding": embedded(text)} for number, text in enumerate(body["input"])]
        return 200, json.dumps({"data": rows[::-1]}).encode()  # in any order

    served = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served.answer, served.requests, served.good = answer, [], answer
    served.address = f"http://127.0.0.1:{served.server_port}/v1"
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served
    served.shutdown()
    thread.join(LIMIT)
    served.server_close()


def test_texts_are_sent_in_batches_and_vectors_have_unit_length(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    encoder = encoders.load(f"{server.address}#small")
    texts = ["red dress", "", *(f"dress {number}" for number in range(70))]
    found = encoder.texts(texts)
    expected = torch.tensor([embedded(text or " ") for text in texts])
    assert torch.allclose(found, expected / expected.norm(dim=1, keepdim=True), atol=1e-6)
    assert [len(body["input"]) for _, body, _ in server.requests] == [1, 64, 8]
    assert {path for path, *_ in server.requests} == {"/v1/embeddings"}
    assert {key for *_, key in server.requests} == {"Bearer secret"}
    assert (encoder.size, encoder.identity.encoder) == (3, "small")
    with pytest.raises(UserError, match="has no picture half"):
        encoder.images([])


def test_a_model_of_the_base_address_has_the_same_identity(server, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.address)
    named, addressed = encoders.load("endpoint:small"), encoders.load(f"{server.address}#small")
    assert named.identity == addressed.identity
    assert named.identity.difference(encoders.load("endpoint:large").identity) == "encoder"
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(UserError, match="expected ADDRESS#MODEL"):
        encoders.load("endpoint:small")


@pytest.mark.parametrize(
    ("status", "content", "told"),
    [
        (401, b"bad key secret", "no embeddings from .* \\(401\\)"),
        (503, b"", "no embeddings from .* \\(503\\)"),
        (200, b"<html>", "expected embeddings from .*, found"),
        (200, json.dumps({"data": [{"index": 0, "embedding": [1.0, float("nan")]}]}).encode(), "finite vectors"),
        (200, json.dumps({"data": []}).encode(), "expected 1 finite vectors"),
        (200, json.dumps({"data": [{"index": 0, "embedding": "none"}]}).encode(), "expected embeddings from"),
        (200, b" " * 20_000, "larger than 0.01 MB"),
    ],
)  # fmt: skip
def test_an_answer_that_is_unusable_is_told_in_one_line(status, content, told, server):
    server.answer = lambda body: (status, content)
    with pytest.raises(UserError, match=told) as raised:
        EmbeddingsEndpoint(f"{server.address}#small", QUICK)
    assert "\n" not in str(raised.value) and "secret" not in str(raised.value)
    assert len(server.requests) == (2 if status == 503 else 1)


def test_another_size_in_a_later_answer_is_refused(server):
    encoder = EmbeddingsEndpoint(f"{server.address}#small", QUICK)
    server.answer = lambda body: (200, json.dumps({"data": [{"index": 0, "embedding": [1.0]}]}).encode())
    with pytest.raises(UserError, match="expected 1 finite vectors of size 3"):
        encoder.texts(["red"])


def test_without_a_server_it_is_said_so(monkeypatch):
    monkeypatch.setattr("fashioniq.http.PAUSE", 0.0)
    with pytest.raises(UserError, match=r"no embeddings from http://127.0.0.1:9/v1/embeddings"):
        EmbeddingsEndpoint("http://127.0.0.1:9/v1#small", QUICK)
