"""Downloads of pictures, with a limited number of simultaneous requests in total and per host."""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from fashioniq.files import writing
from fashioniq.http import Busy, Client, NoAnswer, Policy, Reply, Unfetched, follow, retried

GIVE_UP = 60.0  # seconds without a response after which a host is skipped for the rest of the run


@dataclass(frozen=True)
class Limits(Policy):
    """Limits of a download."""

    connections: int = 32  # simultaneous requests
    per_host: int = 16  # simultaneous requests to one host


class _Host:
    """State shared by all requests to one host."""

    def __init__(self, name: str, connections: int) -> None:
        self.slots = asyncio.Semaphore(connections)
        self._name = name
        self._rest_until = 0.0
        self._silent_since: float | None = None
        self.lost, self.why = (
            False,
            "",
        )  # whether the host has not responded for GIVE_UP seconds, and the last error

    def rest(self, seconds: float) -> None:
        self._rest_until = max(self._rest_until, time.monotonic() + seconds)

    @property
    def resting(self) -> bool:
        return time.monotonic() < self._rest_until

    async def rested(self) -> None:
        while self.resting:
            await asyncio.sleep(self._rest_until - time.monotonic())

    def answered(self) -> None:
        self._silent_since, self.lost = None, False

    def silent(self, why: str) -> Busy:
        """Record that there was no response, and return the exception to raise."""
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        self.lost = now - self._silent_since > GIVE_UP
        self.why = f"no answer from {self._name}: {why}"
        return Busy(self.why)


class Fetcher(Client):
    """Client that saves files. `answered` is true if any server has responded."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, {"Accept": "image/*"}, limits.connections)
        self.answered = False
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.connections)
        self._hosts: dict[bytes, _Host] = {}

    async def fetch(self, address: str, path: Path) -> None:
        """Write the file at `address` to `path`.

        Raises Unfetched if the download fails, and UserError if the file cannot be written.
        """
        await follow(address, lambda url: retried(partial(self._in_turn, url, path), self._limits.retries))

    async def _in_turn(self, url: httpx.URL, path: Path) -> httpx.URL | None:
        """Make one attempt as soon as the host has a free slot and its Retry-After has passed."""
        host = self._hosts.setdefault(url.netloc, _Host(url.host, self._limits.per_host))
        async with host.slots:
            while True:
                await host.rested()  # does not occupy one of the slots shared by all hosts
                async with self._slots:
                    if host.lost:
                        raise Unfetched("failed", host.why)
                    if not host.resting:
                        return await self._attempt(url, path, host)

    async def _attempt(self, url: httpx.URL, path: Path, host: _Host) -> httpx.URL | None:
        """Save the file, or return the target of a redirect."""
        try:
            async with self.send(url) as reply:
                self.answered = True
                host.answered()
                if reply.redirect:
                    return reply.redirect
                reply.check()
                await _save(reply, path)
        except NoAnswer as error:
            raise host.silent(error.detail) from error
        except Busy as error:
            host.rest(error.rest)
            raise
        return None


async def _save(reply: Reply, path: Path) -> None:
    with ExitStack() as stack:
        with writing(path):
            # unbuffered, because flushing on close could fail again
            file = stack.enter_context(open(path, "wb", buffering=0))
        async for chunk in reply.chunks():
            with writing(path):
                while chunk:
                    chunk = chunk[file.write(chunk) :]
