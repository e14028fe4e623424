"""Users that the retriever was not trained with, and the floors beside them, by the commands."""

import json

import pytest

from fashioniq.cli import main


def session(*items):
    return {
        "target": ["u", items[-1]],
        "reference": [["u", ["is red", "has long sleeves"], item] for item in items[:-1]],
    }


@pytest.fixture
def common(vector_runs):
    return {"data": vector_runs.catalog, "category": "dresses", "features": vector_runs.store, "split": "val"}


@pytest.fixture
def sessions(vector_runs, tmp_path):
    """Three sessions of val; the second ends as a train session, and one is outside the gallery."""
    ids = json.loads((vector_runs.catalog / "image_splits/split.dress.val.json").read_text())
    folder = tmp_path / "sessions"
    folder.mkdir()
    val = [session(*ids[:3]), session(*ids[3:6]), session(*ids[2:6]), session("elsewhere", *ids[:2])]
    val[2]["reference"][-1][2] = ids[8]
    (folder / "dress.val.json").write_text(json.dumps(val))
    (folder / "dress.train.json").write_text(json.dumps([session("elsewhere", *ids[4:6])]))
    (folder / "split.dress.val.json").write_text(json.dumps(ids[:9]))
    return folder


@pytest.mark.parametrize("user", ["differences", "grammar"])
def test_users_that_describe_any_pair_speak_in_every_turn(project, vector_runs, common, tmp_path, user):
    for name, noise in (("plain", 0.0), ("again", 0.0), ("noisy", 0.5)):
        project.run(
            "eval-dialogs",
            **common,
            run=vector_runs.retriever,
            user=user,
            out=tmp_path / name,
            word_noise=noise,
        )
    plain, again, noisy = (
        (tmp_path / name / "dialogs.jsonl").read_text() for name in ("plain", "again", "noisy")
    )
    assert plain == again != noisy
    metrics = json.loads((tmp_path / "plain" / "metrics.json").read_text())
    assert (metrics["user"], metrics["decoding"], metrics["errors"]) == (user, "none", 0.0)
    turns = json.loads(plain.splitlines()[0])["turns"]
    assert len(turns) == 5 and all(turn["words"] for turn in turns)


def test_sessions_are_evaluated_by_their_number_of_turns(project, vector_runs, common, sessions, tmp_path):
    given = {**common, "user": "sessions", "sessions": sessions}
    project.run("eval-dialogs", **given, run=vector_runs.retriever, out=tmp_path / "out")
    rows = json.loads((tmp_path / "out" / "sessions.json").read_text())["rows"]
    assert [(row["turns"], row["after"], row["sessions"]) for row in rows] == [
        (2, "last turn", 2),
        (3, "last turn", 1),
        ("all", "last turn", 3),
        ("all", "turn before the last", 3),
        ("clean", "last turn", 2),
    ]
    first = json.loads((tmp_path / "out" / "2-turns" / "dialogs.jsonl").read_text().splitlines()[0])
    recorded = json.loads((sessions / "dress.val.json").read_text())[0]
    assert [turn["shown"] for turn in first["turns"]] == [step[2] for step in recorded["reference"]]
    assert (
        first["target"] == recorded["target"][1] and (tmp_path / "out" / "2-turns" / "report.html").exists()
    )
    project.run(
        "eval-dialogs", **given, run=vector_runs.retriever, out=tmp_path / "own", session_gallery="sessions"
    )
    assert json.loads((tmp_path / "own" / "sessions.json").read_text())["gallery"] == 9


def test_the_floors_are_evaluated_as_any_retriever(project, common, sessions, tmp_path):
    training = {name: value for name, value in common.items() if name != "split"}
    project.run("train-linear", **training, run=tmp_path / "linear")
    for run in (tmp_path / "linear", "last-shown"):
        for user in ({"user": "human"}, {"user": "sessions", "sessions": sessions}):
            project.run("eval-dialogs", **common, run=run, out=tmp_path / "out", **user)
    project.run("eval-single-turn", **common, run=tmp_path / "linear", out=tmp_path / "single")
    model = json.loads((tmp_path / "linear" / "model.json").read_text())
    assert (model["kind"], model["model"], model["user"]) == ("retriever", "linear", None)


def test_what_a_catalog_or_a_command_lacks_is_named(vector_runs, common, sessions, project, tmp_path, capsys):
    def error(**options):
        assert (
            main(project.arguments("eval-dialogs", **{**common, "run": vector_runs.retriever, **options}))
            == 2
        )
        return capsys.readouterr().err

    assert "--sessions FOLDER" in error(user="sessions")
    assert "--user sessions" in error(sessions=sessions)
    assert "--first-candidates" in error(user="sessions", sessions=sessions, first_candidates="x.json")
    assert "found no such file" in error(
        user="sessions", sessions=sessions, split="test", session_gallery="sessions"
    )
    assert "there is no folder" in error(user="sessions", sessions=tmp_path / "nowhere")
