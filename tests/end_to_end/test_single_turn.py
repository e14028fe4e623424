"""Composers from recorded captions to `fashioniq eval-single-turn`, and other people's answers beside them."""

import csv
import json
import os
from shutil import copytree

import numpy as np
import pytest

from fashioniq.cli import main

CONVENTIONS = [
    {},
    {"captions": "joined"},
    {"captions": "both-orders", "exclude_candidate": True},
    {"gallery": "val-split"},
]


def read(path):
    return json.loads(path.read_text())


def ranks_of(out, category="dresses"):
    return [json.loads(line) for line in (out / f"ranks.{category}.jsonl").read_text().splitlines()]


def measured(out, number=0):
    row = read(out / "metrics.json")["rows"][number]
    return {
        name: row[name] for name in ("queries", "gallery", "R@1", "R@10", "R@50", "(R@10+R@50)/2", "P", "MRR")
    }


@pytest.fixture(scope="module")
def composer(project, vector_runs, tmp_path_factory):
    """A composer of image and caption on the vectors of dresses."""
    run = tmp_path_factory.mktemp("composer") / "B"
    sizes = {"model.composition": "B", "model.width": 32, "epochs": 2, "batch_size": 16}
    common = {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    project.run("train-composer", **common, run=run, **sizes)
    return run


@pytest.fixture
def evaluate(project, vector_runs, tmp_path):
    """Evaluate a run or predictions on the val split of dresses; return the results' folder."""

    def evaluate(name="out", **options):
        common = {"data": vector_runs.catalog, "category": "dresses", "out": tmp_path / name}
        project.run("eval-single-turn", **{**common, **options})
        return tmp_path / name

    return evaluate


@pytest.fixture
def write_queries(project, vector_runs):
    """Write the queries of the val split of dresses to a folder."""

    def write_queries(folder, **options):
        project.run(
            "eval-single-turn",
            **{"data": vector_runs.catalog, "category": "dresses", "queries": folder, **options},
        )

    return write_queries


@pytest.fixture
def refused(vector_runs, project, tmp_path, capsys):
    """The one line that an evaluation which has to fail tells."""

    def refused(command=None, **options):
        options = {"data": vector_runs.catalog, "category": "dresses", "out": tmp_path / "out", **options}
        assert main(project.arguments(command or "eval-single-turn", **options)) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and not (tmp_path / "out").exists()
        return error

    return refused


def test_a_composer_needs_no_captioner_and_says_what_it_heard(composer):
    facts = read(composer / "model.json")
    assert (facts["model"], facts["sizes"]["composition"], facts["dialogs"], facts["user"]) == (
        "composer",
        "B",
        "recorded",
        None,
    )
    assert facts["data"]["coverage"] == {"train": 1.0, "val": 1.0}


def test_the_margin_is_chosen_on_val(project, vector_runs, tmp_path, capsys):
    options = {"model.composition": "B", "model.width": 32, "epochs": 1, "margins": ["0", "5", "5.0"]}
    options |= {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}
    project.run("train-composer", **options, run=tmp_path / "B")
    runs = {margin: tmp_path / f"B-margin-{margin}" for margin in (0, 5)}
    assert sorted(tmp_path.iterdir()) == list(runs.values())
    score = {margin: read(run / "model.json")["metrics"]["val_score"] for margin, run in runs.items()}
    best = max(score, key=score.get)
    assert (
        score[0] != score[5] and f"the best margin on val is {best}: {runs[best]}" in capsys.readouterr().out
    )
    (runs[5] / "last.ckpt").unlink()
    project.run("train-composer", **options | {"epochs": 2}, run=tmp_path / "B", resume=True)
    assert [len((run / "metrics.csv").read_text().splitlines()) for run in runs.values()] == [3, 3]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"margins": ["0.1"], "margin": 0.2, "model.composition": "B"},
            "--margins are for a loss with a margin, and",
        ),
        (
            {"margins": ["0.1"], "loss": "cross-entropy", "model.composition": "B"},
            "--margins are for a loss with a",
        ),
        ({"margins": ["0.1", "-1"]}, "--margins is -1.0: it must be at least 0"),
        ({"margins": ["0.1", "wide"]}, "--margins"),
        ({"model.composition": "F"}, "composition F uses attributes; give --attrs"),
        ({"model.composition": "D", "attrs": True}, "composition D uses no attributes; leave --attrs out"),
    ],
)
def test_attributes_that_contradict_the_composition_are_refused(
    options, told, vector_runs, project, tmp_path, capsys
):
    options = {"run": tmp_path / "run", **options}
    arguments = project.arguments("train-composer", data=vector_runs.catalog, category="dresses", **options)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1 and not (tmp_path / "run").exists()


