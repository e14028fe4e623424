"""Galleries of trained runs: vectors and index, which are stored in the folder of the run."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.arrays import UNREADABLE, open_array
from fashioniq.data.items import Items
from fashioniq.files import checksum, explaining
from fashioniq.loop.exact import NotFiniteError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.index import approximate
from fashioniq.loop.messages import Message
from fashioniq.loop.milvus import in_milvus
from fashioniq.loop.rollout import System
from fashioniq.loop.stored import made_once
from fashioniq.runs import weights_file

QUERIES = 128  # on which the recall of an index is measured
WORDS = 4  # words of a query


def gallery_of(
    run: Path, items: Items, embed: Callable[[Tensor], Tensor], features: str, stored: Path | None
) -> Gallery:
    """Gallery of the products, embedded by a run.

    With a folder `stored`, the vectors are a memory map of float16 in this folder, and are computed only if the
    weights, the products or the `features` (a hash) are others. Raises UserError if it cannot be written, or if
    the file is not the one that was written.
    """
    if stored is None:
        return Gallery(items, items.embedded(embed))
    products = hashlib.sha256("\n".join(items.ids).encode()).hexdigest()
    about = {"weights": checksum(weights_file(run)), "features": features, "products": products}
    path = stored / "vectors.npy"
    with (
        made_once(path, "file", about, lambda temporary: _write(temporary, items, embed), key="checksum"),
        explaining(f"{path} is damaged", f"; remove {stored}", UNREADABLE),
    ):
        vectors_ND: Any = open_array(path, mode="c")  # torch accepts no read-only memory
    device = items.features_ND.device
    return Gallery(items, vectors_ND if device.type == "cpu" else torch.from_numpy(vectors_ND).to(device))


def _write(path: Path, items: Items, embed: Callable[[Tensor], Tensor]) -> None:
    array: np.memmap | None = None
    for start, vectors_BD in items.blocks(embed):
        if array is None:
            array = np.lib.format.open_memmap(path, "w+", np.float16, (len(items), vectors_BD.shape[1]))
        array[start : start + len(vectors_BD)] = vectors_BD.cpu().numpy()
    assert array is not None, "a gallery has products"
    array.flush()


def with_search(system: System, stored: Path, name: str, index: str | None, url: str | None) -> System:
    """The system with a FAISS index, which is `stored` in a folder, or with a collection `name` in the Milvus at `url`.

    Their recall is measured on sampled queries. Raises UserError if the search cannot be built or has too little
    recall, and if the run has diverged.
    """
    with explaining(
        f"the vectors in {stored} are not finite",
        "; train the run again with a lower --learning-rate",
        NotFiniteError,
    ):
        query_QD = sample_queries(system)
        if url:
            gallery, facts = in_milvus(system.gallery, url, name, query_QD)
        else:
            gallery, facts = approximate(system.gallery, index or "", query_QD, folder=stored)
    return replace(system, gallery=gallery, index=facts)


@torch.no_grad()
def sample_queries(system: System) -> Tensor:
    """Queries Q×D of dialogs of one turn about random products, in words of the cards of other products."""
    ids, generator = system.gallery.items.ids, torch.Generator().manual_seed(0)
    item_2Q = torch.randint(len(ids), (2, QUERIES), generator=generator)
    state = system.start(QUERIES)
    offer = system.offer(state)
    if system.shows_items:
        offer = offer._replace(item_B=item_2Q[0].to(system.gallery.vectors_ND.device))
    cards = system.cards
    products = [ids[item] for item in item_2Q[1].tolist()]
    said = [[*cards.attributes.get(name, []), *cards.titles.get(name, name).split()] for name in products]
    reply = Message(texts=[" ".join(words[:WORDS]) for words in said])
    return system.observe(state, offer, reply).queries[-1].vector_BD
