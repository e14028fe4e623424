"""Every user with every retriever: `fashioniq cross`."""

import csv
import json
from collections import Counter
from pathlib import Path
from shutil import copytree

import pytest

from fashioniq.cli import main
from fashioniq.data import trec
from fashioniq.evaluation import cross
from fashioniq.files import UserError


def read(path):
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def recurrent(project, vector_runs, tmp_path_factory):
    """The recurrent captioner, and the recurrent retrievers of two seeds that it spoke to, on the same
    vectors.
    """
    folder = tmp_path_factory.mktemp("recurrent")
    common = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
    }
    recurrent = {"model.kind": "rnn", "epochs": 1}
    project.run("train-captioner", **common, run=folder / "captioner", **{**project.captioner, **recurrent})
    for seed in (0, 1):
        options = {**project.retriever, **recurrent, "captioner": folder / "captioner", "seed": seed}
        project.run("train-retriever", **common, **options, run=folder / f"retriever-seed{seed}")
    return folder


@pytest.fixture(scope="module")
def given(vector_runs, recurrent):
    """The options of a small cross, but for where it writes: the transformer of the shared runs and two seeds of
    the recurrent retriever, with their own users.
    """
    seeds = f"{recurrent / 'retriever-seed0'},{recurrent / 'retriever-seed1'}"
    common = {
        "data": vector_runs.catalog,
        "category": "dresses",
        "features": vector_runs.store,
        "turns": 2,
        "samples": 2,
    }
    return {**common, "retrievers": [vector_runs.retriever, seeds]}


@pytest.fixture
def options(given, tmp_path):
    return {**given, "out": tmp_path / "cross"}


@pytest.fixture(scope="module")
def complete(project, given, tmp_path_factory):
    """A complete cross. Not to be written to."""
    out = tmp_path_factory.mktemp("complete") / "cross"
    project.run("cross", **given, out=out)
    return out


@pytest.fixture
def counted(options, monkeypatch):
    """How often each folder is evaluated."""
    count, real = Counter(), cross.evaluate

    def evaluate(tasks, out, batch_size):
        count[str(out.relative_to(options["out"]))] += 1
        return real(tasks, out, batch_size)

    monkeypatch.setattr(cross, "evaluate", evaluate)
    return count


FOLDERS = [
    "transformer-user-transformer-retriever",
    *(f"transformer-user-rnn-retriever/seed-{seed}" for seed in (0, 1)),
    "rnn-user-transformer-retriever",
    *(f"rnn-user-rnn-retriever/seed-{seed}" for seed in (0, 1)),
]


def test_every_user_meets_every_retriever_and_the_first_products_are_the_same(project, options, capsys):
    project.run("cross", **options)
    told, out = capsys.readouterr().out, options["out"]
    assert (out / "table.txt").read_text() in told
    tables = {f"table.{kind}" for kind in ("txt", "csv", "tex", "json")}
    assert {path.name for path in out.iterdir()} == tables | {name.split("/")[0] for name in FOLDERS}
    files = {
        "metrics.json",
        "dialogs.jsonl",
        "first_candidates.json",
        *trec.FILES,
        "report.html",
        "combination.json",
    }
    assert all({path.name for path in (out / name).iterdir()} == files for name in FOLDERS)
    assert len({(out / name / "first_candidates.json").read_bytes() for name in FOLDERS}) == 1
    table = read(out / "table.json")
    assert [(row["user"], row["retriever"], row["seeds"]) for row in table["rows"]] == [
        ("transformer", "transformer", 1), ("transformer", "rnn", 2), ("rnn", "transformer", 1), ("rnn", "rnn", 2)]  # fmt: skip
    assert (table["split"], table["gallery"], table["decoding"], table["errors"]) == (
        "test",
        12,
        "most informative of 2 samples that are true by the labels",
        0.0,
    )
    with open(out / "table.csv", newline="") as file:
        lines = {
            (line["user"], line["retriever"], line["turn"]): line
            for line in csv.DictReader(file)
            if line["measure"] == "P"
        }
    for user, retriever, folders in (
        ("transformer", "transformer", FOLDERS[:1]),
        ("rnn", "rnn", FOLDERS[-2:]),
    ):
        means = [read(out / name / "metrics.json")["turns"][1]["P"] for name in folders]
        assert float(lines[user, retriever, "turn 2"]["mean"]) == pytest.approx(sum(means) / len(means))


def test_a_combination_is_what_eval_dialogs_gives(project, options, vector_runs, recurrent, tmp_path):
    project.run(
        "cross",
        **{**options, "retrievers": [vector_runs.retriever], "users": [recurrent / "captioner"]},
        word_noise=0.4,
    )
    alone = {name: value for name, value in options.items() if name != "retrievers"} | {
        "out": tmp_path / "alone"
    }
    project.run(
        "eval-dialogs", **alone, run=vector_runs.retriever, user=recurrent / "captioner", word_noise=0.4
    )
    for name in ("dialogs.jsonl", "metrics.json", "run.trec"):
        assert project.content(options["out"] / FOLDERS[3] / name) == project.content(
            tmp_path / "alone" / name
        )


