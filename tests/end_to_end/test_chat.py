"""Talking to trained systems: from Python, in a pseudo-terminal, line by line in-process, and by `search`."""

import builtins
import json
import os
import re
import select
import shutil
import subprocess
import sys
from functools import partial

import msgspec
import pytest
import torch
import yaml

import fashioniq
from fashioniq import Message
from fashioniq.askers.best_item import BestItem
from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import SPECIAL, Vocabulary, tokenize
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.models.composer import Composer
from fashioniq.models.configs import ComposerConfig, DialogEncoderConfig, RetrieverConfig
from fashioniq.models.dialog_encoder import DialogEncoder
from fashioniq.models.rnn import RNNRetriever
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.checks import described
from fashioniq.runs.weights import save_model
from tests.waiting import LIMIT, ended


@pytest.fixture
def retriever(vector_runs, tmp_path):
    """A copy of a trained run, to be written to."""
    return shutil.copytree(vector_runs.retriever, tmp_path / "retriever")


@pytest.fixture
def encoder(vector_runs, tmp_path):
    """A run of a dialog encoder with random weights on the same features."""
    store, run = FeatureStore(vector_runs.store), tmp_path / "encoder"
    labels = Catalog(vector_runs.catalog, "dresses").labels.values()
    vocabulary = Vocabulary(
        sorted({word for lists in labels for words in lists for text in words for word in tokenize(text)})
    )
    sizes = {
        "features": store.size,
        "width": 16,
        "heads": 2,
        "hidden": 32,
        "layers": 1,
        "dropout": 0.0,
        "limit": 40,
    }
    config, of_data = DialogEncoderConfig.of_sizes("transformer", sizes)
    torch.manual_seed(0)
    facts = {"kind": "dialog encoder", "model": "transformer", "sizes": sizes, "words": vocabulary.words}
    facts |= {"features": store.identity, "joined": ", ", "data": {}}
    save_model(run, DialogEncoder(config, vocabulary=vocabulary, **of_data), described(facts))
    settings = {"data": str(vector_runs.catalog), "category": "dresses", "features": str(vector_runs.store)}
    (run / "config.yaml").write_text(yaml.safe_dump(settings))
    return run


def known_words(run, count):
    """Words of the training that a request is understood by, the most frequent first."""
    system = fashioniq.load(run, device="cpu")
    words = read_run(run, RetrieverRun).words[len(SPECIAL) :]
    return [word for word in words if system.read(word).understood][:count]


def logged(run):
    return [json.loads(line) for line in (run / "chats" / "dialogs.jsonl").read_text().splitlines()]


# From Python


def test_loading_without_torch_in_the_way():
    code = "import sys, fashioniq; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
    assert callable(fashioniq.load)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = fashioniq.nothing


@pytest.mark.parametrize("kind", ["transformer", "rnn", "composer"])
def test_every_kind_of_retriever_is_loaded_with_the_data_of_its_training(kind, retriever, vector_runs):
    facts = read_run(retriever, RetrieverRun)
    of_data = {
        "vocabulary": len(facts.words),
        "features": facts.sizes["features"],
        "attributes": 0,
        "max_words": 8,
        "word_vector_size": 0,
    }
    if kind != "transformer":
        config = (
            RetrieverConfig(kind="rnn", width=16)
            if kind == "rnn"
            else ComposerConfig(composition="B", width=16)
        )
        model = (RNNRetriever if kind == "rnn" else Composer)(config, **of_data)
        save_model(
            retriever, model, msgspec.structs.replace(facts, model=kind, sizes=config.sizes(**of_data))
        )
    system = fashioniq.load(str(retriever), split="val", device="cpu")
    assert isinstance(system.asker, BestItem)
    assert (
        system.gallery.items.ids
        == FeatureStore(vector_runs.store).items(Catalog(vector_runs.catalog, "dresses").ids("val")).ids
    )
    talk = system.start(2)
    texts = [" ".join(known_words(retriever, 10)), "zorgle"]
    talk = system.observe(talk, system.offer(talk), Message(texts=texts))
    assert system.read(texts[1]).unknown == ("zorgle",) and not talk.queries[-1].vector_BD.requires_grad
    assert system.wording is not None and talk.queries[-1].wishes is not None
    product = system.top(talk, 1)[0][0]
    assert product.title == Catalog(vector_runs.catalog, "dresses").titles.get(product.id, "")
    assert len(system.top(talk, 3)[1]) == 3


