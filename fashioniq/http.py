"""One patient HTTP client: time-outs, retries, Retry-After, redirects and size limits for all downloads.

The retry loop is our own because a retry has to cover the body of a response too, and a Retry-After has to
pause the requests to that host and to no other one. Libraries that retry in the transport
of httpx see neither.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from random import random
from typing import Any, Self, TypeVar

import httpx

from fashioniq import __version__
from fashioniq.files import explaining, why

PAUSE = 1.0  # seconds before the second attempt, doubled before each further one, plus up to PAUSE at random
LONGEST_PAUSE = 60.0  # seconds
LONGEST_REST = 120.0  # seconds: limit on Retry-After
MAX_REDIRECTS = 5
USER_AGENT = f"fashioniq/{__version__}"

T = TypeVar("T")


@dataclass(frozen=True)
class Policy:
    """Limits of a request."""

    retries: int = 4  # further attempts
    timeout: float = 30.0  # seconds of one attempt, with its body
    silence: float | None = None  # seconds without a byte
    max_bytes: int = 20_000_000  # of a body


class Unfetched(Exception):
    """An address without a usable file.

    `reason` is "dead", "broken", or "failed" where a later run may succeed.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class Busy(Unfetched):
    """A failure to be retried after at least `rest` seconds."""

    def __init__(self, detail: str, rest: float = 0.0) -> None:
        super().__init__("failed", detail)
        self.rest = rest


class NoAnswer(Busy):
    """No response within the time limit of an attempt."""


@dataclass
class Reply:
    """A response whose body has not been read yet."""

    response: httpx.Response
    max_bytes: int
    size: int = field(default=0, init=False)  # bytes read so far

    @property
    def redirect(self) -> httpx.URL | None:
        """Target of a redirect, or None."""
        return self.response.next_request.url if self.response.next_request else None

    def check(self) -> None:
        """Raise Busy or Unfetched unless the response contains the file."""
        status = self.response.status_code
        if status in (408, 429) or status >= 500:
            raise Busy(str(status), asked_rest(self.response.headers.get("Retry-After", "")))
        if not self.response.is_success:
            raise Unfetched("dead", str(status))

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it was sent: decompressing could turn a few bytes into gigabytes.

        Raises Unfetched above the size limit.
        """
        async for chunk in self.response.aiter_raw():
            self.size += len(chunk)
            if self.size > self.max_bytes:
                raise Unfetched("broken", f"larger than {self.max_bytes / 1e6:g} MB")
            yield chunk


class Client:
    """Client for requests of one attempt each, within the limits of a policy.

    Use it in an `async with` statement.
    """

    def __init__(self, policy: Policy, headers: dict[str, str] | None = None, connections: int = 1) -> None:
        self._policy = policy
        pool = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        sent = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity", **(headers or {})}
        self._client = open_client(httpx.AsyncClient, headers=sent, timeout=policy.silence, limits=pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    @asynccontextmanager
    async def send(self, url: httpx.URL, content: Any = None) -> AsyncIterator[Reply]:
        """One attempt, which has to end, body included, within the policy's `timeout`.

        It is a GET, or with `content` a POST of it as JSON. Redirects are not followed.

        Raises NoAnswer without a response, Busy where the connection breaks or time is up, Unfetched where
        the request is impossible.
        """
        deadline = asyncio.get_running_loop().time() + self._policy.timeout
        response = await self._send(url, content, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                yield Reply(response, self._policy.max_bytes)
        except TimeoutError as error:
            raise Busy(f"not whole within {self._policy.timeout:g} seconds") from error
        except httpx.TimeoutException as error:
            raise Busy(f"no byte within {self._policy.silence:g} seconds") from error
        except (httpx.HTTPError, OSError) as error:
            raise Busy("the connection broke off") from error
        finally:
            await response.aclose()

    async def _send(self, url: httpx.URL, content: Any, deadline: float) -> httpx.Response:
        method = "GET" if content is None else "POST"
        try:
            async with asyncio.timeout_at(deadline):
                request = self._client.build_request(method, url, json=content)
                return await self._client.send(request, stream=True)
        except (TimeoutError, httpx.TimeoutException) as error:
            seconds = min(self._policy.silence or self._policy.timeout, self._policy.timeout)
            raise NoAnswer(f"none within {seconds:g} seconds") from error
        except (httpx.HTTPError, OSError) as error:
            raise NoAnswer(why(error, 120)) from error
        except Exception as error:  # httpx and its dependencies raise many kinds of errors for odd addresses
            raise Unfetched("dead", f"cannot be asked for: {type(error).__name__}") from error


def open_client(kind: Callable[..., T], **options: Any) -> T:
    """Create an httpx client.

    Raises UserError if proxies or certificates in the environment cannot be used.
    """
    with explaining(
        "cannot use the network",
        ": check HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE",
        (ImportError, OSError, ValueError, httpx.InvalidURL),
    ):
        return kind(**options)


async def retried(attempt: Callable[[], Awaitable[T]], retries: int) -> T:
    """Result of the first attempt that does not raise Busy. Raises the Busy of the last attempt."""
    for number in range(retries):
        try:
            return await attempt()
        except Busy as error:
            rest = error.rest
        pause = min(PAUSE * 2 ** min(number, 30), LONGEST_PAUSE) + PAUSE * random()
        await asyncio.sleep(max(pause, rest))
    return await attempt()


async def follow(address: str, visit: Callable[[httpx.URL], Awaitable[httpx.URL | None]]) -> None:
    """Visit an address, and those that it redirects to, over http and https alone.

    Raises Unfetched after MAX_REDIRECTS.

    Redirects are not left to httpx: each host has limits of its own, and httpx reads the body of a redirect
    to its end.
    """
    url = parse(address)
    for _ in range(1 + MAX_REDIRECTS):
        further = await visit(url)
        if further is None:
            return
        url = parse(str(further))
    raise Unfetched("dead", f"more than {MAX_REDIRECTS} redirects")


def parse(address: str) -> httpx.URL:
    """Parse an http or https address. Raises Unfetched for any other text."""
    try:
        url = httpx.URL(address)
        if url.scheme in ("http", "https") and url.host:
            return url
    except (httpx.InvalidURL, ValueError):
        pass
    raise Unfetched("dead", "not an http or https address")


def asked_rest(value: str) -> float:
    """Seconds in a Retry-After header, given as a number or a date; at most LONGEST_REST."""
    try:
        seconds = int(value) if value.isdecimal() else parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return float(min(max(seconds, 0), LONGEST_REST))
