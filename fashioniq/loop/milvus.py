"""Search in Milvus: one collection for each gallery, and an alias for each category.

Milvus proposes candidates, which `Gallery` orders by their exact distances, so that answers equal those of the
exact search. pymilvus is imported only when a gallery is opened.
"""

import ipaddress
import logging
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from torch import Tensor

from fashioniq.files import UserError, explaining, refuse_special, why
from fashioniq.loop.gallery import EngineError, Gallery
from fashioniq.loop.index import fingerprint, tuned

TIMEOUT = 0.3  # seconds of a search in service
PATIENCE = 600.0  # seconds of a call while a collection is filled and measured
MOST = 16_384  # results of a query, a limit of Milvus
WRITTEN = 4096  # vectors that are written at a time
FAILURES = 3  # consecutive failures after which Milvus is not asked for a while
PAUSE = 5.0  # seconds


class MilvusSearch:
    """Search in a collection; `knob` and `values` are like those of FaissSearch.

    After FAILURES failures it fails at once for PAUSE seconds. Raises EngineError.
    """

    knob = "ef"
    values = tuple(2**power for power in range(5, 12))

    def __init__(self, client: Any, collection: str) -> None:
        self._client, self.collection = client, collection
        self.value, self.timeout = self.values[0], PATIENCE
        self._failures, self._next = 0, 0.0

    def __call__(
        self, query_BD: Tensor, count: int, allowed_N: Tensor | None = None, wider: float = 1.0
    ) -> Tensor:
        if allowed_N is not None:  # the filters are columns of the service: more candidates, chosen there
            count = math.ceil(2 * count * len(allowed_N) / max(1, int(allowed_N.sum())))
        count = min(MOST, count)
        looked_at = max(count, min(self.values[-1], math.ceil(wider * self.value)))
        with self.failing():
            found = self._client.search(
                self.collection,
                data=query_BD.float().cpu().tolist(),
                limit=count,
                search_params={"metric_type": "L2", "params": {self.knob: looked_at}},
                timeout=self.timeout,
            )
        item_BK = torch.full((len(query_BD), max(map(len, found))), -1)
        for row, hits in enumerate(found):
            item_BK[row, : len(hits)] = torch.tensor([hit["id"] for hit in hits], dtype=torch.long)
        return item_BK.to(query_BD.device)

    def point_alias(self, alias: str) -> None:
        """Let an alias name this collection."""
        with self.failing():
            try:
                self._client.alter_alias(self.collection, alias, timeout=PATIENCE)
            except _errors():  # there is no alias yet
                self._client.create_alias(self.collection, alias, timeout=PATIENCE)

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Convert errors of Milvus raised inside to EngineError, and count them."""
        if self._failures >= FAILURES and time.monotonic() < self._next:
            raise EngineError("Milvus has failed several times")
        try:
            yield
        except _errors() as error:
            self._failures += 1
            self._next = time.monotonic() + PAUSE
            raise EngineError(f"Milvus: {why(error)}") from error
        self._failures = 0


def in_milvus(gallery: Gallery, url: str, name: str, query_QD: Tensor) -> tuple[Gallery, dict[str, Any]]:
    """Return the gallery with a search in Milvus, and a description of it; a new gallery is written there.

    `url` is milvus://HOST:PORT, or milvus:///PATH.db for a folder of milvus-lite. The collection is `name` and the
    hash of the vectors. Raises UserError if Milvus cannot be reached, or has too little recall.
    """
    client, is_folder = _client(url), urlsplit(url).hostname is None
    search = MilvusSearch(client, f"{alias_of(name)}_{fingerprint(gallery)[:8]}")
    try:
        with search.failing():
            _fill(client, search.collection, gallery)
        found = tuned(gallery, search, "milvus HNSW", f"--gallery {url}", query_QD)
    except EngineError as error:
        advice = (
            "remove the folder, which is written again"
            if is_folder
            else "start Milvus, or correct the address"
        )
        raise UserError(f"--gallery {url}: {why(error)}; {advice}") from error
    search.timeout = TIMEOUT
    return found


def alias_of(category: str) -> str:
    """Name of a category or version in Milvus, which has letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", category)


def _client(url: str) -> Any:
    with explaining(f"--gallery {url} needs pymilvus", "; pip install 'fashioniq[milvus]'", ImportError):
        from pymilvus import MilvusClient
    expected = f"expected milvus://HOST:PORT or milvus:///PATH.db, found --gallery {url}; correct it"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 19530
    except ValueError as error:
        raise UserError(expected) from error
    if parts.scheme != "milvus" or parts.username or (host is None and not parts.path.endswith(".db")):
        raise UserError(expected)
    for library in ("pymilvus", "milvus_lite"):  # they print a traceback for each failed call
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        if host is None:
            for path in [Path(parts.path), *Path(parts.path).rglob("*")]:
                refuse_special(path)
            return MilvusClient(parts.path)
        scheme = "http" if is_loopback(host) else "https"
        at = f"[{host}]" if ":" in host else host
        return MilvusClient(f"{scheme}://{at}:{port}", token=os.environ.get("MILVUS_TOKEN", ""), timeout=10)
    except UserError:
        raise
    except Exception as error:  # also of milvus-lite, if another process has opened the folder
        raise UserError(
            f"--gallery {url}: Milvus cannot be opened ({why(error)}); start it, or end what uses the folder"
        ) from error


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _fill(client: Any, collection: str, gallery: Gallery) -> None:
    """Write the vectors, with their positions as ids, unless all are there; writing them again changes nothing."""
    from pymilvus import DataType

    if not client.has_collection(collection, timeout=PATIENCE):
        schema = client.create_schema(auto_id=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=gallery.vectors_ND.shape[1])
        index = client.prepare_index_params()
        index.add_index(
            "vector", index_type="HNSW", metric_type="L2", params={"M": 32, "efConstruction": 200}
        )
        client.create_collection(collection, schema=schema, index_params=index, timeout=PATIENCE)
    client.load_collection(collection, timeout=PATIENCE)
    if _count(client, collection) < len(gallery):
        for start, vectors_TD in gallery.tiles(WRITTEN):
            rows = enumerate(vectors_TD.cpu().numpy(), start)
            client.upsert(collection, [{"id": at, "vector": row} for at, row in rows], timeout=PATIENCE)
        client.flush(collection, timeout=PATIENCE)


def _count(client: Any, collection: str) -> int:
    (found,) = client.query(
        collection, output_fields=["count(*)"], consistency_level="Strong", timeout=PATIENCE
    )
    return int(found["count(*)"])


def _errors() -> tuple[type[Exception], ...]:
    import grpc
    from pymilvus.exceptions import MilvusException

    return MilvusException, grpc.RpcError
