"""`fashioniq compare`, and what an evaluation leaves for other tools."""

import csv
import json
from shutil import copytree

import numpy as np
import pytest

from fashioniq.cli import main

COMMON = {"category": "dresses", "beam": 1}


def read(path):
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def others(project, vector_runs, tmp_path_factory):
    """The evaluation of the shared runs without repeated products, and another that begins with other ones."""
    folder = tmp_path_factory.mktemp("others")
    common = {
        **COMMON,
        "data": vector_runs.catalog,
        "features": vector_runs.store,
        "run": vector_runs.retriever,
        "user": vector_runs.captioner,
    }
    project.run("eval-dialogs", **common, exclude_shown=True, out=folder / "new" / "dialogs")
    project.run("eval-dialogs", **common, seed=1, out=folder / "seed-1" / "dialogs")
    return folder


@pytest.fixture
def compare(capsys, vector_runs):
    """Compare folders with the shared evaluation; return the exit code and what is printed."""

    def compare(*words):
        capsys.readouterr()
        code = main(["compare", str(vector_runs.dialogs), *map(str, words)])
        told = capsys.readouterr()
        return code, told.err if code else told.out

    return compare


@pytest.fixture
def changed(vector_runs, tmp_path):
    """A copy of the shared evaluation with some of its metrics changed, or its dialogs passed through a
    function.
    """

    def changed(edit=lambda dialogs: dialogs, **metrics):
        folder = tmp_path / "changed"
        copytree(vector_runs.dialogs, folder)
        dialogs = edit([json.loads(line) for line in (folder / "dialogs.jsonl").read_text().splitlines()])
        (folder / "dialogs.jsonl").write_text("".join(json.dumps(dialog) + "\n" for dialog in dialogs))
        (folder / "metrics.json").write_text(
            json.dumps({**read(folder / "metrics.json"), "dialogs": len(dialogs), **metrics})
        )
        return folder

    return changed


def test_tools_for_trec_files_compute_the_measures_of_every_turn(vector_runs, by_trec):
    measures, folder = ("R@1", "R@5", "R@10", "MRR"), vector_runs.dialogs
    turns = read(folder / "metrics.json")["turns"]
    assert by_trec(folder, measures) == {
        str(turn["turn"]): pytest.approx({name: turn[name] for name in measures}) for turn in turns
    }
    topics = dict(line.split("\t") for line in (folder / "topics.tsv").read_text().splitlines())
    dialog = json.loads((folder / "dialogs.jsonl").read_text().splitlines()[0])
    said = [f"[{turn['shown']}] {turn['words']}" for turn in dialog["turns"][:2]]
    assert topics[f"{dialog['target']}-2"] == " ".join(said) and len(topics) == 60


def test_metrics_have_averages_and_success(vector_runs):
    metrics = read(vector_runs.dialogs / "metrics.json")
    assert metrics["average"]["MRR"] == pytest.approx(np.mean([turn["MRR"] for turn in metrics["turns"]]))
    assert metrics["success"]["within"] == 5 and metrics["success"]["percent"] == pytest.approx(
        metrics["turns"][-1]["Hits@1"]
    )


