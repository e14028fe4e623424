"""Predictions of other systems: rankings as a TREC run file or JSON, or vectors or scores as .npz."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fashioniq.data.arrays import UNREADABLE
from fashioniq.data.items import as_float32
from fashioniq.data.scores import ScoreMatrix
from fashioniq.files import UserError, read_json, reading, refuse_special, why
from fashioniq.options import refuse

ARRAYS = ("queries", "query_vectors", "ids", "vectors")
SCORES = ("queries", "ids", "scores")


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
