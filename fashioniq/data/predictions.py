"""Predictions of other systems: rankings as a TREC run file or JSON, vectors or scores as .npz, or pickles of scores.

Scores of conversations and sessions, where higher is better, are in one of these forms:

    .npz                 scores float32 (queries × candidates), query_ids, index_ids
    hyperopt.val.pkl     {category: {"score": array, "query_ids": list, "index_ids": list}}
    score.val.pkl        {category: [[query_id, [[index_id, score], …]], …]}, the 50 best candidates

The pickles are those of github.com/yfyuan01/MultiturnFashionRetrieval. A query is val_CATEGORY_FIRST_TARGET_NUMBER,
of the first reference and the target. Only NumPy arrays and plain values are unpickled.
"""

import math
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from fashioniq.data.arrays import UNREADABLE
from fashioniq.data.items import as_float32
from fashioniq.files import UserError, read_json, reading, refuse_special, why
from fashioniq.options import refuse

ARRAYS = ("queries", "query_vectors", "ids", "vectors")
SCORES = ("queries", "ids", "scores")
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


@dataclass(frozen=True)
class Vectors:
    """Names and vectors of queries, ids and vectors of products.

    All vectors are float32 and have the same length.
    """

    queries: list[str]
    query_vectors_QD: np.ndarray
    ids: list[str]
    vectors_ND: np.ndarray


def read_npz(path: Path) -> Vectors | ScoreMatrix:
    """Read an .npz file with the arrays queries, query_vectors, ids and vectors, or queries, ids and scores.

    Raises UserError if the file cannot be read or the shapes do not match.
    """
    refuse_special(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            expected = SCORES if "scores" in file else ARRAYS
            if missing := [name for name in expected if name not in file]:
                raise UserError(
                    f"{path} lacks the arrays {', '.join(missing)}: expected {', '.join(ARRAYS)}, "
                    f"names as text, one vector per row; or {', '.join(SCORES)}"
                )
            arrays = {name: file[name] for name in expected}
    except FileNotFoundError as error:
        raise UserError(f"there is no file of predictions {path}") from error
    except UNREADABLE as error:
        raise UserError(
            f"{path} is not an .npz file of plain arrays ({why(error)}): names must be text, not objects"
        ) from error
    queries, ids = arrays["queries"], arrays["ids"]
    if expected == SCORES:
        scores = arrays["scores"]
        _check_rows(path, queries, scores, "scores")
        if ids.dtype.kind != "U" or len(set(ids.tolist())) < len(ids) or scores.shape[1:] != ids.shape:
            raise UserError(
                f"{path}: expected unique ids as text and a column of scores per id, found {ids.dtype} of shape "
                f"{ids.shape} and scores of shape {scores.shape}"
            )
        return ScoreMatrix(as_float32(scores), tuple(queries.tolist()), tuple(ids.tolist()))
    query_vectors, vectors = arrays["query_vectors"], arrays["vectors"]
    _check_rows(path, queries, query_vectors, "vectors")
    _check_rows(path, ids, vectors, "vectors")
    refuse(
        (not vectors.shape[1], f"{path}: expected vectors, found some of no numbers"),
        (
            query_vectors.shape[1] != vectors.shape[1],
            f"{path}: expected query and product vectors of the same length, "
            f"found {query_vectors.shape[1]} and {vectors.shape[1]}",
        ),
    )
    return Vectors(queries.tolist(), as_float32(query_vectors), ids.tolist(), as_float32(vectors))


def _check_rows(path: Path, names: np.ndarray, rows: np.ndarray, what: str) -> None:
    """Raise UserError unless the names are unique texts, each with a row of finite numbers."""
    refuse(
        (
            names.ndim != 1
            or names.dtype.kind != "U"
            or rows.ndim != 2
            or len(rows) != len(names)
            or len(set(names.tolist())) < len(names),
            f"{path}: expected unique names as text and one row of numbers per name, "
            f"found {names.dtype} of shape {names.shape} and numbers of shape {rows.shape}",
        ),
        (
            rows.dtype.kind not in "fiu",
            f"{path}: expected {what} of numbers, found the type {rows.dtype}; write numbers",
        ),
    )
    finite_N = np.isfinite(as_float32(rows)).all(1)
    if not finite_N.all():
        row = int(finite_N.argmin())
        value = rows[row][~np.isfinite(as_float32(rows[row]))][0]
        raise UserError(
            f"{path}: expected finite float32 numbers, found {value} in the {what} of {names[row]} (row {row}); "
            f"correct the {what}"
        )


def read_rankings(path: Path) -> dict[str, list[str]]:
    """Products of every query, best first, from a .json file {query: [id, …]} or a TREC run file.

    Lines of a run, `query Q0 id rank score tag`, are sorted by score as in trec_eval, then by rank.
    Raises UserError if the file has neither format, or ranks a product twice.
    """
    if path.suffix == ".json":
        rankings = read_json(path, "the predictions", dict)
        if not all(
            isinstance(ids, list) and all(isinstance(name, str) for name in ids) for ids in rankings.values()
        ):
            raise UserError(
                f"{path}: expected {{query: [id, id, …]}}, best id first; the output of score --queries, "
                '{"queries": …}, contains no predictions'
            )
    else:
        rankings = _read_run(path)
    for query, ids in rankings.items():
        if len(set(ids)) < len(ids):
            raise UserError(
                f"{path} ranks a product twice for the query {query}: each product may occur once"
            )
    return rankings


def _read_run(path: Path) -> dict[str, list[str]]:
    rows: dict[str, list[tuple[float, int, str]]] = {}
    with (
        reading(path, "file of predictions", "give a TREC run, .json or .npz file"),
        open(path, encoding="utf-8") as file,
    ):
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                query, _, name, place, score, _ = line.split()
                row = (-float(score), int(place), name)
            except ValueError as error:
                raise UserError(
                    f"{path}, line {number}: expected `query Q0 id rank score tag`, found {line.strip()[:60]!r}"
                ) from error
            if math.isnan(row[0]):
                raise UserError(f"{path}, line {number}: the score is not a number")
            rows.setdefault(query, []).append(row)
    return {query: [name for *_, name in sorted(found)] for query, found in rows.items()}


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