def test_a_comparison_prints_and_writes_one_table(compare, vector_runs, others, tmp_path):
    code, told = compare(others / "new/dialogs", "--measure", "P", "--out", tmp_path / "out")
    assert code == 0 and "P after turn 5: dresses, test split, 12 dialogs, gallery 12" in told
    assert told.count("note:") == 1 and "the rule on products shown before (--exclude-shown)" in told
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "comparison.json",
        "comparison.csv",
        "comparison.tex",
        "compare.html",
        "turns.txt",
        "turns.csv",
        "turns.tex",
    }
    comparison = read(tmp_path / "out/comparison.json")
    first, second = comparison["models"]
    ours, theirs = (
        read(folder / "metrics.json")["turns"][-1]["P"]
        for folder in (vector_runs.dialogs, others / "new/dialogs")
    )
    assert (first["mean"], second["mean"], second["difference"]) == pytest.approx(
        (ours, theirs, theirs - ours)
    )
    assert (
        second["interval"][0] <= second["difference"] <= second["interval"][1]
        and second["p"] == second["p_corrected"]
    )
    with open(tmp_path / "out/comparison.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert (
        float(rows[1]["p"]) == second["p"]
        and rows[0]["difference"] == ""
        and float(rows[1]["low"]) == second["interval"][0]
    )
    assert r"95 \% interval" in (tmp_path / "out/comparison.tex").read_text()
    page = (tmp_path / "out/compare.html").read_text()
    assert "data:image/jpeg" in page and f"{second['difference']:+.2f}" in page


def test_only_dialogs_of_a_catalog_are_compared(changed, capsys):
    folder = changed(protocol="ChatSearch")
    assert main(["compare", str(folder), str(folder / "..")]) == 2
    assert (
        "expected Fashion IQ dialogs, recorded sessions, ChatIR, found ChatSearch" in capsys.readouterr().err
    )


