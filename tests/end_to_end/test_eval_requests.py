"""`fashioniq eval-requests` on the tiny runs."""

import json

import pytest

from fashioniq.data.evaluations import RequestMetrics, read_metrics


@pytest.fixture
def evaluate(project, runs, tmp_path, monkeypatch):
    """Judge the retriever of the tiny runs; return the results' folder."""

    monkeypatch.setattr("fashioniq.evaluation.requests.PER_KIND", 6)

    def evaluate(name="requests", **options):
        common = {"data": runs.catalog, "category": "dresses", "run": runs.retriever}
        given = {**common, "out": tmp_path / name, **options}
        project.run("eval-requests", **{key: value for key, value in given.items() if value is not None})
        return tmp_path / name

    return evaluate


def read(out):
    return read_metrics(out / "requests.json", "the requests", RequestMetrics, "run it again")


def test_requests_are_judged_for_the_search_of_a_run_and_for_bm25(evaluate, runs, capsys):
    out = evaluate()
    metrics = read(out)
    assert [row["method"] for row in metrics.rows] == ["search", "vectors alone", "BM25", "chance"]
    assert (metrics.category, metrics.gallery, metrics.seed, metrics.run) == (
        "dresses",
        60,
        0,
        str(runs.retriever),
    )
    assert metrics.pictures == "drawn", "vectors of photographs"
    assert metrics.provenance.command and metrics.provenance.retriever.command
    search, vectors, bm25, chance = metrics.rows
    assert vectors["one wish"] < search["one wish"] == 100
    assert bm25["one wish"] == 100 and bm25["denial"] < chance["denial"]
    lines = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    assert len(lines) == sum(metrics.requests.values()) and set(metrics.requests.values()) <= {*range(1, 7)}
    for number, row in ((0, search), (1, vectors), (2, bm25)):
        for kind in metrics.requests:
            judged = [line["judged"][number] for line in lines if line["request"]["kind"] == kind]
            assert row[kind] == pytest.approx(
                100 * sum(sum(one["obeys"]) / 8 for one in judged) / len(judged)
            )
    printed = capsys.readouterr().out
    assert "chance" in printed and all(kind in printed for kind in metrics.requests)
    page = (out / "report.html").read_text()
    assert "Failures of: search" in page and page.count("wrong") > 10 and "data:image/jpeg" in page


def test_the_same_seed_has_the_same_results_and_bm25_needs_no_run(evaluate):
    first, again = read(evaluate("first")), read(evaluate("again"))
    assert first.rows == again.rows and first.families == again.families
    alone, other = read(evaluate("alone", run=None)), read(evaluate("other", run=None, seed=1))
    assert [row["method"] for row in alone.rows] == ["BM25", "chance"] and alone.rows[0] == first.rows[2]
    assert other.rows != alone.rows


def test_misspellings_of_people_are_one_more_kind(evaluate, tmp_path):
    file = tmp_path / "corrections.json"
    file.write_text('{"sleevless": "sleeveless", "dooted": "dotted", "blakc": "black", "florall": "floral"}')
    kinds = read(evaluate(run=None, misspellings=file)).requests
    assert kinds["misspelled by people"] >= 3


def test_mistakes_are_refused_in_one_line(refused, runs, attribute_runs, tmp_path):
    common = {"data": runs.catalog, "category": "dresses"}
    assert "found an attribute predictor in" in refused("eval-requests", **common, run=attribute_runs[1])
    assert "give --out" in refused("eval-requests", **common)
    assert "give --run" in refused("eval-requests", **common, out=tmp_path / "out", blind=True)
    assert "8 or more" in refused("eval-requests", **unlabelled(runs.catalog, tmp_path), out=tmp_path / "out")
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"a": 1}')
    assert "corrections as strings" in refused(
        "eval-requests", **common, out=tmp_path / "out", misspellings=wrong
    )


def unlabelled(catalog, folder):
    """A catalog of the same products without labels."""
    root = folder / "catalog"
    (root / "image_splits").mkdir(parents=True)
    for path in (catalog / "image_splits").glob("split.dress.*"):
        (root / "image_splits" / path.name).write_bytes(path.read_bytes())
    return {"data": root, "category": "dresses"}
