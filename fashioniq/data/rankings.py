"""Predictions of other systems: rankings as a TREC run file or JSON, or query and product vectors as .npz."""

import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from fashioniq.data.items import as_float32
from fashioniq.files import UserError, read_json, reading

ARRAYS = ("queries", "query_vectors", "ids", "vectors")


@dataclass(frozen=True)
class Vectors:
    """Names and vectors of queries, ids and vectors of products.

    All vectors are float32 and have the same length.
    """

    queries: list[str]
    query_vectors_QD: np.ndarray
    ids: list[str]
    vectors_ND: np.ndarray


def read_vectors(path: Path) -> Vectors:
    """Read an .npz file with the arrays queries, query_vectors, ids and vectors.

    Raises UserError if the file cannot be read or the shapes do not match.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            if missing := [name for name in ARRAYS if name not in file]:
                raise UserError(
                    f"{path} lacks the arrays {', '.join(missing)}: expected {', '.join(ARRAYS)}, "
                    "names as text, one vector per row"
                )
            queries, query_vectors, ids, vectors = (file[name] for name in ARRAYS)
    except FileNotFoundError as error:
        raise UserError(f"there is no file of predictions {path}") from error
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise UserError(
            f"{path} is not an .npz file of plain arrays ({str(error)[:100]}): "
            "names must be text, not objects"
        ) from error
    for names, rows in ((queries, query_vectors), (ids, vectors)):
        if (
            names.ndim != 1
            or names.dtype.kind != "U"
            or rows.ndim != 2
            or len(rows) != len(names)
            or len(set(names.tolist())) < len(names)
        ):
            raise UserError(
                f"{path}: expected unique names as text and one row of numbers per name, "
                f"found arrays of shape {names.shape} and {rows.shape}"
            )
        if rows.dtype.kind not in "fiu":
            raise UserError(
                f"{path}: expected vectors of numbers, found the type {rows.dtype}; write numbers"
            )
        finite_N = np.isfinite(as_float32(rows)).all(1)
        if not finite_N.all():
            row = int(finite_N.argmin())
            value = rows[row][~np.isfinite(as_float32(rows[row]))][0]
            raise UserError(
                f"{path}: expected finite float32 numbers, found {value} in the vector of {names[row]} (row {row}); "
                "correct the vectors"
            )
    if query_vectors.shape[1] != vectors.shape[1]:
        raise UserError(
            f"{path}: expected query and product vectors of the same length, "
            f"found {query_vectors.shape[1]} and {vectors.shape[1]}"
        )
    return Vectors(queries.tolist(), as_float32(query_vectors), ids.tolist(), as_float32(vectors))


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
                f"{path}: expected {{query: [id, id, …]}}, best id first; the output of write-queries, "
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
                found_line = line.strip()[:60]
                raise UserError(
                    f"{path}, line {number}: expected `query Q0 id rank score tag`, found {found_line!r}"
                ) from error
            if math.isnan(row[0]):
                raise UserError(f"{path}, line {number}: the score is not a number")
            rows.setdefault(query, []).append(row)
    return {query: [name for *_, name in sorted(found)] for query, found in rows.items()}
