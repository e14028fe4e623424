"""Scores of any system for queries and candidates: .npz files, and the pickles of Multiturn FashionIQ's authors.

    .npz                 scores float32 (queries × candidates), query_ids, index_ids: higher is better
    hyperopt.val.pkl     {category: {"score": array, "query_ids": list, "index_ids": list}}
    score.val.pkl        {category: [[query_id, [[index_id, score], …]], …]}, the 50 best candidates

The pickles are those of github.com/yfyuan01/MultiturnFashionRetrieval. A query is val_CATEGORY_FIRST_TARGET_NUMBER,
of the first reference and the target. Only NumPy arrays and plain values are unpickled.
"""

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fashioniq.data.arrays import UNREADABLE
from fashioniq.files import UserError, refuse_special, why

_LARGEST = 2 * 10**9  # bytes of a file of scores
_ADMITTED = {
    (module, name)
    for core in ("numpy.core", "numpy._core")
    for module, name in (
        (f"{core}.multiarray", "_reconstruct"),
        (f"{core}.multiarray", "scalar"),
        (f"{core}.numeric", "_frombuffer"),  # protocol 5
    )
} | {("numpy", "ndarray"), ("numpy", "dtype")}


@dataclass(frozen=True)
class ScoreMatrix:
    """Scores Q×N, higher is better, of the queries `query_ids` for the candidates `index_ids`.

    Candidates that a file leaves out, as those after the 50 best, have the score -inf.
    """

    scores_QN: np.ndarray
    query_ids: tuple[str, ...]
    index_ids: tuple[str, ...]


def read_scores(path: Path) -> dict[str, ScoreMatrix]:
    """Scores by category; those of a .npz file, which has no category, are under "".

    Raises UserError if the file is missing, damaged or of another form, or contains anything but numbers and ids.
    """
    refuse_special(path)
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST:,} bytes")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as content:
                return {"": _scores(content["scores"], content["query_ids"], content["index_ids"])}
        with open(path, "rb") as file:
            loaded = _Unpickler(file).load()
        if not isinstance(loaded, dict) or not loaded:
            raise ValueError("it has no categories")
        return {str(name): _of_pickle(content) for name, content in loaded.items()}
    except (*UNREADABLE, pickle.UnpicklingError) as error:
        raise UserError(
            f"expected scores in {path}: a .npz with scores, query_ids and index_ids, or a pickle of Multiturn "
            f"FashionIQ; found {why(error)}; write the file again"
        ) from error


def matrix(given: Iterable[ScoreMatrix], query_ids: Sequence[str], index_ids: Sequence[str]) -> np.ndarray:
    """Scores of these queries for these candidates, Q×N float32, −inf where there are none."""
    row_of = {name: row for row, name in enumerate(query_ids)}
    column_of = {name: column for column, name in enumerate(index_ids)}
    scores_QN = np.full((len(row_of), len(column_of)), -np.inf, dtype=np.float32)
    for one in given:
        rows = [row for row, name in enumerate(one.query_ids) if name in row_of]
        columns = [column for column, name in enumerate(one.index_ids) if name in column_of]
        place = np.ix_(
            [row_of[one.query_ids[row]] for row in rows],
            [column_of[one.index_ids[column]] for column in columns],
        )
        scores_QN[place] = one.scores_QN[np.ix_(rows, columns)]
    return scores_QN


class _Unpickler(pickle.Unpickler):
    """Unpickler of plain values and NumPy arrays, also of Python 2; anything else is refused."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="latin1")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # bytes in protocols 0 to 2 of Python 3
            return lambda text, _: text.encode("latin1")
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"{module}.{name}, which is not of NumPy's arrays")
        return super().find_class(module, name)


def _of_pickle(content: Any) -> ScoreMatrix:
    if isinstance(content, dict):
        return _scores(np.asarray(content["score"]), content["query_ids"], content["index_ids"])
    best = {str(name): {str(one): float(score) for one, score in listed} for name, listed in content}
    index_ids = sorted({name for listed in best.values() for name in listed})
    rows = (
        ScoreMatrix(np.array([list(listed.values())], np.float32), (name,), tuple(listed))
        for name, listed in best.items()
    )
    scores_QN = matrix(rows, tuple(best), index_ids)
    if len(best) < len(content):
        raise ValueError("a query that occurs twice")
    return ScoreMatrix(_checked(scores_QN), tuple(best), tuple(index_ids))


def _scores(scores_QN: np.ndarray, query_ids: Sequence[Any], index_ids: Sequence[Any]) -> ScoreMatrix:
    ids = tuple(tuple(str(name) for name in names) for names in (query_ids, index_ids))
    if scores_QN.dtype.kind not in "fiu" or scores_QN.shape != tuple(map(len, ids)):
        raise ValueError(
            f"{scores_QN.dtype} scores of shape {scores_QN.shape} for {len(ids[0])} queries and {len(ids[1])} "
            "candidates"
        )
    if any(len(set(names)) < len(names) for names in ids):
        raise ValueError("an id that occurs twice")
    return ScoreMatrix(_checked(scores_QN.astype(np.float32)), *ids)


def _checked(scores_QN: np.ndarray) -> np.ndarray:
    if not scores_QN.size:
        raise ValueError("no scores")
    if np.isnan(scores_QN).any() or np.isposinf(scores_QN).any():
        raise ValueError("a score that is no number")
    return scores_QN
