"""Dialogs whose products are searched by an approximate index: `eval-dialogs --index`."""

import json
import shutil

import numpy as np
import pytest

from fashioniq.cli import main
from fashioniq.loop.exact import faiss

pytestmark = pytest.mark.skipif(faiss is None, reason="FAISS is not installed")


@pytest.fixture
def options(vector_runs, tmp_path):
    common = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "run": vector_runs.retriever,
        "user": vector_runs.captioner,
    }
    return {**common, "beam": 1, "out": tmp_path / "dialogs"}


def test_an_index_that_finds_all_changes_no_dialog_and_its_recall_is_told_and_stored(
    project, vector_runs, options, capsys
):
    project.run("eval-dialogs", **options, index="IVF2,Flat")
    for name in ("dialogs.jsonl", "run.trec"):
        assert (options["out"] / name).read_text() == (vector_runs.dialogs / name).read_text()
    facts = json.loads((options["out"] / "metrics.json").read_text())["index"]
    assert (facts["index"], facts["nprobe"], facts["recall@10"], facts["queries"]) == (
        "IVF2,Flat",
        2,
        1.0,
        60,
    )
    assert "index IVF2,Flat: nprobe 2, recall@10 1.000 on 60 queries" in " ".join(
        capsys.readouterr().out.split()
    )
    assert json.loads((vector_runs.dialogs / "metrics.json").read_text())["index"] is None


UNFIT = {
    "nonsense": "FAISS cannot create it",
    "IVF4096,Flat": "use fewer lists",
    "PCA1,Flat": "use another index",
}


@pytest.mark.parametrize("index", UNFIT)
def test_an_index_that_cannot_be_made_or_finds_too_little_is_one_line_and_2(
    project, options, index, capsys, monkeypatch
):
    monkeypatch.setattr(
        "fashioniq.loop.index.candidate_count", int
    )  # or it would find all of so few products
    assert main(project.arguments("eval-dialogs", **options, index=index)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and UNFIT[index] in lines[0]
    assert not (options["out"] / "metrics.json").exists()


def test_a_search_stores_vectors_and_index_in_the_run_and_uses_them_again(
    vector_runs, project, tmp_path, refused, capsys
):
    run = shutil.copytree(vector_runs.retriever, tmp_path / "retriever")
    request = {"run": run, "text": "is red", "json": True}
    project.run("search", **request)
    found = [json.loads(capsys.readouterr().out)["products"]]
    folder = run / "gallery" / "all"
    dates = []
    for _ in range(2):
        project.run("search", **request, index="IVF2,Flat")
        found.append(json.loads(capsys.readouterr().out)["products"])
        dates.append({path.name: path.stat().st_mtime_ns for path in folder.iterdir()})
    exact, stored = ({one["id"]: one["distance"] for one in some} for some in found[:2])
    assert found[1] == found[2] and stored == pytest.approx(exact, abs=1e-3)  # stored vectors are float16
    assert sorted(dates[0]) == ["IVF2-Flat.faiss", "IVF2-Flat.json", "vectors.json", "vectors.npy"]
    assert dates[0] == dates[1]
    vectors = np.load(folder / "vectors.npy")
    np.save(folder / "vectors.npy", vectors[::-1])
    assert "vectors.npy is not the file that was written; remove" in refused(
        "search", **request, index="IVF2,Flat"
    )
    project.run("search", **request, index="IVF2,Flat", split="val")
    assert (run / "gallery" / "val" / "vectors.npy").exists()


def test_vectors_of_other_weights_are_computed_again(vector_runs, project, tmp_path, capsys):
    run = shutil.copytree(vector_runs.retriever, tmp_path / "retriever")
    path, manifest = (run / "gallery" / "all" / name for name in ("vectors.npy", "vectors.json"))
    project.run("search", run=run, text="is red", index="Flat")
    before = path.read_bytes()
    about = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(about | {"weights": "0" * 16}))
    path.write_bytes(b"of other weights")
    project.run("search", run=run, text="is red", index="Flat")
    assert path.read_bytes() == before and json.loads(manifest.read_text()) == about