def test_data_and_features_may_have_moved(retriever, vector_runs, tmp_path):
    (retriever / "config.yaml").unlink()  # the facts of model.json are left
    moved = shutil.copytree(vector_runs.store, tmp_path / "moved")
    system = fashioniq.load(retriever, features=moved, data=vector_runs.catalog)
    assert len(system.gallery) == len(Catalog(vector_runs.catalog, "dresses").ids("test"))
    facts = json.loads((moved / "store.json").read_text())
    (moved / "store.json").write_text(json.dumps({**facts, "weights": "others"}))
    with pytest.raises(UserError, match="with different weights"):
        fashioniq.load(retriever, features=moved)


def test_a_dialog_encoder_asks_where_there_are_labels(encoder, vector_runs):
    system = fashioniq.load(encoder)
    talk = system.start(1)
    talk = system.observe(talk, system.offer(talk), Message(texts=["a red dress"]))
    assert system.offer(talk).questions[0].endswith("?") and len(system.top(talk, 4)[0]) == 4
    (encoder / "config.yaml").write_text(yaml.safe_dump({"features": str(vector_runs.store)}))
    without_catalog = fashioniq.load(encoder)
    assert len(without_catalog.gallery) == len(FeatureStore(vector_runs.store).ids)
    talk = without_catalog.observe(without_catalog.start(1), Message(), Message(texts=["a red dress"]))
    assert without_catalog.offer(talk) == Message()


# In a terminal


class Terminal:
    """`fashioniq chat` in a pseudo-terminal."""

    def __init__(self, forked_command, *arguments, **environment):
        self.screen, keyboard = os.openpty()
        environment = {"TERM": "xterm", "COLUMNS": "200", **environment}
        self.process = forked_command(["chat", *arguments], [keyboard] * 3, **environment)
        os.close(keyboard)

    def read(self):
        """What is printed until the next prompt, or the end."""
        read = b""
        while not read.endswith(b"> "):
            assert select.select([self.screen], [], [], LIMIT)[0], f"no prompt after {read!r}"
            try:
                if not (some := os.read(self.screen, 65536)):
                    break
            except OSError:  # the other side is closed
                break
            read += some
        return read.decode().replace("\r\n", "\n")

    def type(self, line):
        """Type a line; what is then printed."""
        os.write(self.screen, line.encode() + (b"" if line == "\x04" else b"\n"))
        return self.read()

    def close(self):
        try:
            return ended(self.process)
        finally:
            os.close(self.screen)


