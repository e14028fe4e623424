"""Predictions of another system for recorded sessions: fashioniq eval-single-turn --sessions."""

import json

import numpy as np
import pytest

from fashioniq.cli import main

GALLERY = ["a", "b", "c", "d", "e"]


def session(*items):
    *shown, target = items
    return {"target": ["url", target], "reference": [["url", ["is red"], item] for item in shown]}


VAL = [session("a", "b", "c"), session("a", "d", "b", "c"), session("b", "c", "d", "e")]


@pytest.fixture
def sessions(tmp_path):
    """Three sessions of val, two of which have their first item and target in common; the last one is not clean."""
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "dress.val.json").write_text(json.dumps(VAL))
    (folder / "dress.train.json").write_text(json.dumps([session("a", "d", "e")]))
    (folder / "split.dress.val.json").write_text(json.dumps(GALLERY))
    return folder


@pytest.fixture
def score(project, sessions, tmp_path):
    """Score predictions; returns the rows by number of turns."""

    def score(predictions):
        out = tmp_path / "out"
        project.run(
            "eval-single-turn", sessions=sessions, category="dresses", predictions=predictions, out=out
        )
        written = json.loads((out / "session_scores.json").read_text())
        return {row["turns"]: row for row in written["rows"]}, written["covered"][0]

    return score


def write_scores(path, names, ids, scores):
    np.savez(path, queries=np.array(names), ids=np.array(ids), scores=np.array(scores, dtype=np.float32))
    return path


def test_scores_are_those_by_hand(score, tmp_path):
    names = ["val_dress_a_c_1", "val_dress_b_e_2", "val_dress_a_c_0"]
    scores = [[1, 2, 3, 4, 5], [5, 4, 3, 2, 2], [0, 0, 9, 0, 0]]
    rows, covered = score(write_scores(tmp_path / "s.npz", names, GALLERY, scores))
    # targets c, c and e: first; third after d and e; and last, since d is as good and comes before
    assert [(turns, row["sessions"]) for turns, row in rows.items()] == [
        ("2", 1), ("3", 2), ("all", 3), ("clean", 2)]  # fmt: skip
    assert rows["2"]["R@1"] == 100 and rows["2"]["P"] == 100
    assert (
        rows["3"]["P"] == pytest.approx((60 + 20) / 2) and rows["3"]["R@1"] == 0 and rows["3"]["R@5"] == 100
    )
    assert rows["all"]["MRR"] == pytest.approx((1 + 1 / 3 + 1 / 5) / 3)
    assert rows["clean"]["MRR"] == pytest.approx((1 + 1 / 3) / 2)
    assert covered.startswith("dresses: 3 of 3 sessions and 5 of 5 products")


def test_a_number_decides_between_sessions_with_the_same_ends(score, tmp_path):
    for numbers, turns in (((1,), "3"), ((0,), "2"), ((7,), "2"), ((0, 1), "2")):
        names = [f"val_dress_a_c_{number}" for number in numbers]
        rows, _ = score(write_scores(tmp_path / "s.npz", names, GALLERY, np.eye(len(names), 5)))
        assert next(iter(rows)) == turns and rows["all"]["sessions"] == len(numbers)


def test_vectors_may_lack_the_items_shown(score, tmp_path):
    ids = GALLERY[1:]
    arrays = {"query_vectors": np.array([[0, 1, 0, 0]]), "ids": np.array(ids), "vectors": np.eye(4)}
    np.savez(tmp_path / "v.npz", queries=np.array(["val_dress_a_c_0"]), **arrays)
    rows, covered = score(tmp_path / "v.npz")
    assert rows["all"]["R@1"] == 100 and "4 of 5 products" in covered


def test_what_has_no_predictions_is_left_out_and_told(score, tmp_path):
    names = ["val_dress_a_c_0", "val_dress_b_e_2"]
    rows, covered = score(write_scores(tmp_path / "s.npz", names, GALLERY[:4], [[0, 0, 9, 0], [1, 2, 3, 4]]))
    assert rows["all"]["sessions"] == 1 and rows["all"]["R@1"] == 100
    assert covered.startswith("dresses: 1 of 3 sessions and 4 of 5 products")


def test_rankings_that_are_cut_off_tell_what_they_can(score, tmp_path, capsys):
    path = tmp_path / "cut.json"
    path.write_text(json.dumps({"val_dress_a_c_0": ["c"], "val_dress_b_e_2": ["a"]}))
    rows, _ = score(path)
    assert rows["all"]["R@1"] == 50 and rows["all"]["R@5"] is None and rows["2"]["MRR"] == 1
    assert "the rankings are too short for this measure" in capsys.readouterr().out


def test_the_sessions_of_a_release_are_found(project, shared, tmp_path):
    """Scores of a system that knows the targets of all released sessions of dresses."""
    folder = shared / "multiturn_fashioniq"
    gallery = json.loads((folder / "split.dress.val.json").read_text())
    targets = [
        (one["reference"][0][2], one["target"][1])
        for one in json.loads((folder / "dress.val.json").read_text())
    ]
    names = [f"val_dress_{first}_{target}_{number}" for number, (first, target) in enumerate(targets)]
    scores = np.array([[name == target for name in gallery] for _, target in targets], dtype=np.float32)
    path = write_scores(tmp_path / "all.npz", names, gallery, scores)
    project.run(
        "eval-single-turn", sessions=folder, category="dresses", predictions=path, out=tmp_path / "out"
    )
    rows = json.loads((tmp_path / "out" / "session_scores.json").read_text())["rows"]
    assert [(row["turns"], row["sessions"]) for row in rows[:4]] == [
        ("2", 645),
        ("3", 242),
        ("4", 113),
        ("all", 1000),
    ]
    assert all(row["R@1"] == 100 for row in rows)


def test_mistakes_are_told(project, sessions, tmp_path, capsys):
    def error(**options):
        path = options.pop("predictions", tmp_path / "s.npz")
        given = {"sessions": sessions, "category": "dresses", "predictions": path, **options}
        assert main(project.arguments("eval-single-turn", **given)) == 2
        return capsys.readouterr().err

    write_scores(tmp_path / "s.npz", ["0", "1"], GALLERY, np.zeros((2, 5)))
    assert "name them val_CATEGORY_FIRST_TARGET_NUMBER" in error()
    assert "--captions is for captioned pairs" in error(captions="joined")
    assert "there is no folder" in error(sessions=tmp_path / "nowhere")
    assert "there is no file of predictions" in error(predictions=tmp_path / "none.npz")
    assert "no sessions of test" in error(split="test")
    assert "--score is for --run" in error(score="vectors")
    write_scores(tmp_path / "s.npz", ["val_dress_a_c_0"], ["other"], np.zeros((1, 1)))
    assert "has no product of the gallery of dresses" in error()
    arrays = {
        "query_vectors": np.full((1, 2), 1e30),
        "ids": np.array(GALLERY),
        "vectors": np.full((5, 2), 1e30),
    }
    np.savez(tmp_path / "s.npz", queries=np.array(["val_dress_a_c_0"]), **arrays)
    assert "too large to compare" in error()