def test_combinations_can_be_compared(complete, capsys):
    seeds = ",".join(str(complete / name) for name in FOLDERS[-2:])
    assert main(["compare", str(complete / FOLDERS[3]), seeds, "--samples", "100"]) == 0
    told = capsys.readouterr().out
    assert "(2 seeds)" in told and "begin with other products" not in told


def test_a_cross_that_was_killed_computes_only_what_is_missing(project, options, counted, monkeypatch):
    real = cross.evaluate

    def evaluate(tasks, out, batch_size):
        if len(counted) == 3:
            raise RuntimeError("killed")
        return real(tasks, out, batch_size)

    with monkeypatch.context() as patch:
        patch.setattr(cross, "evaluate", evaluate)
        with pytest.raises(RuntimeError, match="killed"):
            main(project.arguments("cross", **options))
    assert list(counted) == FOLDERS[:3] and not (options["out"] / "table.txt").exists()
    project.run("cross", **options)
    assert counted == Counter(FOLDERS)
    table = (options["out"] / "table.json").read_bytes()
    project.run("cross", **options)
    assert counted == Counter(FOLDERS) and (options["out"] / "table.json").read_bytes() == table


def test_other_settings_or_another_model_are_computed_again(project, complete, options, counted, recurrent):
    copytree(complete, options["out"])
    weights = recurrent / "retriever-seed1" / "weights.safetensors"
    before, other = weights.read_bytes(), (recurrent / "retriever-seed0" / "weights.safetensors").read_bytes()
    weights.write_bytes(other)
    project.run("cross", **options)
    weights.write_bytes(before)
    assert counted == Counter(name for name in FOLDERS if name.endswith("rnn-retriever/seed-1"))
    counted.clear()
    project.run("cross", **options, word_noise=0.2)
    assert counted == Counter(FOLDERS)


# what is refused


@pytest.fixture
def refused(project, options, capsys):
    def refused(**changed):
        capsys.readouterr()
        assert main(project.arguments("cross", **{**options, **changed})) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ") and not options["out"].exists()
        return line

    return refused


def test_mistakes_in_the_lists_are_told_before_anything_is_computed(refused, options, runs, recurrent):
    retrievers = options["retrievers"]
    assert "listed twice" in refused(retrievers=[retrievers[0], retrievers[0]])
    assert "expected a retriever" in refused(retrievers=[recurrent / "captioner"])
    assert "seeds of one retriever" in refused(retrievers=[f"{retrievers[0]},{retrievers[1]}"])
    assert "a different encoder" in refused(retrievers=[*retrievers, runs.retriever])
    assert "no such folder" in refused(users=["nowhere"])
    assert "--retrievers" in refused(retrievers=[])


def test_seeds_meet_one_by_one_or_all_meet_the_only_run():
    one, two, three = (
        cross.ComparedModel([Path(f"{count}-{seed}") for seed in range(count)], [], False, "rnn")
        for count in (1, 2, 3)
    )
    assert cross._by_seed(two, two) == list(zip(two.runs, two.runs, strict=True))
    assert cross._by_seed(one, three) == [(one.runs[0], run) for run in three.runs]
    assert cross._by_seed(three, one) == [(run, one.runs[0]) for run in three.runs] and cross._by_seed(
        one, one
    ) == [(*one.runs, *one.runs)]
    with pytest.raises(UserError, match="2 seeds of 2-0 cannot be combined with 3 seeds of 3-0"):
        cross._by_seed(two, three)


def test_attributes_meet_only_attributes_unless_there_are_none(project, options, runs, tmp_path):
    project.run(
        "train-captioner",
        data=runs.catalog,
        category="dresses",
        run=tmp_path / "blind",
        **{**project.captioner, "epochs": 1},
    )
    own = {**options, "features": runs.store, "retrievers": [runs.retriever]}

    def met(*users):
        project.run("cross", **own, users=list(users))
        return [
            (row["attributes"], row["user"], row["runs"]) for row in read(own["out"] / "table.json")["rows"]
        ]

    folder = own["out"] / "transformer-user-transformer-retriever"
    seeing, alone = (
        ("with", "transformer", [f"{folder}-attrs"]),
        ("retriever's", "transformer", [f"{folder}-attrs-of-retriever"]),
    )
    assert met(runs.captioner) == [seeing]
    assert met(tmp_path / "blind") == [alone]
    assert sorted(met(runs.captioner, tmp_path / "blind")) == sorted([seeing, alone])