def test_a_composer_whose_catalog_has_a_pipe_for_a_file_leaves_nothing(
    project, vector_runs, tmp_path, capsys
):
    catalog = copytree(vector_runs.catalog, tmp_path / "catalog")
    (catalog / "image_splits" / "split.dress.test.json").unlink()
    os.mkfifo(catalog / "image_splits" / "split.dress.test.json")
    common = {"data": catalog, "category": "dresses", "features": vector_runs.store, "model.composition": "B"}
    assert main(project.arguments("train-composer", **common, run=tmp_path / "run")) == 2
    assert "split.dress.test.json" in capsys.readouterr().err and not list(tmp_path.glob("run/*"))


@pytest.mark.parametrize("model", ["transformer", "rnn"])
def test_the_retrievers_of_dialogs_learn_from_recorded_captions_too(
    model, project, vector_runs, evaluate, by_vectors, tmp_path, capsys
):
    options = {**project.retriever, "epochs": 1, "model.kind": model, "users": "recorded"}
    options["captioner"] = vector_runs.captioner
    project.run(
        "train-retriever",
        data=vector_runs.catalog,
        category="dresses",
        features=vector_runs.store,
        run=tmp_path / "run",
        **options,
    )
    assert f"note: {vector_runs.captioner} is not used" in capsys.readouterr().out
    out = evaluate(run=by_vectors(tmp_path / "run"), features=vector_runs.store)
    row = read(out / "metrics.json")["rows"][0]
    assert row["model"] == model and row["R@10"] == pytest.approx(
        read(tmp_path / "run/model.json")["metrics"]["val_R@10_1"], abs=1e-4
    )


def test_an_evaluation_names_its_conventions_and_coverage(composer, evaluate, vector_runs, capsys):
    out = evaluate(run=composer, features=vector_runs.store)
    assert sorted(path.name for path in out.iterdir()) == [
        "metrics.json",
        "qrels.dresses.trec",
        "ranks.dresses.jsonl",
        "run.dresses.trec",
        "table.csv",
        "table.tex",
        "topics.dresses.tsv",
    ]
    metrics = read(out / "metrics.json")
    assert (metrics["split"], metrics["gallery"], metrics["captions"]) == ("val", "original", "each")
    wanted = {"category": "dresses", "model": "composer B", "attributes": False, "pairs": 12, "coverage_of_pairs": 1.0, "queries": 24,
              "gallery": 12, "coverage": 1.0, "captions_origin": "drawn sample's grammar", "features": "vectors of vectors.npy"}  # fmt: skip
    assert {key: metrics["rows"][0][key] for key in wanted} == wanted
    told = capsys.readouterr().out
    assert (
        "gallery original" in told
        and "the candidate stays in the gallery" in told
        and "each caption of a pair is a query" in told
    )
    assert "100.0 % of the pairs" in told and str(out) in told


@pytest.mark.parametrize("options", CONVENTIONS, ids=str)
def test_our_own_run_file_as_predictions_is_measured_alike(options, composer, evaluate, vector_runs):
    ours = evaluate("ours", run=composer, features=vector_runs.store, **options)
    theirs = evaluate("theirs", predictions=ours / "run.dresses.trec", **options)
    assert measured(theirs) == pytest.approx(measured(ours))
    assert [row["rank"] for row in ranks_of(theirs)] == [row["rank"] for row in ranks_of(ours)]


def test_a_dialog_retriever_has_the_figures_of_its_dialogs_with_people(
    project, vector_runs, evaluate, tmp_path
):
    common = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "run": vector_runs.retriever,
    }
    project.run("eval-dialogs", **common, user="human", split="val", out=tmp_path / "dialogs")
    turn = read(tmp_path / "dialogs/metrics.json")["turns"][0]
    found = measured(evaluate(run=vector_runs.retriever, features=vector_runs.store))
    assert {name: found[name] for name in ("R@1", "R@10", "P", "MRR")} == pytest.approx(
        {name: turn[name] for name in ("R@1", "R@10", "P", "MRR")}
    )


