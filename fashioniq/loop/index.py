"""Approximate FAISS indexes for catalogs of a million products and more.

An index is tuned, and its recall measured against exact search, whenever it is built or read.
"""

import hashlib
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fashioniq.files import UserError
from fashioniq.loop.exact import faiss
from fashioniq.loop.gallery import Gallery, SearchEngine, candidate_count
from fashioniq.loop.stored import made_once

LEAST_RECALL = 0.95  # share of the nearest items that an index has to find
NEIGHBOURS = 10  # recall@10: share of the 10 nearest items that the index finds
TRAINED = 64  # training vectors per list of an IVF index
LEAST_TRAINED = 2**16  # minimum number of training vectors
TILE = 2**16  # vectors that are added at a time


class Tuned(SearchEngine, Protocol):
    """Search with a speed–recall parameter `knob`, None without one; `value` is one of `values`, in ascending order."""

    @property
    def knob(self) -> str | None: ...

    @property
    def values(self) -> Sequence[int]: ...

    value: int


class FaissSearch:
    """Search in a FAISS index."""

    def __init__(self, index: Any, factory: str) -> None:
        self._index = index
        ivf = faiss.try_extract_index_ivf(index)
        self.knob: str | None = None
        self.values = [0]
        if ivf is not None:
            self.knob = "nprobe"
            self.values = [2**power for power in range(ivf.nlist.bit_length()) if 2**power < ivf.nlist] + [
                ivf.nlist
            ]
        elif "HNSW" in factory:
            self.knob, self.values = "efSearch", [2**power for power in range(5, 12)]
        self.value = self.values[0]

    def __call__(
        self, query_BD: Tensor, count: int, allowed_N: Tensor | None = None, wider: float = 1.0
    ) -> Tensor:
        if self.knob:
            looked_at = min(self.values[-1], math.ceil(wider * self.value))
            faiss.ParameterSpace().set_index_parameter(self._index, self.knob, looked_at)
        parameters = None
        if allowed_N is not None:
            parameters = _filtered(self._index, allowed_N)
        found = self._index.search(_array(query_BD), count, params=parameters)[1]
        return torch.from_numpy(found).to(query_BD.device)


def approximate(
    gallery: Gallery,
    factory: str,
    query_QD: Tensor,
    min_recall: float = LEAST_RECALL,
    folder: Path | None = None,
) -> tuple[Gallery, dict[str, Any]]:
    """Return the gallery with a FAISS index for `top`, and a description of the index.

    `factory` is a string of FAISS's `index_factory`, such as "IVF4096,Flat" or "HNSW32". The recall@10 is
    measured on the queries; nprobe of an IVF or efSearch of an HNSW is doubled until it is two standard errors
    above `min_recall`. With a `folder`, the index of these vectors is read from it, or built and written.

    Raises UserError if the recall stays below, if FAISS does not support the index, if there are too few vectors
    to train it, and if a stored index is not the one that was written.
    """
    if faiss is None:
        raise UserError(
            "--index needs FAISS; install faiss-cpu or faiss-gpu, or omit --index for exact search"
        )
    index = _stored(gallery, factory, folder) if folder else _made(gallery, factory)
    return tuned(
        gallery, FaissSearch(index, factory), factory, f"--index {factory}", query_QD, min_recall=min_recall
    )


def tuned(
    gallery: Gallery,
    search: Tuned,
    name: str,
    option: str,
    query_QD: Tensor,
    *,
    min_recall: float = LEAST_RECALL,
) -> tuple[Gallery, dict[str, Any]]:
    """Return the gallery with a search of at least this recall@10, and a description with the `name`.

    Raises UserError about the `option` if the recall stays below.
    """
    nearest_QK = gallery.top(query_QD, NEIGHBOURS)[1]
    for value in search.values:
        search.value = value
        recall_Q = _recalls(search, gallery, query_QD, nearest_QK)
        recall = recall_Q.mean().item()
        # other queries may be harder: two standard errors more, if there is a larger value
        margin = (
            2 * recall_Q.std(correction=0).item() / len(recall_Q) ** 0.5 if value != search.values[-1] else 0
        )
        if recall - margin >= min_recall:
            facts = {
                "index": name,
                **({search.knob: search.value} if search.knob else {}),
                "recall@10": recall,
                "least_recall": min_recall,
            }
            return gallery.with_index(search), {**facts, "queries": len(query_QD), "vectors": len(gallery)}
    at = f" with {search.knob} {search.value}" if search.knob else ""
    raise UserError(
        f"{option}: expected a recall@{NEIGHBOURS} of at least {min_recall:g}, found {recall:.3f}{at}; "
        "use another index, such as HNSW32"
    )


