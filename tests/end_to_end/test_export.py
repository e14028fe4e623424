"""`fashioniq export`: ONNX files compute what the model computes, and a run in the layout of the hub is the same run."""

import json
import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import torch
import yaml

import fashioniq
from fashioniq.data.catalog import Catalog
from fashioniq.exports import onnx
from fashioniq.exports.onnx import ExportDifference, compute, difference, sessions
from fashioniq.features.store import open_store
from fashioniq.files import checksum
from fashioniq.loop.messages import Message
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.trained import load_retriever
from tests.unit.models.test_whole_dialogs import ATTRIBUTES, FEATURES, WORDS, by_turn, dialogs, make

SHAPES = [(batch, turns) for batch in (1, 3, 8) for turns in (1, 2, 5, 7)]


@pytest.fixture(scope="module")
def exported(project, runs, tmp_path_factory):
    """The ONNX files of the shared transformer."""
    out = tmp_path_factory.mktemp("onnx")
    project.run("export", run=runs.retriever, out=out)
    return out


@pytest.fixture(scope="module")
def on_hub(project, runs, tmp_path_factory):
    """A copy of the shared transformer with its evaluation, and of another model's, in the layout of the hub."""
    folder = tmp_path_factory.mktemp("hub")
    run = shutil.copytree(runs.retriever, folder / "run")
    shutil.copytree(runs.dialogs, run / "dialogs-test/captioner")
    other = json.loads((runs.dialogs / "metrics.json").read_text())
    other["provenance"]["retriever"]["date"] = "2020-01-01T00:00:00+00:00"
    (run / "dialogs-val").mkdir()
    (run / "dialogs-val/metrics.json").write_text(json.dumps(other))
    project.run("export", run=run, to="huggingface", out=folder / "hub")
    return folder / "hub"


def test_the_example_of_the_documentation_finds_the_nearest_products(exported, runs, tmp_path, monkeypatch):
    page = (Path(fashioniq.__file__).parents[1] / "docs/reference/export.md").read_text(encoding="utf-8")
    block = page[page.index("    import json, numpy") :].partition("\n\n")[0]
    monkeypatch.chdir(tmp_path)
    Path("runs/retriever-dresses-attrs").mkdir(parents=True)
    Path("runs/retriever-dresses-attrs/onnx").symlink_to(exported)
    items = open_store(runs.catalog, "dresses", None).items(Catalog(runs.catalog, "dresses").ids("test"))
    given = {
        "shown_attributes": items.attributes_NA[0].numpy(),
        "shown_features": items.features_ND[0].numpy(),
        "vectors": compute(sessions(exported), "embed_images", items.features_ND[:]).numpy(),
    }
    exec(dedent(block), given)
    assert given["query"].shape == (1, given["vectors"].shape[1]) and len(set(given["nearest"])) == 10


@torch.no_grad()
def test_the_files_of_a_run_compute_its_queries_and_vectors(exported, runs):
    model, _, about = load_retriever(runs.retriever)
    assert difference(model, about, sessions(exported)) == ExportDifference(pytest.approx(0, abs=1e-4), 0, 48)
    image_ND = torch.randn(5, about.sizes["features"])
    theirs_ND = compute(sessions(exported, ".int8"), "embed_images", image_ND)
    assert torch.cosine_similarity(theirs_ND, model.embed_images(image_ND)).min() > 0.99
    written = json.loads((exported / "export.json").read_text())
    assert written["words"] == about.words and written["checked"]["equal_ranks"] == 48
    assert (
        written["files"] == {path.name: checksum(path) for path in exported.glob("*.onnx")}
        and len(written["files"]) == 4
    )
    assert not any(str(fashioniq.__file__).encode()[:8] in path.read_bytes() for path in exported.iterdir())


@torch.no_grad()
def test_the_difference_of_another_model_is_noticed(exported, runs):
    model, _, about = load_retriever(runs.retriever)
    model.query.bias += 0.1
    found = difference(model, about, sessions(exported))
    assert found.largest > onnx.TOLERANCE and found.moved > 0


@pytest.mark.parametrize("kind", ["rnn", "linear", "residual"])
@torch.no_grad()
def test_a_graph_computes_the_same_at_all_sizes(kind, tmp_path):
    model, sizes = make(kind), {"vocabulary": WORDS, "features": FEATURES, "attributes": ATTRIBUTES}
    onnx._write_graph(tmp_path / "query.onnx", model, "query", sizes)
    opened = sessions(tmp_path, graphs=["query"])
    for number, (batch, turns) in enumerate(SHAPES):
        given = dialogs(batch, turns, words=8 + number % 3)
        torch.testing.assert_close(
            compute(opened, "query", *given), by_turn(model, *given), atol=1e-5, rtol=1e-4
        )


