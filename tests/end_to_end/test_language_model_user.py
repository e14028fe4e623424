"""A language model at an endpoint as the user: in dialogs, and among those whose captions are compared."""

import json

import pytest

from fashioniq.data.catalog import Catalog


@pytest.fixture
def server(http_server, monkeypatch, tmp_path):
    """A model that repeats what it read of the wanted product; `asked` are the prompts."""

    def reply(handler):
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        prompt = body["messages"][0]["content"]
        started.asked.append(prompt)
        wanted = prompt.rpartition("Wanted: ")[2].partition("\n")[0]
        said = {"choices": [{"message": {"role": "assistant", "content": f"Customer: is {wanted}"}}]}
        content = json.dumps(said).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    pytest.importorskip("openai", reason="the extra chat is not installed")
    monkeypatch.chdir(tmp_path)  # answers are cached there
    started = http_server(reply)
    started.asked = []
    monkeypatch.setenv("OPENAI_BASE_URL", f"{started.address}/v1")
    return started


def test_retrievers_are_evaluated_with_it(server, project, runs, tmp_path):
    options = {"run": runs.retriever, "data": runs.catalog, "category": "dresses", "turns": 2}
    for name in ("first", "again"):
        project.run("eval-dialogs", user="endpoint:small", out=tmp_path / name, **options)
        asked = len(server.asked)
    metrics = json.loads((tmp_path / "again/metrics.json").read_text())
    assert metrics["user"] == "endpoint:small" and "language model" in metrics["captions"]
    assert metrics["turns"][-1]["P"] > 90  # it says all labels of the target
    dialogs = [json.loads(line) for line in (tmp_path / "again/dialogs.jsonl").read_text().splitlines()]
    assert len(dialogs) <= asked <= 2 * len(dialogs), "the second evaluation asks nothing again"


def test_its_captions_are_compared_with_those_of_people(server, project, runs, tmp_path):
    project.run(
        "eval-captions",
        run=runs.captioner,
        data=runs.catalog,
        category="dresses",
        split="train",
        user="endpoint:small",
        batch_size=7,
        out=tmp_path / "captions",
    )
    metrics = json.loads((tmp_path / "captions/metrics.json").read_text())
    speech = {row["who"]: row for row in metrics["speech"]}
    assert [*speech] == ["captioner", "endpoint:small", "random pair", "differences", "grammar", "people"]
    assert speech["endpoint:small"]["words"] > speech["people"]["words"]
    assert speech["endpoint:small"]["P"] > speech["random pair"]["P"]
    assert {row["who"] for row in metrics["rows"]} >= {"endpoint:small", "captioner"}
    assert len(server.asked) == len(Catalog(runs.catalog, "dresses").pairs("train"))
