"""A retriever, user, asker, encoder, generator and measure of another package work in every command that takes one."""

import json

import numpy as np
import pytest

import fashioniq
from fashioniq.cli import main
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import SPECIAL, tokenize
from fashioniq.service.served_model import Served
from tests.plugins.conftest import NAMES, PARTS

pytestmark = pytest.mark.usefixtures("installed")
SHORT = {"turns": 2, "batch_size": 16}


@pytest.fixture
def catalog(vector_runs):
    return {"data": vector_runs.catalog, "category": "dresses"}


def metrics_of(folder):
    assert (folder / "report.html").is_file() and (folder / "run.trec").is_file()
    return json.loads((folder / "metrics.json").read_text())


def train(folder, project, runs):
    """A run of the toy retriever, trained with the toy user."""
    project.run(
        "train-retriever",
        data=runs.catalog,
        category="dresses",
        features=runs.store,
        run=folder / "run",
        **{"model.kind": "toy-retriever", "model.width": 6, "model.scale": 0.5, "users_options.words": 3},
        users=["toy-user"],
        turns=2,
        epochs=1,
        batch_size=16,
    )
    return folder / "run"


@pytest.fixture(scope="module")
def run(installed, tmp_path_factory, project, vector_runs):
    return train(tmp_path_factory.mktemp("trained"), project, vector_runs)


def test_a_retriever_is_trained_with_its_options_and_a_user(run, vector_runs):
    about = json.loads((run / "model.json").read_text())
    assert about["model"] == "toy-retriever" and about["users"] == ["toy-user"]
    assert (about["sizes"]["width"], about["sizes"]["scale"], about["sizes"]["features"]) == (6, 0.5, 16)
    titles = " ".join(Catalog(vector_runs.catalog, "dresses").titles.values())
    assert {*about["words"][len(SPECIAL) :]} <= {*tokenize(titles)}  # which the user says


def test_a_run_is_resumed_with_the_options_of_its_parts(run, refused, vector_runs):
    assert "model.width: 6\n" not in (run / "config.yaml").read_text()  # it is in the section of the model
    told = refused("train-retriever", config=run / "config.yaml", run=run, resume=True, **{"model.width": 7})
    assert "model.width" in told


def test_its_run_is_evaluated_with_several_users(run, project, catalog, tmp_path, capsys):
    common = {**catalog, "features": json_store(run), "run": run, "out": tmp_path, **SHORT}
    project.run("eval-dialogs", **common, user=["toy-user", "differences"])
    users = json.loads((tmp_path / "users.json").read_text())
    assert users["users"] == {"own": ["toy-user"], "truthful": ["differences"]}
    found = metrics_of(tmp_path / "toy-user")
    assert (found["user"], found["captions"], found["retriever"]) == (
        "toy-user",
        "2 words of titles",
        str(run),
    )
    assert "toy-user" in (tmp_path / "report.html").read_text() and "toy-user" in capsys.readouterr().out


def json_store(run):
    return next(
        line.partition(": ")[2]
        for line in (run / "config.yaml").read_text().splitlines()
        if line.startswith("features: ")
    )


def test_a_user_speaks_as_its_options_say(vector_runs, project, catalog, tmp_path):
    project.run(
        "eval-dialogs",
        **catalog,
        features=vector_runs.store,
        run=vector_runs.retriever,
        user="toy-user",
        **{"user_options.words": 1, "word_noise": 0.1},
        out=tmp_path,
        **SHORT,
    )
    assert metrics_of(tmp_path)["captions"] == "1 words of titles"
    replies = {
        turn["reply"].get("text", "")
        for line in (tmp_path / "dialogs.jsonl").read_text().splitlines()
        for turn in json.loads(line)["turns"]
    }
    assert all(len(text.split()) <= 2 for text in replies)  # of one word, and a negation as noise


def test_its_run_is_searched_and_served_and_one_can_chat_with_it(run, project, capsys, monkeypatch, tmp_path):
    project.run("search", run=run, text="red dress", json=True, count=3)
    assert len(json.loads(capsys.readouterr().out)["products"]) == 3
    lines = iter(["red dress", "quit"])
    monkeypatch.setattr("builtins.input", lambda prompt="": next(lines))
    project.run("chat", run=run, log=tmp_path / "log.jsonl")
    assert "the dialog is in" in capsys.readouterr().out
    assert Served.of(run).system.dialog().say("red dress").nearest(2)
    assert fashioniq.load(run, split="test").dialog().say("red dress").products(2)