def test_the_same_comparison_twice_is_the_same(compare, others, tmp_path):
    for name in ("one", "two"):
        compare(others / "new/dialogs", "--out", tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_seeds_of_a_model_are_averaged_dialog_by_dialog(compare, vector_runs, others, tmp_path):
    seeds = f"{others / 'new/dialogs'},{others / 'seed-1/dialogs'}"
    code, told = compare(seeds, "--measure", "MRR", "--turn", "2", "--out", tmp_path)
    assert code == 0 and "(2 seeds)" in told and "begin with other products" in told
    model = read(tmp_path / "comparison.json")["models"][1]
    means = [read(others / name / "dialogs/metrics.json")["turns"][1]["MRR"] for name in ("new", "seed-1")]
    assert model["means"] == pytest.approx(means)
    assert model["mean"] == pytest.approx(np.mean(means)) and model["deviation"] == pytest.approx(
        np.std(means, ddof=1)
    )


def test_measures_after_every_turn_are_those_of_the_evaluations(compare, vector_runs, others, tmp_path):
    seeds = f"{others / 'new/dialogs'},{others / 'seed-1/dialogs'}"
    assert compare(seeds, "--measure", "MRR", "--out", tmp_path)[0] == 0
    with open(tmp_path / "turns.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    (model,) = {line["model"] for line in lines if line["seeds"] == "2"}
    evaluated = [read(others / name / "dialogs/metrics.json") for name in ("new", "seed-1")]
    alone = read(vector_runs.dialogs / "metrics.json")
    for line in lines:
        of = evaluated if line["model"] == model else [alone]
        turn, name = line["turn"], line["measure"]
        values = [
            one["average"][name] if turn == "mean" else one["turns"][int(turn.split()[1]) - 1][name]
            for one in of
        ]
        assert float(line["mean"]) == pytest.approx(np.mean(values))
        if len(values) > 1:
            assert float(line["deviation"]) == pytest.approx(np.std(values, ddof=1))
    assert len(lines) == 2 * 6 * 4 and {line["measure"] for line in lines} == {"P", "R@10", "R@50", "MRR"}
    assert (tmp_path / "turns.txt").read_text().count(model) == 4


def test_several_models_are_corrected_and_have_a_page_each(compare, others, tmp_path):
    code, _ = compare(
        others / "new/dialogs",
        others / "seed-1/dialogs",
        "--measure",
        "P",
        "--out",
        tmp_path,
    )
    comparison = read(tmp_path / "comparison.json")
    p = [row["p"] for row in comparison["models"][1:]]
    assert code == 0 and [row["p_corrected"] for row in comparison["models"][1:]] == pytest.approx(
        [min(1, 2 * one) if one == min(p) else max(min(1, 2 * min(p)), one) for one in p])  # fmt: skip
    assert (tmp_path / "compare.html").exists() and (tmp_path / "compare-2.html").exists()


def test_the_evaluations_can_stand_in_a_config(vector_runs, others, tmp_path, capsys):
    (tmp_path / "compare.yaml").write_text(
        f"runs: [{vector_runs.dialogs}, {others / 'new/dialogs'}]\nmeasure: P\n"
    )
    assert main(["compare", "--config", str(tmp_path / "compare.yaml")]) == 0
    assert "P after turn 5" in capsys.readouterr().out


def test_other_first_products_or_another_user_are_noted(compare, others, changed):
    _, told = compare(others / "seed-1/dialogs")
    assert "note:" in told and "with the same --seed" in told
    _, told = compare(changed(user="somebody"))
    assert "the user differs: " in told and "; somebody in " in told


def test_dialogs_in_another_order_are_the_same_dialogs(compare, changed):
    code, told = compare(changed(lambda dialogs: dialogs[::-1]))
    assert code == 0 and "+0.00" in told and "note:" not in told


@pytest.mark.parametrize(
    ("metrics", "why"),
    [
        ({"category": "tops"}, "category is tops, not dresses"),
        ({"split": "val"}, "split is val"),
        ({"gallery": 13}, "gallery size is 13"),
    ],
)
def test_evaluations_of_other_data_are_refused(metrics, why, compare, changed):
    code, told = compare(changed(**metrics))
    assert code == 2 and why in told and told.count("\n") == 1


def test_other_targets_are_refused(compare, changed):
    code, told = compare(changed(lambda dialogs: dialogs[1:]))
    assert code == 2 and "1 targets are in one of them only" in told


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "expected at least two folders of eval-dialogs"),
        (["ITSELF"], "listed twice; give each folder once"),
        (["nowhere"], "expected metrics.json of eval-dialogs in nowhere, found none"),
        (["NEW", "--measure", "R@ten"], "unknown measure 'R@ten'"),
        (["NEW", "--turn", "6"], "has 5 turns"),
        (["NEW", "--turn", "0"], "has 5 turns; give 1 to 5"),
        (["NEW,"], None),
    ],
)
def test_mistakes_are_told_in_one_line(words, why, compare, vector_runs, others):
    known = {
        "ITSELF": vector_runs.dialogs,
        "NEW": others / "new/dialogs",
        "NEW,": f"{others / 'new/dialogs'},",
    }
    code, told = compare(*[known.get(word, word) for word in words])
    assert code == (2 if why else 0)
    if why:
        assert why in told and told.count("\n") == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}\n",
        '{"target": "x"',
        '{"target": "x", "turns": []}\n' * 12,
        '{"target": "x", "turns": [{"rank": 1}]}\n' * 12,
    ],
)
def test_damaged_dialogs_are_told_in_one_line(text, compare, changed):
    folder = changed()
    (folder / "metrics.json").write_text(json.dumps({**read(folder / "metrics.json"), "dialogs": 12}))
    (folder / "dialogs.jsonl").write_text(text)
    code, told = compare(folder)
    assert code == 2 and "run eval-dialogs again" in told and told.count("\n") == 1


def test_turns_that_are_not_those_of_the_dialogs_are_told_in_one_line(
    compare, changed, vector_runs, tmp_path
):
    folder = changed(turns=read(vector_runs.dialogs / "metrics.json")["turns"][:2])
    code, told = compare(folder, "--out", tmp_path / "out")
    assert code == 2 and "run eval-dialogs again" in told and told.count("\n") == 1


def test_a_comparison_outlives_its_catalog(changed, others, tmp_path):
    code = main(
        [
            "compare",
            str(changed(data="gone")),
            str(others / "new/dialogs"),
            "--out",
            str(tmp_path / "out"),
        ]
    )
    page = (tmp_path / "out/compare.html").read_text()
    assert code == 0 and "there is no folder gone" in page
