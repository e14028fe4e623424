import json

import numpy as np
import pytest
from ir_measures import RR, Qrel, ScoredDoc, calc_aggregate

from fashioniq.data.predictions import read_npz, read_rankings
from fashioniq.data.trec import run_scores
from fashioniq.files import UserError

GOOD = {
    "queries": np.array(["q1", "q2"]),
    "query_vectors": np.eye(2),
    "ids": np.array(["a", "b", "c"]),
    "vectors": np.ones((3, 2)),
}


def test_a_run_file_is_sorted_by_score_then_by_rank(tmp_path):
    (tmp_path / "run.trec").write_text(
        "q1 Q0 a 1 0.5 me\nq2 Q0 a 1 1 me\n\nq1 Q0 b 3 2.5 me\nq1 Q0 c 2 2.5 me\n"
    )
    assert read_rankings(tmp_path / "run.trec") == {"q1": ["c", "b", "a"], "q2": ["a"]}


def test_rankings_as_json_are_taken_as_they_are(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"q1": ["c", "a"]}))
    assert read_rankings(tmp_path / "run.json") == {"q1": ["c", "a"]}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("run.trec", "q1 Q0 a 1 0.5\n", "line 1: expected `query Q0 id rank score tag`"),
        ("run.trec", "q1 Q0 a 1 high me\n", "line 1"),
        ("run.trec", "q1 Q0 a 1 nan me\n", "the score is not a number"),
        ("run.trec", "q1 Q0 a 1 2 me\nq1 Q0 a 2 1 me\n", "ranks a product twice for the query q1"),
        ("run.json", '{"q1": ["a", "a"]}', "ranks a product twice for the query q1"),
        ("run.json", '{"q1": [1, 2]}', "expected {query: [id, id, …]}"),
        ("run.json", '["a"]', "expected a dict"),
    ],
)
def test_a_malformed_file_is_told(name, text, told, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError) as caught:
        read_rankings(tmp_path / name)
    assert (
        told in str(caught.value)
        and str(tmp_path / name) in str(caught.value)
        and "\n" not in str(caught.value)
    )


@pytest.mark.parametrize("name", ["none.trec", "none.json", "none.npz"])
def test_a_missing_file_is_told(name, tmp_path):
    with pytest.raises(UserError, match="there is no file"):
        (read_npz if name.endswith("npz") else read_rankings)(tmp_path / name)


def test_vectors_come_with_their_names(tmp_path):
    np.savez(tmp_path / "v.npz", **GOOD)
    given = read_npz(tmp_path / "v.npz")
    assert (given.queries, given.ids) == (
        ["q1", "q2"],
        ["a", "b", "c"],
    ) and given.query_vectors_QD.dtype == np.float32


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"vectors": None}, "lacks the arrays vectors"),
        ({"ids": np.array(["a", "b"])}, "one row of numbers per name"),
        ({"ids": np.array(["a", "b", "a"])}, "unique names"),
        ({"queries": np.array(["q1", "q2"], dtype=object)}, "names must be text"),
        ({"vectors": np.array([[1, 2], [3, np.nan], [5, 6]])}, "found nan in the vectors of b"),
        ({"query_vectors": np.array([[1, 2], [3, np.inf]])}, "found inf in the vectors of q2"),
        ({"vectors": np.array([["1", "2"]] * 3)}, "expected vectors of numbers, found the type <U1"),
        ({"vectors": np.ones((3, 4))}, "vectors of the same length, found 2 and 4"),
    ],
)
def test_malformed_vectors_are_told(change, told, tmp_path):
    np.savez(
        tmp_path / "v.npz", **{name: rows for name, rows in {**GOOD, **change}.items() if rows is not None}
    )
    with pytest.raises(UserError, match=told):
        read_npz(tmp_path / "v.npz")


def test_scores_are_a_row_of_each_query_and_a_column_of_each_product(tmp_path):
    good = {"queries": np.array(["q1", "q2"]), "ids": np.array(["a", "b", "c"]), "scores": np.eye(2, 3)}
    np.savez(tmp_path / "s.npz", **good)
    given = read_npz(tmp_path / "s.npz")
    assert (given.query_ids, given.index_ids, given.scores_QN.tolist()) == (
        ("q1", "q2"), ("a", "b", "c"), [[1, 0, 0], [0, 1, 0]])  # fmt: skip
    for change, told in (
        ({"scores": np.eye(3)}, "one row of numbers per name"),
        ({"ids": np.array(["a", "b"])}, "a column of scores per id"),
        ({"scores": np.array([[1, 2, 3], [4, np.nan, 6]])}, "found nan in the scores of q2"),
    ):
        np.savez(tmp_path / "s.npz", **{**good, **change})
        with pytest.raises(UserError, match=told):
            read_npz(tmp_path / "s.npz")


def test_a_single_array_is_told(tmp_path):
    with open(tmp_path / "v.npz", "wb") as file:
        np.save(file, np.eye(2))
    with pytest.raises(UserError, match=r"is not an \.npz file"):
        read_npz(tmp_path / "v.npz")


def test_a_file_that_is_no_archive_is_told(tmp_path):
    (tmp_path / "v.npz").write_text("no vectors")
    with pytest.raises(UserError, match=r"is not an \.npz file"):
        read_npz(tmp_path / "v.npz")


def test_scores_of_a_run_fall_in_float32_so_that_other_tools_rank_alike():
    scores = [0.5, 0.5, 0.5, 0.5 - 1e-12, 0.25, 0.2500000001, -1e-9, -1e-9, -1e-9]
    written = np.array([float(text) for text in run_scores(scores)], np.float32)
    assert (np.diff(written) < 0).all() and np.allclose(written, scores, atol=1e-6)
    assert run_scores([0.75, 0.5]) == ["0.75", "0.5"] and run_scores([]) == []


def test_a_tool_with_its_own_order_of_ties_finds_our_ranks():
    run = [
        ScoredDoc("q", name, float(score))
        for name, score in zip("abcdefgh", run_scores([0.1] * 8), strict=True)
    ]
    for place, name in enumerate("abcdefgh", 1):
        assert calc_aggregate([RR], [Qrel("q", name, 1)], run)[RR] == pytest.approx(1 / place)
