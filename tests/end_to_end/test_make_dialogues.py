"""`make-dialogues` and `chat` on the drawn sample. The encoder that finds candidates counts words here."""

import builtins
import json
import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from fashioniq import config
from fashioniq.askers import by_name
from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialogues import read_dialogues
from fashioniq.data.words import tokenize
from fashioniq.encoders.protocol import unit
from fashioniq.evaluation import dialogue_files as make_dialogues
from fashioniq.files import UserError, checksum
from fashioniq.models.attributes import AttributePredictor
from fashioniq.runs.checks import described
from fashioniq.runs.search_space import SearchSpace
from fashioniq.runs.weights import save_model


class Counts:
    """Texts as counts of the catalog's words."""

    limit = 77

    def __init__(self, catalog):
        texts = [" ".join(word for words in lists for word in words) for lists in catalog.labels.values()]
        self.words = sorted({word for text in texts for word in tokenize(text)})
        self.size = len(self.words)

    def texts(self, texts):
        counts = torch.tensor(
            [[tokenize(text).count(word) for word in self.words] for text in texts], dtype=torch.float32
        )
        return unit(counts + 1e-3)


@pytest.fixture
def counting(monkeypatch, sample):
    """Products are found by their words."""
    catalog = Catalog(sample, "dresses")

    def searched(name, ids, *_, **__):
        encoder = Counts(catalog)
        labelled = [" ".join(word for words in catalog.labels[name] for word in words) for name in ids]
        return SearchSpace(list(ids), encoder.texts(labelled), encoder, {})

    monkeypatch.setattr(by_name, "search_space", searched)
    return {"encoder": "counts", "candidates": 8}


@pytest.fixture
def make(project, sample, tmp_path):
    def run(**options):
        out = tmp_path / "made.json"
        code = main(
            project.arguments(
                "make-dialogues",
                **{"data": sample, "category": "dresses", "out": out, "batch_size": 5} | options,
            )
        )
        return code, out

    return run


def test_every_attribute_questioner_makes_a_whole_file_of_true_answers(make, sample, counting):
    catalog, made = Catalog(sample, "dresses"), {}
    for questioner in ("in-order", "shuffled", "candidate-aware"):
        code, out = make(questioner=questioner, rounds=6, **counting)
        assert code == 0 and not out.with_name("made.json.parts").exists()
        made[questioner] = read_dialogues(out)
        assert [dialogue.image for dialogue in made[questioner]] == catalog.ids("test")
        for dialogue in made[questioner]:
            rounds = [(said.question, said.answer) for said in dialogue.rounds[1:]]
            true = {"yes", "no", "none"}.union(*catalog.labels[dialogue.image])
            assert len({question for question, _ in rounds}) == 6
            assert all(set(answer.split(" and ")) <= true for _, answer in rounds)
    assert len({dialogue.rounds[1].partition("?")[0] for dialogue in made["in-order"]}) == 1
    assert made["candidate-aware"] != made["in-order"] != made["shuffled"]


def test_a_run_that_was_stopped_anywhere_goes_on_with_the_same_result(
    make, sample, tmp_path_factory, monkeypatch, counting, capsys
):
    data = shutil.copytree(sample, tmp_path_factory.mktemp("copy") / "catalog")
    prompt = tmp_path_factory.mktemp("prompts") / "own.yaml"
    prompt.write_text("questions: about {caption}")
    options = {"data": data, "questioner": "candidate-aware", "rounds": 3, "prompt": prompt, **counting}
    _, out = make(**options)
    whole = out.read_bytes()
    out.unlink()
    begun, real = [], make_dialogues.rollout

    def stopped_at_the_second(system, user, target_B, *rest, **named):
        begun.append(int(target_B[0]))
        if len(begun) == 2:
            raise KeyboardInterrupt
        return real(system, user, target_B, *rest, **named)

    monkeypatch.setattr(make_dialogues, "rollout", stopped_at_the_second)
    assert make(**options)[0] == 130 and not out.exists()
    (out.with_name("made.json.parts") / ".000000005-abcdefgh.json").write_text(
        "[{"
    )  # as a kill while writing leaves
    assert make(**options | {"rounds": 4})[0] == 2 and "--rounds" in capsys.readouterr().err
    labels = data / "attributes" / "asin2attr.dress.test.json"
    for path, old, new in ((labels, b"black", b"white"), (prompt, b"about", b"of")):
        before = path.read_bytes()
        path.write_bytes(before.replace(old, new))
        assert (
            make(**options)[0] == 2
            and "different dialogs, labels, prompts, weights or features" in capsys.readouterr().err
        )
        path.write_bytes(before)
    assert make(**options)[0] == 0 and out.read_bytes() == whole
    assert begun == [0, 5, 5, 10]  # the first batch was not made again
    assert [path.name for path in out.parent.iterdir()] == ["made.json"]