@pytest.fixture
def terminal(forked_command, monkeypatch):
    for name in ("TMUX", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL"):
        monkeypatch.delenv(name, raising=False)
    return partial(Terminal, forked_command)


def shown(text):
    """The ids of the products in a table on the screen, and the one with the arrow."""
    rows = re.findall(r"^(→|\s) ?\s*\d+\s+(D\d+)", text, re.MULTILINE)
    return [name for _, name in rows], next((name for mark, name in rows if mark == "→"), None)


def test_a_person_finds_a_product_in_a_terminal(retriever, terminal, vector_runs):
    one, other = known_words(retriever, 2)
    chat = terminal("--run", retriever, "--show", 4, "--device", "cpu")
    begun = chat.read()
    first, offered = shown(begun)
    assert len(first) == 4 and offered is None and begun.endswith("What are you looking for? > ")
    page = retriever / "chats" / "chat.html"
    assert begun.count(page.resolve().as_uri()) == 1 and 'http-equiv="refresh"' in page.read_text()
    after_words = chat.type(f"is {one}")
    assert len(shown(after_words)[0]) == 4 and "Pictures" not in after_words
    assert shown(after_words)[1] == shown(after_words)[0][0]
    assert "unknown words, ignored: zorgle\nNothing has changed." in chat.type("zorgle")
    changed = chat.type(f"zorgle {other}")
    assert "unknown words, ignored: zorgle" in changed and shown(changed)[0]
    assert shown(chat.type("undo")) == shown(after_words)
    assert shown(chat.type("undo")) == (first, offered) and "nothing to undo" in chat.type("undo")
    assert "Expected a number from 1 to" in chat.type("more like 9") and "this is it" in chat.type("help")
    like = chat.type("more like 2")
    assert shown(like)[1] == shown(like)[0][0] == first[1]
    assert shown(chat.type(f"more like 3 but {one}")) != shown(like)
    assert shown(chat.type("undo")) == shown(like)
    last, _ = shown(chat.type(f"is {one} and {other}"))
    assert f"You chose {last[2]}" in chat.type("this is it 3")
    assert chat.close() == 0
    (record,) = logged(retriever)
    said = {"offer": {"item": first[1]}, "reply": {"text": f"is {one} and {other}"}, "rank": None}
    assert record["target"] == last[2] and record["turns"] == [said]
    assert record["top"][0] == last[0] and len(record["top"]) == 10
    assert 'http-equiv="refresh"' not in page.read_text()


def test_words_can_be_about_a_product_by_its_place_in_the_table(retriever, terminal):
    one, other = known_words(retriever, 2)
    chat = terminal("--run", retriever, "--show", 4, "--device", "cpu")
    chat.read()
    products, _ = shown(chat.type(f"is {one}"))
    chat.type(f"is {other} like the third one")
    chat.type("this is it")
    assert chat.close() == 0
    (record,) = logged(retriever)
    assert record["turns"][-1]["offer"] == {"item": products[2]}


def test_pictures_are_drawn_where_the_terminal_can_and_ctrl_d_keeps_the_dialog(retriever, terminal):
    (word,) = known_words(retriever, 1)
    log = retriever.parent / "own" / "log.jsonl"
    chat = terminal("--run", retriever, "--device", "cpu", "--log", log, KITTY_WINDOW_ID="1")
    assert "\033_Ga=T" in chat.read() and "\033_Ga=T" in chat.type(word)
    assert "Chat ended" in chat.type("\x04") and chat.close() == 0
    assert json.loads(log.read_text())["target"] is None and not (retriever / "chats").exists()
    assert not (log.parent / "chat.html").exists()


# Line by line in this process


@pytest.fixture
def chat(project, monkeypatch, capsys):
    """Chat with typed lines, then Ctrl-D: the exit code, the prompts, and what was printed."""

    def talk(run, *lines, **options):
        waiting, prompts = iter(lines), []

        def read(prompt):
            prompts.append(prompt)
            line = next(waiting, EOFError)
            if isinstance(line, type):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", read)
        capsys.readouterr()
        code = main(project.arguments("chat", run=run, device="cpu", **options))
        return code, prompts, capsys.readouterr()

    return talk


def test_a_dialog_encoder_asks_and_takes_answers(encoder, chat):
    code, prompts, told = chat(encoder, "a red dress", "red zorgle", "more like 2", "", "this is it", show=2)
    assert code == 0 and prompts[0] == "What are you looking for? > " and prompts[1].endswith("? > ")
    assert "unknown words: zorgle" in told.out and "cannot start from a product" in told.out
    assert (
        prompts[2] == prompts[3] == prompts[4] != prompts[1]
    )  # the refused step and the empty line change nothing
    (record,) = logged(encoder)
    assert [turn["offer"] for turn in record["turns"]] == [{}, {"text": prompts[1].removesuffix(" > ")}]
    assert [turn["reply"]["text"] for turn in record["turns"]] == ["a red dress", "red zorgle"]
    assert record["target"] == record["top"][0]


def test_questions_stop_after_the_rounds_that_are_asked_for(encoder, chat):
    _, prompts, _ = chat(encoder, "a red dress", "red", "blue", "black", questioner="in-order", rounds=1)
    assert prompts[1].endswith("? > ") and prompts[2:] == ["What else? > "] * 3


def test_limits_that_no_product_meets_change_nothing(retriever, chat):
    _, _, told = chat(retriever, "under 1 euro", "in stock", "quit", show=3)
    tables = [shown(block) for block in told.out.split("attributes")[1:]]
    assert "No product is within these limits.\nNothing has changed.\n" in told.out
    assert len(tables) == 2 and len(tables[1][0]) == 3


def test_more_like_takes_words_in_the_same_line_and_this_is_it_takes_the_product_offered(retriever, chat):
    (word,) = known_words(retriever, 1)
    code, _, told = chat(retriever, f"More like 2, but {word}", "THIS IS IT!", show=3)
    assert code == 0
    (record,) = logged(retriever)
    tables = [shown(block) for block in told.out.split("attributes")[1:]]
    assert record["turns"][0]["offer"]["item"] == tables[0][0][1] and record["turns"][0]["reply"] == {
        "text": word
    }
    assert record["target"] == tables[-1][1]


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt, "quit"])
def test_every_chat_is_a_line_of_the_log_and_an_empty_one_is_none(retriever, chat, end):
    (word,) = known_words(retriever, 1)
    for lines in ([word, end], [end], [word, word, end]):
        code, _, told = chat(retriever, *lines)
        assert code == 0 and told.err == "" and "Chat ended" in told.out
    assert [(record["target"], len(record["turns"])) for record in logged(retriever)] == [
        (None, 1),
        (None, 2),
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"run": "nowhere"}, "in nowhere, found no such folder"),
        (
            {"run": "CAPTIONER"},
            "expected a retriever or a dialog encoder or a chatsearcher or a zero-shot search, found a captioner",
        ),
        ({"run": "RETRIEVER", "features": "nowhere"}, "there is no feature store nowhere"),
        ({"run": "RETRIEVER", "data": "nowhere"}, "there is no folder nowhere"),
        ({"run": "RETRIEVER", "category": "shirts"}, "was trained on dresses, not on shirts"),
        ({"run": "RETRIEVER", "encoder": "clip"}, "--run and --encoder cannot be combined"),
        ({"run": "RETRIEVER", "questioner": "recorded"}, "--questioner: expected none, few-shot"),
        (
            {"run": "RETRIEVER", "questioner": "shuffled"},
            "--questioner shuffled needs a system that asks questions",
        ),
        ({"encoder": "clip"}, "needs products to search; give the folder of a catalog with --data"),
        ({}, "give a trained run with --run"),
        ({"run": "RETRIEVER", "log": "FILE/dialogs.jsonl"}, "cannot write"),
    ],
)
def test_what_is_missing_is_told_in_one_line(options, told, project, vector_runs, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    places = {
        "RETRIEVER": vector_runs.retriever,
        "CAPTIONER": vector_runs.captioner,
        "FILE/dialogs.jsonl": tmp_path / "file" / "x.jsonl",
    }
    code = main(
        project.arguments("chat", **{name: places.get(value, value) for name, value in options.items()})
    )
    errors = capsys.readouterr().err.strip().splitlines()
    assert code == 2 and len(errors) == 1 and told in errors[0]


# One request


def test_search_prints_a_table_and_the_same_as_json(retriever, project, capsys):
    (word,) = known_words(retriever, 1)
    system = fashioniq.load(retriever, split="all")
    talk = system.start(1)
    products = system.top(system.observe(talk, system.offer(talk), Message(texts=[word])), 3)[0]
    capsys.readouterr()
    assert main(["search", "--run", str(retriever), "--text", f"{word} zorgle", "-n", "3"]) == 0
    captured = capsys.readouterr()
    assert [shown(captured.out)[0], captured.err] == [
        [product.id for product in products],
        "unknown words: zorgle\n",
    ]
    project.run("search", run=retriever, text=f"{word} zorgle", count=3, json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["unknown_words"] == ["zorgle"] and found["like"] is None
    assert [one["id"] for one in found["products"]] == [product.id for product in products]
    assert found["products"][0]["picture"] == str(products[0].picture)
    assert found["products"][0]["distance"] == pytest.approx(products[0].distance)
    other = products[1].id
    project.run("search", run=retriever, text=word, like=other, json=True)
    assert json.loads(capsys.readouterr().out)["products"] != found["products"]


def test_limits_of_price_size_and_stock_that_are_said_are_kept(
    retriever, vector_runs, project, capsys, monkeypatch
):
    offers = Catalog(vector_runs.catalog, "dresses").offers
    prices = sorted(offer.price_minor for offer in offers.values())
    limit = prices[len(prices) // 4] // 100 + 1
    project.run("search", run=retriever, text=f"under {limit} euros in stock", count=8, json=True)
    answer = json.loads(capsys.readouterr().out)
    found = [offers[one["id"]] for one in answer["products"]]
    assert len(found) == 8 and answer["not_limited"] == []
    assert all(offer.price_minor <= 100 * limit and offer.in_stock for offer in found)
    project.run("search", run=retriever, text=f"under {prices[0] // 100 - 1} euros")
    assert capsys.readouterr().out == "No product is within these limits.\n"
    project.run("search", run=retriever, text="a cheap one", count=8, json=True)
    cheap = [offers[one["id"]].price_minor for one in json.loads(capsys.readouterr().out)["products"]]
    assert len(cheap) == 8 and max(cheap) < prices[len(prices) // 3]
    monkeypatch.setattr("fashioniq.loop.offers.price_ranges", lambda *_: [])
    assert main(["search", "--run", str(retriever), "--text", "cheaper", "-n", "1"]) == 0
    assert capsys.readouterr().err == "not limited by price, which is not known\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"text": "a", "like": "nothing"}, "no product 'nothing' in the gallery of "),
        ({"text": "zorgle ?"}, "no word of --text 'zorgle ?' is known to "),
    ],
)
def test_a_search_that_cannot_be_made_is_refused_in_one_line(options, told, retriever, project, capsys):
    options = {
        name: known_words(retriever, 1)[0] if value == "a" else value for name, value in options.items()
    }
    assert main(project.arguments("search", run=retriever, **options)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