def test_files_that_compute_something_else_are_not_written(runs, refused, exported, monkeypatch, tmp_path):
    out = shutil.copytree(exported, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for name in ("_write_graph", "_quantize", "sessions"):
        monkeypatch.setattr(onnx, name, lambda *_: None)
    for found in (
        ExportDifference(2e-4, 0, 48),
        ExportDifference(float("nan"), 0, 48),
        ExportDifference(0.0, 1, 48),
    ):
        monkeypatch.setattr(onnx, "difference", lambda *_, found=found: found)
        assert "expected ONNX files that compute what" in refused("export", run=runs.retriever, out=out)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_what_cannot_be_exported_is_refused(project, vector_runs, runs, refused, monkeypatch, tmp_path):
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    sizes = {"model.composition": "D", "model.width": 8, "epochs": 1, "batch_size": 16}
    project.run("train-composer", **common, run=tmp_path / "composer", **sizes)
    assert "found a composer" in refused("export", run=tmp_path / "composer")
    assert "--out is the run itself" in refused("export", run=runs.retriever, out=runs.retriever)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    assert "pip install 'fashioniq[export]'" in refused("export", run=runs.retriever, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_in_the_layout_of_the_hub_is_the_same_run(on_hub, runs):
    ours, theirs = load_retriever(runs.retriever)[0].state_dict(), load_retriever(on_hub)[0].state_dict()
    assert list(ours) == list(theirs) and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert read_run(on_hub, RetrieverRun) == read_run(runs.retriever, RetrieverRun)
    found = []
    for run in (runs.retriever, on_hub):
        system = fashioniq.load(run, features=runs.store, data=runs.catalog, category="dresses")
        talk = system.start(1)
        found.append(system.top(system.observe(talk, system.offer(talk), Message(texts=["is red"])), 5))
    assert found[0] == found[1]
    assert {path.name for path in on_hub.iterdir()} == {
        "README.md",
        "config.json",
        "model.json",
        "model.safetensors",
        "wording.json",
        "labels.safetensors",
    }


def test_the_card_is_made_of_the_files_of_the_run(on_hub, runs):
    text = (on_hub / "README.md").read_text()
    about = read_run(runs.retriever, RetrieverRun)
    head = yaml.safe_load(text.split("---\n")[1])
    metrics = json.loads((runs.dialogs / "metrics.json").read_text())
    last = metrics["turns"][-1]
    (result,) = head["model-index"][0]["results"]  # the evaluation of other weights is left out
    assert {one["type"]: one["value"] for one in result["metrics"]} == {
        name: round(last[name], 4) for name in ("P", "R@1", "R@10", "MRR")
    }
    assert (
        f"| {metrics['user']} (of the training) | {metrics['captions']} | test | 12 | 12 | 3 | {last['P']:.2f} | {last['R@1']:.2f} | {last['R@10']:.2f} | {last['MRR']:.3f} |"
        in text
    )
    for part in (about.data.fingerprint, about.data.captions, about.provenance.command, about.checksum):
        assert part in text
    assert "no conversations of a live service" in text and "The run records no license" in text
    assert "{{" not in text and "{%" not in text


def test_the_card_of_a_model_trained_on_conversations_names_their_consent(project, runs, tmp_path):
    run = shutil.copytree(runs.retriever, tmp_path / "run")
    about = json.loads((run / "model.json").read_text())
    (run / "model.json").write_text(json.dumps(about | {"users": ["live"]}))
    project.run("export", run=run, to="huggingface")
    text = (run / "huggingface/README.md").read_text()
    assert "only of shoppers who agreed" in text and "no dialog evaluation of these weights" in text


def test_damaged_weights_are_not_exported(runs, refused, tmp_path):
    run = shutil.copytree(runs.retriever, tmp_path / "run")
    (run / "weights.safetensors").write_bytes(b"damaged")
    assert "is damaged" in refused("export", run=run, to="huggingface", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("to", "name", "content"),
    [
        ("huggingface", "config.json", '{"library_name": "transformers"}'),
        ("huggingface", "config.json", "[1]"),
        ("huggingface", "README.md", "mine"),
        ("onnx", "export.json", '{"weights": "mine"}'),
        ("onnx", "notes.txt", "mine"),
    ],
)
def test_a_folder_of_something_else_is_refused(runs, refused, tmp_path, to, name, content):
    (tmp_path / name).write_text(content)
    line = refused("export", run=runs.retriever, to=to, out=tmp_path)
    assert (
        f"expected an empty folder or an earlier export in {tmp_path}, found {name} of something else" in line
    )
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: content}


def test_an_earlier_export_is_replaced_also_if_it_was_killed(project, runs, on_hub, exported, tmp_path):
    for to, earlier, last in (("huggingface", on_hub, "model.json"), ("onnx", exported, "export.json")):
        out = shutil.copytree(earlier, tmp_path / to)
        for name in (".gitattributes", ".model-abcdefgh.json"):
            (out / name).write_text("hidden")
        project.run("export", run=runs.retriever, to=to, out=out)
        (out / last).unlink()  # the last file of an export
        project.run("export", run=runs.retriever, to=to, out=out)
        assert (out / last).is_file() and (out / ".gitattributes").read_text() == "hidden"
        assert {path.name for path in out.iterdir()} - {path.name for path in earlier.iterdir()} == {
            ".gitattributes"
        }
