"""Products that are shown once: in training, and by default in its evaluation."""

import json

from fashioniq.cli import main


def options(vector_runs):
    return {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store}


def test_a_retriever_trained_so_is_evaluated_so_unless_told_otherwise(project, vector_runs, tmp_path, capsys):
    run, note = tmp_path / "run", "was trained with --exclude-shown"
    training = {**project.retriever, **options(vector_runs), "captioner": vector_runs.captioner, "run": run}
    project.run("train-retriever", **training, exclude_shown=True)
    assert json.loads((run / "model.json").read_text())["exclude_shown"] is True
    capsys.readouterr()
    dialogs = {**options(vector_runs), "run": run, "user": vector_runs.captioner, "beam": 1, "turns": 2}
    for name, given, expected in (
        ("default", {}, True),
        ("once", {"exclude_shown": True}, True),
        ("again", {"no_exclude_shown": True}, False),
    ):
        project.run("eval-dialogs", **dialogs, **given, out=tmp_path / name)
        assert (note in capsys.readouterr().out) != expected
        assert json.loads((tmp_path / name / "metrics.json").read_text())["exclude_shown"] is expected
    kept = [(tmp_path / name / "dialogs.jsonl").read_text() for name in ("default", "once")]
    assert kept[0] == kept[1]


def test_more_turns_than_products_are_refused_before_anything_is_written(
    project, vector_runs, tmp_path, capsys
):
    training = {
        **project.retriever,
        **options(vector_runs),
        "captioner": vector_runs.captioner,
        "run": tmp_path / "run",
    }
    assert main(project.arguments("train-retriever", **training | {"turns": 500, "exclude_shown": True})) == 2
    assert (
        "--exclude-shown needs a product for each of the --turns 500, found" in capsys.readouterr().err
        and not (tmp_path / "run").exists()
    )