def write_vectors(path, queries, ids, size=5):
    draw = np.random.default_rng(0)
    given = {"queries": np.array(queries), "query_vectors": draw.normal(size=(len(queries), size)), "ids": np.array(ids),
             "vectors": draw.normal(size=(len(ids), size))}  # fmt: skip
    np.savez(path, **given)
    return given


@pytest.mark.parametrize("exclude", [False, True])
def test_vectors_of_someone_else_are_ranked_as_by_hand(exclude, evaluate, write_queries, tmp_path):
    write_queries(tmp_path / "asked")
    listed = read(tmp_path / "asked/queries.dresses.json")
    given = write_vectors(
        tmp_path / "v.npz", [*listed["queries"], "another"], [*listed["gallery"], "another"]
    )
    out = evaluate(predictions=tmp_path / "v.npz", **({"exclude_candidate": True} if exclude else {}))
    for row, vector in zip(ranks_of(out), given["query_vectors"], strict=False):
        distance = {
            name: np.linalg.norm(vector - other)
            for name, other in zip(listed["gallery"], given["vectors"], strict=False)
        }
        if exclude:
            del distance[row["candidate"]]
        assert row["rank"] == sorted(distance, key=distance.get).index(row["target"])
    ranks = ranks_of(out)
    distance_QN = np.linalg.norm(given["query_vectors"][:, None] - given["vectors"], axis=-1)
    np.savez(tmp_path / "s.npz", queries=given["queries"], ids=given["ids"], scores=-distance_QN)
    out = evaluate(predictions=tmp_path / "s.npz", **({"exclude_candidate": True} if exclude else {}))
    assert ranks_of(out) == ranks


def test_tools_for_trec_files_compute_the_same_measures(composer, evaluate, vector_runs, by_trec):
    out = evaluate(run=composer, features=vector_runs.store, captions="joined", exclude_candidate=True)
    found, measures = measured(out), ("R@1", "R@10", "MRR")
    assert by_trec(out, measures, ".dresses") == {"1": pytest.approx({one: found[one] for one in measures})}


def test_nothing_is_left_of_what_was_evaluated_into_the_folder_before(
    composer, evaluate, vector_runs, tmp_path
):
    out = evaluate("both", run=composer, features=vector_runs.store)
    lines = (out / "run.dresses.trec").read_text().splitlines()
    rankings = {}
    for query, _, name, *_ in map(str.split, lines):
        rankings.setdefault(query, []).append(name)
    (tmp_path / "theirs.json").write_text(json.dumps(rankings))
    assert evaluate("both", predictions=tmp_path / "theirs.json") == out and not list(out.glob("*.trec"))


def test_vectors_too_large_to_compare_are_told(vector_runs, refused, tmp_path):
    ids = read(vector_runs.store / "ids.json")
    queries = [
        f"{pair['target']}-{pair['candidate']}-{n}"
        for pair in read(vector_runs.catalog / "captions/cap.dress.val.json")
        for n in (1, 2)
    ]
    for largest, told in ((1e25, "too large to compare"), (1e300, "expected finite float32 numbers")):
        arrays = {
            "queries": queries,
            "ids": ids,
            "vectors": np.full((len(ids), 2), largest),
            "query_vectors": np.full((len(queries), 2), largest),
        }
        np.savez(tmp_path / "large.npz", **arrays)
        assert told in refused(predictions=tmp_path / "large.npz")