def test_parts_without_a_plan_are_of_nothing_known(make):
    options = {"questioner": "in-order", "rounds": 2}
    _, out = make(**options)
    whole, parts = out.read_bytes(), out.with_name("made.json.parts")
    parts.mkdir()
    (parts / "000000000.json").write_text('[{"img": "x", "dialog": ["stale"]}]')
    assert make(**options)[0] == 0 and out.read_bytes() == whole and not parts.exists()


def test_the_probabilities_of_a_predictor_say_what_candidates_would_answer(sample, tmp_path):
    """A head whose features are its logits: the first product is surely red, of the second nothing is known."""
    ids, words = Catalog(sample, "dresses").ids("test")[:2], ["red", "belt", "zipper"]
    run, store = tmp_path / "run", tmp_path / "store"
    about = {
        "kind": "attribute predictor",
        "category": "dresses",
        "encoder": "x",
        "image_size": 8,
        "attribute_words": words,
    }
    save_model(run, AttributePredictor(torch.nn.Identity(), 3, 3), described(about))
    save_file({"head.weight": torch.eye(3), "head.bias": torch.zeros(3)}, run / "weights.safetensors")
    store.mkdir()
    np.save(store / "features.npy", np.array([[50, -50, -50], [0, 0, 0]], np.float32))
    np.save(store / "attributes.npy", np.zeros((2, 8), np.int64))
    facts = {
        "encoder": "x",
        "image_size": 8,
        "dimensions": 3,
        "attribute_words": words,
        "count": 2,
        "failures": {},
    }
    (store / "ids.json").write_text(json.dumps(ids))
    settings = config.MakeDialogues(
        data=sample, category="dresses", features=store, predictor=run, rounds=3, out=tmp_path / "out.json"
    )
    catalog = Catalog(sample, "dresses")

    def answers(weights):
        (store / "store.json").write_text(json.dumps(facts | {"weights": weights}))
        return by_name.answers_of(settings, catalog, by_name.topics(catalog), ids)

    color, belt, zipper = answers(checksum(run / "weights.safetensors"))
    assert (
        color.question == "what color is it?"
        and belt.question == "does it have a belt?"
        and zipper.question == "does it have a zipper?"
    )
    np.testing.assert_allclose(color.chances([0, 1]), [[1, 0], [0.5, 0.5]], atol=1e-6)
    np.testing.assert_allclose(belt.chances([0, 1]), [[0, 1], [0.5, 0.5]], atol=1e-6)
    with pytest.raises(UserError, match="extract them with --predictor"):
        answers("others")
    settings.rounds = 4
    with pytest.raises(UserError, match="answer 3 questions"):
        answers(checksum(run / "weights.safetensors"))


def test_recorded_dialogues_come_out_as_they_went_in(project, tmp_path):
    content = [
        {"img": f"a/{number}.jpg", "dialog": ["red", "is it new? yes", "no mark"]} for number in range(7)
    ]
    (tmp_path / "in.json").write_text(json.dumps(content))
    options = {
        "captions_from": tmp_path / "in.json",
        "questioner": "recorded",
        "answerer": "recorded",
        "rounds": 2,
        "batch_size": 3,
    }
    project.run("make-dialogues", out=tmp_path / "out.json", **options)
    assert json.loads((tmp_path / "out.json").read_text()) == content


def test_recorded_dialogues_of_the_catalog_are_read_without_naming_them(project, sample, tmp_path, capsys):
    data = shutil.copytree(sample, tmp_path / "data")
    content = [{"img": Catalog(data, "dresses").ids("test")[0], "dialog": ["red", "is it new? yes"]}]
    path = data / "dialogues" / "dress.test.json"
    path.write_text(json.dumps(content))
    options = {"data": data, "category": "dresses", "rounds": 1, "out": tmp_path / "out.json"}
    options |= {"questioner": "recorded", "answerer": "recorded"}
    project.run("make-dialogues", **options)
    assert json.loads((tmp_path / "out.json").read_text()) == content
    path.unlink()
    assert main(project.arguments("make-dialogues", **options)) == 2
    assert "give --captions-from" in capsys.readouterr().err


