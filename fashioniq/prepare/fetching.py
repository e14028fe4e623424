"""Pictures by their addresses, with a limited number of requests at a time and for each host."""

import asyncio
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from fashioniq.files import writing
from fashioniq.http import Busy, Client, NoAnswer, Policy, Reply, Unfetched, follow, retried

GIVE_UP = 60.0  # seconds: a host that was silent for longer is not asked again in this run


@dataclass(frozen=True)
class Limits:
    """Limits of a download."""

    connections: int = 32  # at a time
    per_host: int = 16  # at a time
    retries: int = 4  # further attempts
    timeout: float = 30.0  # seconds of one attempt
    max_bytes: int = 20_000_000  # of a file


class _Host:
    """What all requests to one server share."""

    def __init__(self, name: str, connections: int) -> None:
        self.slots = asyncio.Semaphore(connections)
        self._name = name
        self._rest_until = 0.0
        self._silent_since: float | None = None
        self.lost, self.why = False, ""  # whether the host was silent for long, and the last error

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
        """Note that no answer came; the exception to raise."""
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        self.lost = now - self._silent_since > GIVE_UP
        self.why = f"no answer from {self._name}: {why}"
        return Busy(self.why)


class Fetcher:
    """Fetches files; to be used in an `async with`. `answered` says whether any server has answered."""

    def __init__(self, limits: Limits) -> None:
        self.answered = False
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.connections)
        self._hosts: dict[bytes, _Host] = {}
        policy = Policy(retries=limits.retries, timeout=limits.timeout, max_bytes=limits.max_bytes)
        self._client = Client(policy, {"Accept": "image/*"}, limits.connections)

    async def __aenter__(self) -> "Fetcher":
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._client.__aexit__(*raised)

    async def fetch(self, address: str, path: Path) -> None:
        """Write the file at `address` to `path`.

        Raises Unfetched, and UserError where it cannot be written.
        """
        await follow(address, lambda url: retried(partial(self._in_turn, url, path), self._limits.retries))

    async def _in_turn(self, url: httpx.URL, path: Path) -> httpx.URL | None:
        """One attempt, once the host has a free slot and rests no longer."""
        host = self._hosts.setdefault(url.netloc, _Host(url.host, self._limits.per_host))
        async with host.slots:
            while True:
                await host.rested()  # without one of the slots that all hosts share
                async with self._slots:
                    if host.lost:
                        raise Unfetched("failed", host.why)
                    if not host.resting:
                        return await self._attempt(url, path, host)

    async def _attempt(self, url: httpx.URL, path: Path, host: _Host) -> httpx.URL | None:
        """Write the file, or return the address of a redirect."""
        try:
            async with self._client.get(url) as reply:
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
            file = stack.enter_context(open(path, "wb", buffering=0))  # closing a buffer could fail once more
        async for chunk in reply.chunks():
            with writing(path):
                while chunk:
                    chunk = chunk[file.write(chunk) :]
