"""Conversations written by a language model: the form of its answers, retries, and tokens."""

import importlib.util
import json

import pytest

from fashioniq.data.writers import DescribedProduct, FeedbackPair, TwoRounds, WrittenDialog
from fashioniq.llm import endpoint as endpoints
from fashioniq.llm.conversations import ATTEMPTS, LanguageModelWriter
from fashioniq.llm.endpoint import Endpoint

RED, BLUE = DescribedProduct("1", "a red dress", []), DescribedProduct("2", "a blue dress", [])
DIALOG = [
    {"role": "user", "text": "Hello"},
    {"role": "assistant", "text": "Which color?"},
    {"role": "user", "text": "Like a tomato"},
]


class Replies:
    """Language model with given answers, in order."""

    def __init__(self, *replies):
        self.replies, self.prompts, self.tokens = list(replies), [], {"prompt": 0, "answer": 0}

    def complete(self, prompts, tokens):
        self.prompts += prompts
        self.tokens["answer"] += len(prompts)
        return [self.replies.pop(0) for _ in prompts]


def test_answers_are_read_also_between_other_words():
    model = Replies(f"Sure!\n```json\n{json.dumps(DIALOG)}\n```")
    assert LanguageModelWriter("m", model).dialogs([RED], ["0"]) == [
        WrittenDialog(("Hello", "Which color?", "Like a tomato"))
    ]
    assert "a red dress" in model.prompts[0]


def test_each_kind_of_text_has_its_form():
    rounds = json.dumps({"first": "a dress", "shown": "a red dress", "second": "in blue"})
    model = Replies(rounds, '{"request": "in blue please"}')
    writer = LanguageModelWriter("m", model)
    assert writer.two_rounds([FeedbackPair(RED, BLUE)], ["0"]) == [
        TwoRounds("a dress", "a red dress", "in blue")
    ]
    assert writer.requests([FeedbackPair(RED, BLUE)], ["0"]) == ["in blue please"]
    assert "a blue dress" in model.prompts[0] and "a red dress" not in model.prompts[0]
    assert model.prompts[1].endswith("A: a red dress\nB: a blue dress")


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no JSON",
        "{" * 5000,
        "[" * 100_000 + "]" * 100_000,
        "[1, 2, 3]",
        '{"role": "user"}',
        json.dumps(DIALOG[:2]),
        json.dumps(DIALOG[1:]),
        json.dumps([DIALOG[0], DIALOG[0], DIALOG[0]]),
        json.dumps([*DIALOG[:2], {"role": "user", "text": ""}]),
        json.dumps([*DIALOG[:2], {"role": "user", "text": 3}]),
        json.dumps([*DIALOG[:2], {"role": "user", "text": "see [image]"}]),
        json.dumps([*DIALOG[:2], {"role": "user"}]),
    ],
)
def test_answers_of_another_form_are_asked_for_again(reply):
    model = Replies(reply, json.dumps(DIALOG))
    writer = LanguageModelWriter("m", model)
    assert writer.dialogs([RED], ["0"])[0].texts[0] == "Hello"
    first, again = model.prompts
    assert again.startswith(first) and "Attempt 2" in again
    assert writer.tokens == {"prompt": 0, "answer": 2}


def test_only_what_failed_is_asked_again_and_given_up_in_the_end():
    good = json.dumps({"request": "in blue"})
    model = Replies("?", good, *["?"] * (ATTEMPTS - 1))
    assert LanguageModelWriter("m", model).requests(
        [FeedbackPair(RED, BLUE), FeedbackPair(BLUE, RED)], "01"
    ) == [
        None,
        "in blue",
    ]
    assert len(model.prompts) == 1 + ATTEMPTS


@pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="the extra chat is not installed")
def test_tokens_are_counted_and_kept_with_the_cached_answers(http_server, monkeypatch, tmp_path):
    asked = []

    def reply(handler):
        asked.append(handler.rfile.read(int(handler.headers["Content-Length"])))
        text = json.dumps({"request": "in blue"}) if len(asked) > 1 else "no JSON"
        usage = {"prompt_tokens": 70, "completion_tokens": 5, "total_tokens": 75}
        content = json.dumps({"choices": [{"message": {"content": text}}], "usage": usage}).encode()
        handler.send_response(200)
        handler.send_header("Content-Length", len(content))
        handler.end_headers()
        handler.wfile.write(content)

    server = http_server(reply)
    monkeypatch.setenv(endpoints.BASE, f"{server.address}/v1")
    for _ in range(2):
        writer = LanguageModelWriter("endpoint:small", Endpoint("small", tmp_path))
        assert writer.requests([FeedbackPair(RED, BLUE)], ["0"]) == ["in blue"]
        assert writer.tokens == {"prompt": 140, "answer": 10}
    assert len(asked) == 2  # the second time, both answers come from the cache