class Words:
    """In the place of a model here or at an endpoint."""

    def __init__(self, *_, **__):
        pass

    def complete(self, prompts, tokens, pictures=None):
        return [f"is it {len(prompt)}? x" if pictures is None else "" for prompt in prompts]

    def answer(self, pictures, questions):
        assert all(isinstance(picture, Image.Image) for picture in pictures)
        return ["red?"] * len(questions)


@pytest.mark.parametrize(
    ("language", "visual", "answer"), [("gpt2", "blip2", "red"), ("endpoint:a", "endpoint:b", "unknown")]
)
def test_models_ask_and_answer_here_or_at_an_endpoint(make, monkeypatch, capsys, language, visual, answer):
    monkeypatch.setattr(by_name, "LocalLanguageModel", Words)
    monkeypatch.setattr(by_name, "Endpoint", Words)
    monkeypatch.setattr(make_dialogues, "VisualQuestionAnswerer", Words)
    code, out = make(
        questioner="few-shot", answerer="vqa", language_model=language, vqa_model=visual, rounds=2
    )
    assert code == 0
    assert {text.answer for dialogue in read_dialogues(out) for text in dialogue.rounds[1:]} == {answer}
    assert ("24 of 24 questions have no answer" in capsys.readouterr().out) == (answer == "unknown")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"questioner": "candidate-aware"}, "need --encoder"),
        ({"questioner": "few-shot"}, "give --language-model"),
        ({"questioner": "in-order", "answerer": "vqa"}, "give --vqa-model"),
        ({"questioner": "in-order", "rounds": 99}, "give --rounds"),
        ({"questioner": "in-order", "category": "shoes"}, "no category 'shoes'"),
        ({"questioner": "in-order", "captions_from": "nowhere.json"}, "nowhere.json"),
        (
            {"questioner": "in-order", "answerer": "vqa", "vqa_model": "x", "images": "nowhere"},
            "have no picture",
        ),
    ],
)
def test_what_is_missing_is_told(make, capsys, options, told):
    code, out = make(**options)
    errors = capsys.readouterr().err.strip().splitlines()
    assert code == 2 and len(errors) == 1 and told in errors[0] and not out.exists()


def test_a_person_answers_and_may_go_on_another_day(make, monkeypatch, capsys):
    options = {"questioner": "in-order", "answerer": "person", "rounds": 1}
    answers = iter(["red", "blue"])

    def read(prompt):
        try:
            return next(answers)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(builtins, "input", read)
    assert make(**options)[0] == 130 and "images/dress" in capsys.readouterr().out
    answers = iter(f"color {number}" for number in range(10))
    code, out = make(**options)
    assert code == 0
    assert [one.rounds[1].answer for one in read_dialogues(out)] == [
        "red",
        "blue",
        *(f"color {number}" for number in range(10)),
    ]


def test_a_chat_with_an_encoder_that_is_no_run_shows_what_is_found_after_every_answer(
    project, sample, counting, tmp_path, monkeypatch, capsys
):
    catalog, prompts = Catalog(sample, "dresses"), []
    target = catalog.ids("test")[3]
    lines = iter(
        [" ".join(word for words in catalog.labels[target] for word in words), "red", "unknown", "quit"]
    )
    monkeypatch.setattr(builtins, "input", lambda prompt: prompts.append(prompt) or next(lines))
    log = tmp_path / "dialogs.jsonl"
    options = {"show": 3, "rounds": 2, "log": log, "questioner": "candidate-aware", **counting}
    project.run("chat", data=sample, category="dresses", **options)
    assert len(set(prompts)) == 4 and all(prompt.endswith("? > ") for prompt in prompts)
    tables = capsys.readouterr().out.split("attributes")[1:]
    assert len(tables) == 4 and all(
        len(re.findall(r"^ +[123]  D", table, re.MULTILINE)) == 3 for table in tables
    )
    found = tables[1].splitlines()[2]
    assert target in found and catalog.titles[target][:20] in found and catalog.labels[target][1][0] in found
    assert json.loads(log.read_text())["top"][0] == target
