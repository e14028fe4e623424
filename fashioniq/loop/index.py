"""Approximate FAISS indexes for catalogs of a million products and more.

An index is tuned, and its recall measured against exact search, when it is built.
"""

import math
import re
from typing import Any

import torch
from torch import Tensor

from fashioniq.files import UserError
from fashioniq.loop.gallery import SPARE, Gallery, faiss

NEIGHBOURS = 10  # recall@10: share of the 10 nearest items that the index finds
TRAINED = 64  # training vectors per list of an IVF index
LEAST_TRAINED = 2**16  # minimum number of training vectors


def approximate(
    gallery: Gallery, factory: str, query_QD: Tensor, min_recall: float = 0.95
) -> tuple[Gallery, dict[str, Any]]:
    """Return the gallery with a FAISS index for `top`, and a description of the index.

    `factory` is a string of FAISS's `index_factory`, such as "IVF4096,Flat" or "HNSW32". The recall@10 is
    measured on the queries; nprobe of an IVF or efSearch of an HNSW is doubled until it reaches
    `min_recall`. Raises UserError if it stays below, if FAISS does not support the index, and if there are
    too few vectors to train it.
    """
    index, knob, values = _made(gallery, factory)
    nearest_QK = gallery.top(query_QD, NEIGHBOURS)[1]
    for value in values:
        if knob:
            faiss.ParameterSpace().set_index_parameter(index, knob, value)
        found_QK = _search(index, query_QD, min(len(gallery), NEIGHBOURS + SPARE))  # like `top`
        recall = (nearest_QK.unsqueeze(2) == found_QK.unsqueeze(1)).any(2).double().mean().item()
        if recall >= min_recall:
            facts = {
                "index": factory,
                **({knob: value} if knob else {}),
                "recall@10": recall,
                "least_recall": min_recall,
            }

            def search(query_BD: Tensor, count: int, wider: float = 1.0, value: int = value) -> Tensor:
                if knob:
                    looked_at = min(values[-1], math.ceil(wider * value))
                    faiss.ParameterSpace().set_index_parameter(index, knob, looked_at)
                return _search(index, query_BD, count)

            found = Gallery(gallery.items, gallery.vectors_ND, gallery.search, search)
            return found, {**facts, "queries": len(query_QD), "vectors": len(gallery)}
    at = f" with {knob} {value}" if knob else ""
    raise UserError(
        f"--index {factory}: expected a recall@{NEIGHBOURS} of at least {min_recall:g}, found {recall:.3f}{at}; "
        "use another index, such as HNSW32"
    )


def _made(gallery: Gallery, factory: str) -> tuple[Any, str | None, list[int]]:
    """Train and fill an index; return it, and its speed–recall parameter with the values to try."""
    if faiss is None:
        raise UserError(
            "--index needs FAISS; install faiss-cpu or faiss-gpu, or omit --index for exact search"
        )
    size = gallery.vectors_ND.shape[1]
    if re.search(r"[A-Za-z]0+(?!\d)", factory):  # HNSW0 ends the process in FAISS
        raise UserError(f"--index {factory!r} has a part of size 0; use one such as HNSW32")
    try:
        index = faiss.index_factory(size, factory)
    except (RuntimeError, TypeError) as error:  # TypeError: half a surrogate pair
        raise UserError(
            f"--index {factory!r}: FAISS cannot create it for vectors of size {size}; use one such as HNSW32"
        ) from error
    ivf = faiss.try_extract_index_ivf(index)
    lists = 0 if ivf is None else ivf.nlist
    if len(gallery) < lists:
        raise UserError(
            f"--index {factory} needs at least {lists} products, found {len(gallery)}; use fewer lists"
        )
    picked_R = (
        torch.randperm(len(gallery), generator=torch.Generator().manual_seed(0))[
            : max(LEAST_TRAINED, TRAINED * lists)
        ]
        .sort()
        .values
    )
    if ivf is not None and not lists:
        raise UserError(f"--index {factory} has no lists; use one such as IVF64,Flat or HNSW32")
    if ivf is not None:
        ivf.cp.min_points_per_centroid = 1  # FAISS prints a warning
    try:
        index.train(_array(gallery.vectors_ND[picked_R.to(gallery.vectors_ND.device)]))
    except RuntimeError as error:
        raise UserError(
            f"--index {factory} cannot be trained on {len(gallery)} products; use fewer lists or "
            "codes, or HNSW32"
        ) from error
    try:
        for vectors_TD in gallery.vectors_ND.split(LEAST_TRAINED):
            index.add(_array(vectors_TD))
    except RuntimeError as error:
        raise UserError(f"--index {factory} takes no products; use one such as HNSW32") from error
    if lists:
        return (
            index,
            "nprobe",
            [2**power for power in range(lists.bit_length()) if 2**power < lists] + [lists],
        )
    return (
        (index, "efSearch", [2**power for power in range(5, 12)]) if "HNSW" in factory else (index, None, [0])
    )


def _search(index: Any, query_BD: Tensor, count: int) -> Tensor:
    return torch.from_numpy(index.search(_array(query_BD), count)[1]).to(query_BD.device)


def _array(vectors_ND: Tensor) -> Any:
    return vectors_ND.float().cpu().numpy()