def test_queries_remove_what_a_killed_command_left(write_queries, tmp_path):
    (tmp_path / ".queries.dresses-34p49w50.json").write_text("{")
    write_queries(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["queries.dresses.json"]


def test_vectors_for_some_products_cover_their_pairs_only(evaluate, write_queries, sample, tmp_path):
    write_queries(tmp_path)
    listed = read(tmp_path / "queries.dresses.json")
    lacking = read(sample / "captions/cap.dress.val.json")[0]["target"]
    write_vectors(
        tmp_path / "v.npz", list(listed["queries"]), [name for name in listed["gallery"] if name != lacking]
    )
    row = read(evaluate(predictions=tmp_path / "v.npz") / "metrics.json")["rows"][0]
    assert row["gallery"] == 11 and row["pairs"] < 12 and row["coverage_of_pairs"] == row["pairs"] / 12


def test_several_categories_give_a_table_with_their_mean(evaluate, write_queries, tmp_path, capsys):
    categories = ["dresses", "shirts", "tops"]
    write_queries(tmp_path, category=categories)
    for category, place in zip(categories, (0, 0, 1), strict=True):
        listed = read(tmp_path / f"queries.{category}.json")
        rankings = {}
        for name, query in listed["queries"].items():
            rankings[name] = [other for other in listed["gallery"] if other != query["target"]]
            rankings[name].insert(place, query["target"])
        (tmp_path / f"{category}.json").write_text(json.dumps(rankings))
    out = evaluate(
        category=categories, predictions=[tmp_path / f"{category}.json" for category in categories]
    )
    assert read(out / "metrics.json")["mean"]["R@1"] == pytest.approx(200 / 3)
    with open(out / "table.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["category"] for row in rows] == [*categories, "mean"] and [
        row["R@1"] for row in rows[:3]
    ] == ["100.0", "100.0", "0.0"]
    assert "mean &  &  &  & 66.67 & 100.00" in (out / "table.tex").read_text()
    assert "66.67" in capsys.readouterr().out and not (out / "run.tops.trec").exists()


@pytest.fixture
def few_pairs(sample, tmp_path):
    """The catalog with two captioned pairs of val, and test pairs without targets."""
    catalog = copytree(
        sample, tmp_path / "catalog", ignore=lambda folder, names: {"images", "features"} & set(names)
    )
    for split, count in (("val", 2), ("test", 9)):
        path = catalog / f"captions/cap.dress.{split}.json"
        rows = read(path)[:count]
        path.write_text(
            json.dumps([{key: row[key] for key in row if key != "target" or split == "val"} for row in rows])
        )
    return catalog


def test_the_gallery_of_the_val_split_holds_the_products_in_pairs_only(few_pairs, write_queries, tmp_path):
    for name in ("original", "val-split"):
        write_queries(tmp_path / name, data=few_pairs, gallery=name)
    original, pairs = (read(tmp_path / name / "queries.dresses.json") for name in ("original", "val-split"))
    in_pairs = {
        row[side]
        for row in read(few_pairs / "captions/cap.dress.val.json")
        for side in ("target", "candidate")
    }
    assert set(pairs["gallery"]) == in_pairs and len(original["gallery"]) == 12 > len(in_pairs)
    assert list(pairs["queries"]) == list(original["queries"])


def test_short_rankings_tell_what_they_can(few_pairs, evaluate, write_queries, tmp_path, capsys):
    write_queries(tmp_path, data=few_pairs)
    listed = read(tmp_path / "queries.dresses.json")
    names = list(listed["queries"])
    rankings = {name: [listed["queries"][name]["target"]] for name in names[1:]} | {
        names[0]: [listed["queries"][names[0]]["candidate"]]
    }
    (tmp_path / "short.json").write_text(json.dumps(rankings))
    found = measured(evaluate(data=few_pairs, predictions=tmp_path / "short.json"))
    assert found["R@1"] == 75 and found["R@10"] is found["P"] is found["MRR"] is None
    assert "the rankings are too short" in capsys.readouterr().out


def test_pairs_without_targets_are_refused(few_pairs, refused):
    assert "have no targets, like the released test captions" in refused(
        "eval-single-turn", data=few_pairs, split="test", queries="queries"
    )


def test_unanswered_queries_are_told(refused, tmp_path):
    (tmp_path / "some.json").write_text('{"another": ["D00001"]}')
    assert "answers 0 of 24 queries" in refused(predictions=tmp_path / "some.json")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "give --run RUN"),
        ({"predictions": []}, "or --predictions FILE"),
        ({"category": ["dresses", "tops"], "run": "a"}, "--run has 1 values for 2 categories"),
        ({"category": ["dresses", "dress"], "run": ["a", "b"]}, "names one category twice"),
        ({"category": [], "run": "a"}, "no category given"),
    ],
    ids=str,
)
def test_it_must_be_said_who_answers_for_which_category(options, told, refused):
    assert told in refused(**options)


def test_a_run_of_another_store_is_refused(composer, runs, refused):
    assert "was trained with a different" in refused(run=composer, features=runs.store)


def test_several_categories_need_a_folder_for_their_results(vector_runs, project, capsys):
    categories, files = ["dresses", "tops"], ["a.json", "b.json"]
    assert (
        main(
            project.arguments(
                "eval-single-turn", data=vector_runs.catalog, category=categories, predictions=files
            )
        )
        == 2
    )
    assert "several categories need an output folder; give --out" in capsys.readouterr().err
