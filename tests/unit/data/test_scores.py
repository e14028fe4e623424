"""Scores of other systems: .npz files, and pickles that may hold NumPy arrays only."""

import pickle
import re
from typing import ClassVar

import numpy as np
import pytest

from fashioniq.data.predictions import read_scores
from fashioniq.files import UserError

SCORES = np.array([[3, 1, 2], [0, 5, -4]], dtype=np.float32)
QUERIES, ITEMS = ("val_dress_A_B_0", "val_dress_C_B_1"), ("A", "B", "C")


class Python2(pickle._Pickler):
    """Writes bytes as the strings of Python 2."""

    def save_bytes(self, content):
        self.write(pickle.BINSTRING + len(content).to_bytes(4, "little") + content)

    dispatch: ClassVar = dict(pickle._Pickler.dispatch) | {bytes: save_bytes}


@pytest.fixture
def written(tmp_path):
    def written(content, pickler=pickle._Pickler, name="hyperopt.val.pkl"):
        with open(tmp_path / name, "wb") as file:
            pickler(file, protocol=2 if pickler is Python2 else 4).dump(content)
        return tmp_path / name

    return written


def test_what_is_written_is_read(tmp_path):
    np.savez_compressed(tmp_path / "scores.npz", scores=SCORES, query_ids=QUERIES, index_ids=ITEMS)
    read = read_scores(tmp_path / "scores.npz")[""]
    assert np.array_equal(read.scores_QN, SCORES) and (read.query_ids, read.index_ids) == (QUERIES, ITEMS)


@pytest.mark.parametrize("pickler", [pickle._Pickler, Python2])
def test_a_matrix_by_category_is_read_also_from_python_2(written, pickler):
    content = {"dress": {"score": SCORES, "query_ids": list(QUERIES), "index_ids": list(ITEMS)}}
    read = read_scores(written(content, pickler))["dress"]
    assert np.array_equal(read.scores_QN, SCORES) and (read.query_ids, read.index_ids) == (QUERIES, ITEMS)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_matrix_is_read_from_pickles_of_any_protocol(tmp_path, protocol):
    content = {"dress": {"score": SCORES, "query_ids": list(QUERIES), "index_ids": np.array(ITEMS)}}
    (tmp_path / "scores.pkl").write_bytes(pickle.dumps(content, protocol))
    read = read_scores(tmp_path / "scores.pkl")["dress"]
    assert np.array_equal(read.scores_QN, SCORES) and (read.query_ids, read.index_ids) == (QUERIES, ITEMS)


def test_candidates_that_a_list_of_the_best_leaves_out_are_last(written):
    content = {"dress": [[QUERIES[0], [["B", 2.0], ["A", 1.0]]], [QUERIES[1], [["C", 0.5]]]]}
    read = read_scores(written(content))["dress"]
    assert read.scores_QN.tolist() == [[1, 2, -np.inf], [-np.inf, -np.inf, 0.5]]
    assert read.index_ids == ITEMS


class Harmful:
    def __reduce__(self):
        return print, ("a call",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"dress": Harmful()}, "builtins.print"),
        (
            {"dress": {"score": np.array([Harmful()]), "query_ids": ["a"], "index_ids": ["b"]}},
            "builtins.print",
        ),
        ({"dress": {"score": SCORES, "query_ids": list(QUERIES), "index_ids": ["A"]}}, "shape (2, 3)"),
        ({"dress": {"score": SCORES, "query_ids": ["a", "a"], "index_ids": list(ITEMS)}}, "occurs twice"),
        ({"dress": {"score": SCORES * np.nan, "query_ids": QUERIES, "index_ids": ITEMS}}, "no number"),
        ({"dress": [["a", [["B", 1.0]]], ["a", [["B", 1.0]]]]}, "occurs twice"),
        ({"dress": [["a", 3]]}, "not iterable"),
        ({}, "no categories"),
        ([1, 2], "no categories"),
    ],
)
def test_other_contents_are_refused(written, content, reason, capsys):
    with pytest.raises(UserError, match=re.escape(reason)):
        read_scores(written(content))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x04."])
@pytest.mark.parametrize("name", ["a.npz", "a.pkl"])
def test_damaged_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match="expected scores in"):
        read_scores(tmp_path / name)
