"""Approximate indexes for catalogs of a million products and more: FAISS's, tuned and measured against exact search when they are built."""

from typing import Any

import torch
from torch import Tensor

from fashioniq.files import UserError
from fashioniq.loop.gallery import SPARE, Gallery, faiss

NEIGHBOURS = 10  # recall@10: the share of the 10 nearest items that is found
TRAINED = 64  # vectors for each list of an IVF to learn the lists from
LEAST_TRAINED = 2**16


def approximate(gallery: Gallery, factory: str, query_QD: Tensor, min_recall: float = 0.95) -> tuple[Gallery, dict[str, Any]]:
    """The gallery with an index of FAISS's `index_factory`, as "IVF4096,Flat" or "HNSW32", in `top`; and what is to be known of the index.

    Its recall@10 is measured on the queries. nprobe of an IVF and efSearch of an HNSW are doubled until it is at least `min_recall`.
    Raises UserError where it stays below, and for an index that FAISS does not know or cannot train on so few vectors.
    """
    index, knob, values = _made(gallery, factory)
    nearest_QK = gallery.top(query_QD, NEIGHBOURS)[1]
    for value in values:
        if knob:
            faiss.ParameterSpace().set_index_parameter(index, knob, value)
        found_QK = _search(index, query_QD, min(len(gallery), NEIGHBOURS + SPARE))  # as many as `top` puts in order
        recall = (nearest_QK.unsqueeze(2) == found_QK.unsqueeze(1)).any(2).double().mean().item()
        if recall >= min_recall:
            facts = {"index": factory, **({knob: value} if knob else {}), "recall@10": recall, "least_recall": min_recall}
            found = Gallery(gallery.items, gallery.vectors_ND, gallery.search, lambda query_BD, count: _search(index, query_BD, count))
            return found, {**facts, "queries": len(query_QD), "vectors": len(gallery)}
    at = f" with {knob} {value}" if knob else ""
    raise UserError(
        f"the index {factory} finds {recall:.3f} of the {NEIGHBOURS} nearest products{at}, less than {min_recall:g}: "
        "give another --index, such as HNSW32"
    )


def _made(gallery: Gallery, factory: str) -> tuple[Any, str | None, list[int]]:
    """A trained and filled index, the name of what trades its speed for recall, and the values to try."""
    if faiss is None:
        raise UserError("--index needs FAISS: install faiss-cpu or faiss-gpu, or leave --index out for exact search")
    size = gallery.vectors_ND.shape[1]
    try:
        index = faiss.index_factory(size, factory)
    except RuntimeError as error:
        raise UserError(f"FAISS makes no index {factory!r} of vectors of {size}: give one as IVF4096,Flat or HNSW32") from error
    ivf = faiss.try_extract_index_ivf(index)
    lists = 0 if ivf is None else ivf.nlist
    if len(gallery) < lists:
        raise UserError(f"the index {factory} needs at least {lists} products to learn its lists from, there are {len(gallery)}: take fewer lists")
    picked_R = torch.randperm(len(gallery), generator=torch.Generator().manual_seed(0))[: max(LEAST_TRAINED, TRAINED * lists)].sort().values
    try:
        index.train(_array(gallery.vectors_ND[picked_R.to(gallery.vectors_ND.device)]))
    except RuntimeError as error:
        raise UserError(f"the index {factory} cannot be trained on {len(gallery)} products: take one of fewer lists or codes, or HNSW32") from error
    for vectors_TD in gallery.vectors_ND.split(LEAST_TRAINED):
        index.add(_array(vectors_TD))
    if lists:
        return index, "nprobe", [2**power for power in range(lists.bit_length()) if 2**power < lists] + [lists]
    return (index, "efSearch", [2**power for power in range(5, 12)]) if "HNSW" in factory else (index, None, [0])


def _search(index: Any, query_BD: Tensor, count: int) -> Tensor:
    return torch.from_numpy(index.search(_array(query_BD), count)[1]).to(query_BD.device)


def _array(vectors_ND: Tensor) -> Any:
    return vectors_ND.float().cpu().numpy()
