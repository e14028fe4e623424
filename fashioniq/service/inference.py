"""One thread that runs the models, fed by a bounded queue.

Torch works in this thread only: a model uses process-wide settings of torch, and two threads on one core are slower
than one. Dialogs that wait together are searched together, in one matrix product for all.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, TimeoutError as Late
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fashioniq.data.cards import Product
from fashioniq.loop.dialog import Dialog
from fashioniq.loop.gallery import EngineError
from fashioniq.loop.query import Query
from fashioniq.loop.rollout import System
from fashioniq.service.problems import Problem

WAITING = 64  # jobs that may wait
TOGETHER = 16  # jobs that are taken at once
PATIENCE = 10.0  # seconds after which a waiting request is given up
ENDED = 600.0  # seconds for other work of a request, and for the last job, which may wait for the loading of a model
log = logging.getLogger("fashioniq.service")


@dataclass
class _Job:
    """The search of `count` products for the dialog that `work` returns; or any other work, without a `count`."""

    work: Callable[[], Any]
    count: int = 0
    allowed_N: Tensor | None = None
    done: "Future[Any]" = field(default_factory=Future)


class Inference:
    """The thread and its queue. `largest` is the largest number of searches that were done together."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._jobs: queue.Queue[_Job | None] = queue.Queue(waiting)
        self.largest = 0
        self._thread = threading.Thread(target=self._run, name="inference", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of jobs that wait."""
        return self._jobs.qsize()

    def search(
        self, live: Callable[[], Dialog], count: int, allowed_N: Tensor | None
    ) -> tuple[Dialog, list[Product]]:
        """Return the dialog and the products nearest to its query, among the allowed ones.

        Raises Problem if too many requests wait or the search engine fails, and whatever `live` raises.
        """
        (found,) = self.search_each([(live, count, allowed_N)])
        if isinstance(found, Exception):
            raise found
        return found

    def search_each(
        self, searches: Sequence[tuple[Callable[[], Dialog], int, Tensor | None]]
    ) -> list[tuple[Dialog, list[Product]] | Exception]:
        """Results of searches that wait together, in order; of one that fails, what `search` raises instead."""
        jobs, found = [_Job(*one) for one in searches], list[tuple[Dialog, list[Product]] | Exception]()
        for job in jobs:
            self._add(job)
        for job in jobs:
            try:
                found.append(self._result(job, PATIENCE))
            except Exception as error:
                found.append(error)
        return found

    def call(self, work: Callable[[], Any], seconds: float = ENDED) -> Any:
        """Return the result of other work, such as loading a model.

        Raises Problem if too many requests wait, or if it takes longer than `seconds`, and whatever `work` raises.
        """
        job = _Job(work)
        self._add(job)
        return self._result(job, seconds)

    def close(self) -> None:
        """End the thread after the jobs that wait. Raises TimeoutError if they do not end."""
        with suppress(queue.Full):
            self._jobs.put(None, timeout=ENDED)
            self._thread.join(ENDED)
        if self._thread.is_alive():
            raise TimeoutError(f"the models have not completed their last work within {ENDED:g} seconds")

    def _add(self, job: _Job) -> None:
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            raise Problem("busy", retry_after=1) from None

    def _result(self, job: _Job, seconds: float) -> Any:
        try:
            return job.done.result(seconds)
        except EngineError as error:
            log.warning("%s", error)
            raise Problem("engine", retry_after=5) from None
        except Late:
            job.done.cancel()
            raise Problem("busy", retry_after=2) from None

    def _run(self) -> None:
        with torch.inference_mode():
            while True:
                jobs = [self._jobs.get()]
                while len(jobs) < TOGETHER:
                    try:
                        jobs.append(self._jobs.get_nowait())
                    except queue.Empty:
                        break
                self._do([job for job in jobs if job and job.done.set_running_or_notify_cancel()])
                if None in jobs:
                    return

    def _do(self, jobs: list[_Job]) -> None:
        ready: list[tuple[_Job, Dialog]] = []
        for job in jobs:
            try:
                found = job.work()
                if job.count:
                    ready.append((job, found))
                else:
                    job.done.set_result(found)
            except BaseException as error:
                job.done.set_exception(error)
        groups: dict[tuple[int, int], list[tuple[_Job, Dialog]]] = {}
        for job, live in ready:
            groups.setdefault((id(live.system), id(job.allowed_N)), []).append((job, live))
        for group in groups.values():
            self._search(group[0][1].system, group)

    def _search(self, system: System, group: list[tuple[_Job, Dialog]]) -> None:
        """Search the dialogs of one system with one mask together."""
        self.largest = max(self.largest, len(group))
        try:
            query = Query.joined([live.query for _, live in group])
            found = system.nearest(
                query,
                max(job.count for job, _ in group),
                group[0][0].allowed_N,
                _padded([live.exclude_1K for _, live in group]),
            )
        except BaseException as error:
            for job, _ in group:
                job.done.set_exception(error)
            return
        for (job, live), products in zip(group, found, strict=True):
            job.done.set_result((live, products[: job.count]))


def _padded(left_out: Sequence[Tensor | None]) -> Tensor | None:
    """Products that are left out of each search, B×K, padded with −1, which is no product."""
    if all(one_1K is None for one_1K in left_out):
        return None
    none_0 = next(one_1K[0, :0] for one_1K in left_out if one_1K is not None)
    rows = [none_0 if one_1K is None else one_1K[0] for one_1K in left_out]
    return pad_sequence(rows, batch_first=True, padding_value=-1)
