"""Extraction by Ray Data: workers on one machine or many read and encode the pictures.

The process of the command sends each missing part of the store to a worker, and writes the Part that comes
back. A worker encodes a part as PictureSource does. If it is killed, its part is sent again.
"""

import logging
import os
import pickle
import socket
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from fashioniq.features.picture_source import FoundPictures, PictureSource
from fashioniq.features.writer import Advance, StorePart
from fashioniq.files import UserError, explaining, one_line, temporary_folder
from fashioniq.prepare.archives import is_archive, pictures_in, unpack
from fashioniq.prepare.downloading import download, read_addresses
from fashioniq.prepare.fetching import Limits
from fashioniq.waiting import within

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise, Ray reports its use to its makers
with explaining("--engine ray needs Ray Data", "; pip install 'fashioniq[scale]'", ImportError):
    import ray.data

MOST_BYTES = 20e9  # unpacked for a part
NEXT = 2 * 3600.0  # seconds until the next part: of slow downloads, or after the start of workers

Places = dict[str, list[str]]  # product id -> path, archive member or addresses of its picture
Fetch = Callable[[Places, Path], FoundPictures]  # the folder is a temporary one for the files


@dataclass(frozen=True)
class RayWorkers:
    """An `Extract` with the results of `source`, computed by a Ray cluster.

    `pictures` is a .zip of pictures or a list of their addresses, instead of the files of the catalog. Each
    worker uses a GPU if `gpu` is true, else one processor core; decoding processes are not counted.
    """

    source: PictureSource
    pictures: Path | None
    gpu: bool

    def __call__(self, lists: Sequence[Sequence[str]], advance: Advance) -> Generator[StorePart, None, None]:
        """Yield a Part for each list of ids.

        Raises UserError if the workers cannot run, the archive or list cannot be read, or a picture disappears.
        """
        if not lists:
            return
        resource = "GPU" if self.gpu else "CPU"
        with _cluster() as resources:
            if (workers := int(resources.get(resource, 0))) == 0:
                raise UserError(
                    f"the Ray cluster has no {resource}: start it with one, or use another --device"
                )
            places, fetch = self._places(workers)
            source = replace(self.source, catalog=FoundPictures("", Path(), {}), attributes_of=None)
            parts = [{"places": pickle.dumps({name: places.get(name, []) for name in ids})} for ids in lists]
            dataset = ray.data.from_items(parts, override_num_blocks=len(parts)).map(
                _Worker,  # type: ignore[arg-type]  # Ray accepts classes, its type hints do not
                fn_constructor_args=[source, fetch],
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers),
                num_cpus=1,
                num_gpus=int(self.gpu),
            )
            dataset.context.execution_options.preserve_order = True
            dataset.context.enable_progress_bars = False
            for ids, row in zip(lists, _coming(iter(dataset.iter_rows())), strict=True):
                part = pickle.loads(row["part"])
                if isinstance(part, UserError):
                    raise part
                advance(len(ids))
                label = self.source.attributes_of
                yield replace(part, attributes_NA=label(part.ids)) if label else part

    def _places(self, workers: int) -> tuple[Mapping[str, list[str]], Fetch]:
        """Place of each picture, and the function by which a worker obtains files from places."""
        if self.pictures is None:
            catalog = self.source.catalog
            places = {name: [str(path.resolve())] for name, path in catalog.images.items()}
            return places, partial(_present, catalog.picture_failures)
        path = self.pictures.resolve()
        if is_archive(path):
            return {name: [member] for name, member in pictures_in(path).items()}, partial(_unpacked, path)
        connections, per_host = (
            max(1, limit // workers) for limit in (Limits.connections, Limits.per_host)
        )  # the usual limits, shared by the workers
        return read_addresses(path), partial(_downloaded, Limits(connections=connections, per_host=per_host))


class _Worker:
    """A Ray actor that turns the places of a part's pictures into a pickled Part, or into a UserError."""

    def __init__(self, source: PictureSource, fetch: Fetch) -> None:
        self._source, self._fetch = source, fetch

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        places: Places = pickle.loads(row["places"])
        part: StorePart | UserError
        try:
            with temporary_folder() as folder:
                source = replace(self._source, catalog=self._fetch(places, folder))
                (part,) = source.parts([list(places)], lambda count: None)
        except UserError as error:
            part = error
        return {"part": pickle.dumps(part)}


def _coming(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows of Ray, which waits without end for a worker that it cannot start. Raises UserError after NEXT seconds."""
    late = (
        f"the Ray cluster has completed no part within {NEXT / 3600:g} hours; check it with `ray status`, then run the "
        "same command again to continue"
    )
    while (row := within(NEXT, partial(next, rows, None), late)) is not None:
        yield row


def _present(failures: dict[str, str], places: Places, folder: Path) -> FoundPictures:
    images = {name: Path(paths[0]) for name, paths in places.items() if paths}
    return FoundPictures("", folder, images, failures)


def _unpacked(archive: Path, places: Places, folder: Path) -> FoundPictures:
    unpack(archive, folder, MOST_BYTES, only={member for members in places.values() for member in members})
    return FoundPictures("", folder, {path.stem: path for path in folder.rglob("*") if path.is_file()})


def _downloaded(limits: Limits, places: Places, folder: Path) -> FoundPictures:
    outcomes = download(places, folder, limits, require_answer=False)
    images = {name: outcome.picture for name, outcome in outcomes.items() if outcome.picture}
    return FoundPictures(
        "", folder, images, {name: str(outcomes[name]) for name in places if name not in images}
    )


@contextmanager
def _cluster() -> Iterator[dict[str, float]]:
    """Connect to the cluster at RAY_ADDRESS, or start one on this machine; yield its resources."""
    # Ray raises many kinds of errors
    with explaining("no connection to Ray", ": start the cluster, or correct RAY_ADDRESS"):
        if ":" in (address := os.environ.get("RAY_ADDRESS", "")):  # Ray would try for a quarter of an hour
            host, _, port = address.rpartition("/")[2].rpartition(":")
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    try:
        yield ray.cluster_resources()
    except ray.exceptions.RayError as error:
        last = str(error).strip().rpartition("\n")[2]  # of the traceback in a worker
        raise UserError(
            f"the Ray workers failed: {one_line(last, 160)}; run the same command again to continue"
        ) from error
    finally:
        ray.shutdown()