def _recalls(search: SearchEngine, gallery: Gallery, query_QD: Tensor, nearest_QK: Tensor) -> Tensor:
    """Share of the exact neighbors of each query that are among the candidates of `Gallery.top`, Q."""
    found_QK = search(query_QD, min(len(gallery), candidate_count(nearest_QK.shape[1])))
    return (nearest_QK.unsqueeze(2) == found_QK.unsqueeze(1)).any(2).double().mean(1)


def fingerprint(gallery: Gallery) -> str:
    """SHA-256 of the vectors of a gallery."""
    digest = hashlib.sha256(f"{gallery.vectors_ND.dtype} {tuple(gallery.vectors_ND.shape)}".encode())
    for _, vectors_TD in gallery.tiles(TILE):
        digest.update(_array(vectors_TD).tobytes())
    return digest.hexdigest()


def _stored(gallery: Gallery, factory: str, folder: Path) -> Any:
    """The index in a folder if it was built from these vectors by this version of FAISS, else a new one."""
    path = folder / (re.sub(r"[^A-Za-z0-9]+", "-", factory) + ".faiss")
    made_of = {"index": factory, "faiss": faiss.__version__, "vectors": fingerprint(gallery)}

    def make(temporary: Path) -> None:
        faiss.write_index(_made(gallery, factory), str(temporary))

    with made_once(path, "index", made_of, make, key="sha256"):
        return faiss.read_index(str(path))


def _filtered(index: Any, allowed_N: Tensor) -> Any:
    """Parameters of a search among the allowed items, None if FAISS has no filter for this index."""
    library: Any = faiss  # its types lack most of these
    index = library.downcast_index(index)
    if isinstance(index, library.IndexPreTransform):
        return _filtered(index.index, allowed_N)  # FAISS passes them on
    selector = library.IDSelectorBitmap(np.packbits(allowed_N.cpu().numpy(), bitorder="little"))
    if isinstance(index, library.IndexIVF):
        return library.SearchParametersIVF(sel=selector, nprobe=index.nprobe)
    if isinstance(index, library.IndexHNSW):
        return library.SearchParametersHNSW(sel=selector, efSearch=index.hnsw.efSearch)
    return None


def _made(gallery: Gallery, factory: str) -> Any:
    """Train and fill an index."""
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
    if ivf is not None and not lists:
        raise UserError(f"--index {factory} has no lists; use one such as IVF64,Flat or HNSW32")
    _accept_few(index)
    most = max(LEAST_TRAINED, TRAINED * lists)
    try:
        if not index.is_trained:
            index.train(_array(_sample(gallery, most)))
    except RuntimeError as error:
        raise UserError(
            f"--index {factory} cannot be trained on {len(gallery)} products; use fewer lists or "
            "codes, or HNSW32"
        ) from error
    try:
        for _, vectors_TD in gallery.tiles(TILE):
            index.add(_array(vectors_TD))
        index.search(_array(gallery.vectors_ND[:1]), 1)
    except RuntimeError as error:
        raise UserError(f"--index {factory} cannot be searched; use one such as HNSW32") from error
    return index


def _accept_few(part: Any) -> None:
    """Keep FAISS from printing warnings about few vectors, for an index or a quantizer and all that is in it."""
    if hasattr(part, "cp"):
        part.cp.min_points_per_centroid = 1
    for name in ("index", "quantizer", "q1", "pq", "rq"):
        if (inner := getattr(part, name, None)) is not None:
            _accept_few(faiss.downcast_index(inner) if isinstance(inner, faiss.Index) else inner)


def _sample(gallery: Gallery, count: int) -> Tensor:
    """Vectors of at most `count` products that are drawn at random, in the order of the gallery."""
    picked_N = torch.zeros(len(gallery), dtype=torch.bool)
    picked_N[torch.randperm(len(gallery), generator=torch.Generator().manual_seed(0))[:count]] = True
    return torch.cat(
        [vectors_TD[picked_N[start : start + len(vectors_TD)]] for start, vectors_TD in gallery.tiles(TILE)]
    )


def _array(vectors_ND: Tensor) -> Any:
    return vectors_ND.float().cpu().numpy()