def test_its_run_is_evaluated_by_single_turns_and_by_requests(run, project, catalog, tmp_path):
    store = json_store(run)
    project.run("eval-single-turn", run=run, **catalog, features=store, out=tmp_path / "single")
    assert json.loads((tmp_path / "single/metrics.json").read_text())["rows"][0]["category"] == "dresses"
    project.run("eval-requests", run=run, **catalog, features=store, out=tmp_path / "requests")
    assert (tmp_path / "requests/requests.json").is_file()


def test_its_run_is_exported(run, project, refused, monkeypatch, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    with monkeypatch.context() as patch:
        patch.delattr("toy_parts.retriever.Bag.forward")
        told = refused("export", run=run, to="onnx", out=tmp_path / "onnx")
    assert "the retriever toy-retriever of" in told and "add forward(words, attributes, image, mask)" in told
    project.run("export", run=run, to="onnx", out=tmp_path / "onnx")
    assert (tmp_path / "onnx/query.onnx").is_file() and "ranks equal" in capsys.readouterr().out
    project.run("export", run=run, to="huggingface", out=tmp_path / "card")
    assert (tmp_path / "card/README.md").is_file()


def test_an_asker_asks_in_generated_dialogs_and_in_a_chat(
    project, catalog, vector_runs, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "dialogs.json"
    given = {"questioner": "toy-asker", "questioner_options.colors": ["teal", "navy"]}
    project.run("make-dialogues", **catalog, split="test", **given, rounds=3, out=out, answerer="toy-user")
    made = json.loads(out.read_text())[0]
    rounds = made["dialog"]
    title = Catalog(vector_runs.catalog, "dresses").titles[made["img"]]
    assert rounds[1].split("? ")[1] == " ".join(title.split()[:2])
    assert [text.split("?")[0] for text in rounds[1:]] == ["is it teal", "is it navy", "is it teal"]
    asked = []
    lines = iter(["a dress", "no", "quit"])
    monkeypatch.setattr("builtins.input", lambda prompt="": (asked.append(prompt), next(lines))[1])
    project.run("chat", encoder="toy-encoder", **catalog, **given, log=tmp_path / "log.jsonl", split="test")
    assert asked[1] == "is it teal? > " and asked[2] == "is it navy? > "


def test_an_encoder_fills_a_store_which_is_searched_and_chatted_with(
    project, catalog, sample, tmp_path, capsys
):
    store = tmp_path / "store"
    project.run("extract-features", **catalog, encoder="toy-encoder", features=store, workers=0)
    about = json.loads((store / "store.json").read_text())
    assert about["encoder"] == "letters" and about["dimensions"] == 16
    assert np.load(store / "features.npy").shape[1] == 16
    capsys.readouterr()
    project.run(
        "search", encoder="toy-encoder", **catalog, features=store, text="red dress", json=True, count=2
    )
    assert len(json.loads(capsys.readouterr().out)["products"]) == 2


@pytest.fixture(scope="module")
def dialogues(installed, tmp_path_factory, project, vector_runs):
    """Dialogs of questions and answers, and the vectors of their pictures by the toy encoder."""
    folder = tmp_path_factory.mktemp("dialogues")
    catalog = {"data": vector_runs.catalog, "category": "dresses"}
    project.run(
        "make-dialogues",
        **catalog,
        split="test",
        questioner="toy-asker",
        rounds=2,
        out=folder / "dialogs.json",
    )
    project.run("extract-features", **catalog, encoder="toy-encoder", features=folder / "store", workers=0)
    images = [one["img"] for one in json.loads((folder / "dialogs.json").read_text())]
    (folder / "space.json").write_text(json.dumps(images))
    return folder


@pytest.mark.parametrize("system", ["chatir", "dar"])
def test_question_dialogs_are_searched_with_the_encoder_and_generated_pictures(
    dialogues, project, system, tmp_path
):
    generated = {"generator": "toy-generator:dark", "cache": tmp_path / "cache"} if system == "dar" else {}
    project.run(
        "eval-dialogs",
        system=system,
        dialogues=dialogues / "dialogs.json",
        search_space=dialogues / "space.json",
        encoder="toy-encoder",
        features=dialogues / "store",
        **generated,
        out=tmp_path / "out",
    )
    found = metrics_of(tmp_path / "out")
    assert found["encoder"] == "toy-encoder" and found["model"] == "letters" and "RR2" in found["rounds"][0]
    assert found.get("generator") == ({"backend": "plain", "argument": "dark"} if generated else None)


@pytest.mark.parametrize("system", ["genir", "plugir-asks"])
def test_descriptions_are_searched_with_the_encoder_and_generated_pictures(
    dialogues, project, catalog, system, tmp_path
):
    generated = {"generator": "toy-generator", "cache": tmp_path / "cache", "feedback": "visual"}
    project.run(
        "eval-dialogs",
        system=system,
        **catalog,
        encoder="toy-encoder",
        features=dialogues / "store",
        **({**generated, "user": "toy-user"} if system == "genir" else {}),
        rounds=2,
        out=tmp_path / "out",
    )
    found = metrics_of(tmp_path / "out")
    assert found["encoder"] == "toy-encoder"
    assert system != "genir" or (found["generator"]["backend"], found["user"]) == ("plain", "toy-user")


def test_conversations_are_searched_with_the_encoder(talks, project, tmp_path, dialogues):
    project.run(
        "eval-chatsearch", data=talks, features=dialogues / "store", encoder="toy-encoder", out=tmp_path
    )
    assert metrics_of_search(tmp_path)[0]["method"] == "image"


def metrics_of_search(folder):
    assert (folder / "report.html").is_file()
    return json.loads((folder / "metrics.json").read_text())["rows"]


def test_a_measure_is_in_the_tables_and_compares_runs(project, vector_runs, catalog, tmp_path, capsys):
    for user in ("toy-user", "differences"):
        project.run(
            "eval-dialogs",
            **catalog,
            features=vector_runs.store,
            run=vector_runs.retriever,
            user=user,
            out=tmp_path / user,
            **SHORT,
        )
    turns = metrics_of(tmp_path / "toy-user")["turns"]
    assert turns[0]["RR2"] <= turns[0]["MRR"] and "RR²" in (tmp_path / "toy-user/report.html").read_text()
    capsys.readouterr()
    compared = [str(tmp_path / user) for user in ("toy-user", "differences")]
    assert main(["compare", *compared, "--measure", "RR2", "--out", str(tmp_path / "c")]) == 0
    assert json.loads((tmp_path / "c/comparison.json").read_text())["measure"] == "RR2"


@pytest.mark.parametrize("kind", PARTS)
def test_every_part_is_found_by_its_module_too(kind):
    from fashioniq import plugins

    place = PARTS[kind]
    assert plugins.is_part(kind, NAMES[kind]) and plugins.find(kind, NAMES[kind]) is plugins.find(kind, place)


@pytest.mark.parametrize(
    ("command", "options", "why"),
    [
        ("train-retriever", {"model.kind": "toy_parts.user:Terse"}, "there is no retriever toy_parts.user:Terse (it has no start"),
        ("train-retriever", {"users": "toy_parts.user:Nobody"}, "there is no user toy_parts.user:Nobody (module"),
        ("make-dialogues", {"questioner": "toy", "out": "a.json"}, "page, toy-asker or an asker of your own, found toy"),
        ("extract-features", {"encoder": "toy_parts.encoder:Nothing"}, "there is no encoder toy_parts.encoder:Nothing"),
        ("eval-dialogs", {"system": "genir", "generator": "no_such:Generator", "encoder": "x"}, "there is no generator no_such:Generator"),
        ("eval-dialogs", {"run": "{run}", "user": "no_such:User"}, "there is no user no_such:User; available: differences, grammar, endpoint, local, toy-user"),
    ],
)  # fmt: skip
def test_a_part_that_is_not_there_is_refused_in_one_line(
    refused, catalog, vector_runs, command, options, why
):
    given = {name: str(value).format(run=vector_runs.retriever) for name, value in options.items()}
    assert why in refused(command, **catalog, **given)


def test_where_a_module_is_named_instead_of_its_part_the_error_says_so(
    vector_runs, monkeypatch, tmp_path, capsys
):
    (tmp_path / "my_parts.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    given = ["--data", str(vector_runs.catalog), "--category", "dresses"]
    run = ["--run", str(vector_runs.retriever), "--features", str(vector_runs.store)]
    assert main(["eval-dialogs", *given, *run, "--user", "my_parts"]) == 2
    assert "a part of your own is my_parts:NAME" in capsys.readouterr().err
    assert main(["search", "--encoder", "my_parts", *given, "--text", "red"]) == 2
    assert "a part of your own is my_parts:NAME" in capsys.readouterr().err
