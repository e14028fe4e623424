"""The words of a run: every training of a retriever fits them, every system that is loaded from one has them."""

import json
import shutil

import pytest
import torch

import fashioniq
from fashioniq.data.catalog import Catalog
from fashioniq.loop.dialog import Dialog
from fashioniq.runs.weights import load_wording
from fashioniq.runs.wording import with_words_of

REQUESTS = ("a red dress", "is striped with long sleeves", "not floral", "longer", "blue and not striped")


@pytest.fixture(scope="module")
def trained(project, vector_runs, tmp_path_factory):
    """Runs of all trainings whose systems read words, by name."""
    folder = tmp_path_factory.mktemp("runs")
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    tiny = {"epochs": 1, "batch_size": 16}
    project.run("train-retriever", **common, epochs=0, run=folder / "linear")
    options = {"model.composition": "D", "model.width": 32, **tiny}
    project.run("train-composer", **common, run=folder / "composer", **options)
    return {
        "transformer": vector_runs.retriever,
        "linear": folder / "linear",
        "composer": folder / "composer",
    }


@pytest.mark.parametrize("name", ["transformer", "linear", "composer"])
def test_every_training_of_a_retriever_fits_words(name, trained, vector_runs):
    run = trained[name]
    about, model = load_wording(run, 16)
    assert about.labels and model.linear.weight.shape == (len(about.labels), 16) and about.figures["captions"]
    system = fashioniq.load(run, features=vector_runs.store, split="all", device="cpu")
    assert system.wording is not None and system.gallery.scorer is system.wording
    assert system.wording.weights == about.weights
    live = Dialog.start(system).say("a red dress")
    assert live.query.wishes[0].held and live.query.vector_BD.isfinite().all()


def test_a_run_of_before_searches_with_vectors_alone(vector_runs, by_vectors):
    system = fashioniq.load(by_vectors(vector_runs.retriever), features=vector_runs.store, device="cpu")
    assert system.wording is None and system.gallery.scorer is None
    assert with_words_of(system, vector_runs.retriever.parent, None, system.vocabulary) is system


@pytest.fixture
def replaced(vector_runs, tmp_path):
    """A copy of the catalog whose test products have other titles and labels."""
    root = shutil.copytree(vector_runs.catalog, tmp_path / "catalog", ignore=shutil.ignore_patterns("images"))
    (root / "images").symlink_to(vector_runs.catalog / "images")
    labels, titles = root / "attributes/asin2attr.dress.test.json", root / "titles/dress.test.json"
    names = list(json.loads(labels.read_text()))
    labels.write_text(json.dumps({name: [["dress"], ["red"], [], ["maxi"], [], []] for name in names}))
    titles.write_text(json.dumps({name: {"title": "A red zorgle"} for name in names}))
    assert set(Catalog(root, "dresses").titles.values()) >= {"A red zorgle"}
    return root


@torch.no_grad()
def found(run, data, features, words):
    system = fashioniq.load(run, features=features, device="cpu", data=data, words=words)
    rows = []
    for text in REQUESTS:
        live = Dialog.start(system).say(text)
        for item in (None, system.gallery.items.ids[3]):
            said = live.about(item).say("longer, not floral")
            rows.append(
                (system.read(text), said.query.wishes, [(one.id, one.distance) for one in said.nearest(12)])
            )
    return rows


def test_from_pictures_alone_neither_titles_nor_labels_of_the_products_served_count(vector_runs, replaced):
    own, other = (
        found(vector_runs.retriever, data, vector_runs.store, words=False)
        for data in (vector_runs.catalog, replaced)
    )
    assert own == other
    assert found(vector_runs.retriever, vector_runs.catalog, vector_runs.store, words=True) != own


def test_with_words_the_titles_and_labels_of_the_products_served_count(vector_runs, replaced):
    own, other = (
        found(vector_runs.retriever, data, vector_runs.store, words=True)
        for data in (vector_runs.catalog, replaced)
    )
    assert own != other


@pytest.mark.parametrize("damage", ["wording.json", "labels.safetensors"])
def test_damaged_words_are_refused_in_one_line(damage, vector_runs, refused, tmp_path):
    run = shutil.copytree(vector_runs.retriever, tmp_path / "run")
    (run / damage).write_bytes((run / damage).read_bytes()[:-5])
    line = refused("search", run=run, text="red", features=vector_runs.store)
    assert damage in line
    assert damage in refused("export", run=run, to="huggingface", out=tmp_path / "hub")
    assert not (tmp_path / "hub" / "model.json").exists()


def test_an_evaluation_ranks_with_the_words_of_the_run(project, vector_runs, by_vectors, tmp_path):
    common = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "user": "human",
    }
    P = {}
    for name, run in (("words", vector_runs.retriever), ("vectors", by_vectors(vector_runs.retriever))):
        project.run("eval-dialogs", **common, run=run, split="val", out=tmp_path / name)
        P[name] = json.loads((tmp_path / name / "metrics.json").read_text())["turns"][0]["P"]
    assert P["words"] > P["vectors"] + 10  # the vectors are random, and the labels are right


@pytest.mark.parametrize("user", ["human", "captioner"])
def test_vectors_alone_rank_as_in_a_run_without_words(
    user, project, vector_runs, by_vectors, tmp_path, capsys
):
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    said = (
        {"user": "human", "split": "val"} if user == "human" else {"user": vector_runs.captioner, "beam": 1}
    )
    dialogs = {}
    for name, run, score in (
        ("alone", vector_runs.retriever, {"score": "vectors"}),
        ("without", by_vectors(vector_runs.retriever), {}),
        ("both", vector_runs.retriever, {"score": "words"}),
    ):
        project.run("eval-dialogs", **common, **said, **score, run=run, out=tmp_path / name)
        dialogs[name] = (tmp_path / name / "dialogs.jsonl").read_text()
        assert ("vectors alone rank" in capsys.readouterr().out) == (score.get("score") == "vectors")
    assert dialogs["alone"] == dialogs["without"] != dialogs["both"]
    stated = [
        json.loads((tmp_path / name / "metrics.json").read_text()).get("score") for name in ("alone", "both")
    ]
    assert stated == ["vectors", None]


def test_single_turns_are_ranked_by_vectors_alone_too(project, vector_runs, trained, by_vectors, tmp_path):
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    run, ranks = trained["composer"], {}
    for name, one, score in (
        ("alone", run, "vectors"),
        ("without", by_vectors(run), "words"),
        ("both", run, "words"),
    ):
        project.run("eval-single-turn", **common, run=one, score=score, out=tmp_path / name)
        ranks[name] = (tmp_path / name / "ranks.dresses.jsonl").read_text()
    assert ranks["alone"] == ranks["without"] != ranks["both"]
    assert json.loads((tmp_path / "alone" / "metrics.json").read_text())["rows"][0]["score"] == "vectors"
