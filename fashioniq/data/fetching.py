"""One address, one file: over HTTP, within limits, patient with servers that are busy and not with files that are gone."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from fashioniq import __version__
from fashioniq.files import UserError, cannot_write

PAUSE = 1.0  # seconds before the second attempt, twice as many before each further one, and up to one more by chance
LONGEST_REST = 120.0  # seconds that a server may ask to be left alone
MAX_REDIRECTS = 5
GIVE_UP = 60.0  # seconds: a host that was silent for longer is not asked again in this run

# A compressed answer could unpack to any size; pictures are compressed already.
HEADERS = {"User-Agent": f"fashioniq/{__version__}", "Accept": "image/*", "Accept-Encoding": "identity"}


@dataclass(frozen=True)
class Limits:
    """Downloads at a time, of them from one host, further attempts, seconds of one attempt, bytes of a file."""

    connections: int = 32
    per_host: int = 16
    retries: int = 4
    timeout: float = 30.0
    max_bytes: int = 20_000_000


class Unfetched(Exception):
    """An address that gave no file: `reason` is dead, broken, or failed where another run may have more luck."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail = reason, detail


class _Busy(Unfetched):
    """To be tried again."""

    def __init__(self, detail: str) -> None:
        super().__init__("failed", detail)


class _Host:
    """What all requests to one server share."""

    def __init__(self, name: str, connections: int) -> None:
        self.slots = asyncio.Semaphore(connections)
        self._name = name
        self._rest_until = 0.0
        self._silent_since: float | None = None
        self.lost, self.why = False, ""  # whether it was silent for long, and how

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

    def silent(self, why: str) -> _Busy:
        """Note that no answer came; the exception to raise."""
        now = time.monotonic()
        self._silent_since = self._silent_since or now
        self.lost = now - self._silent_since > GIVE_UP
        self.why = f"no answer from {self._name}: {why}"
        return _Busy(self.why)


class Fetcher:
    """Fetches files; to be used in an `async with`. `answered` says whether any server has answered."""

    def __init__(self, limits: Limits) -> None:
        self.answered = False
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.connections)
        self._hosts: dict[bytes, _Host] = {}
        pool = httpx.Limits(max_connections=limits.connections, max_keepalive_connections=limits.connections)
        try:
            self._client = httpx.AsyncClient(headers=HEADERS, timeout=None, limits=pool)  # httpx's time-out is for each step, ours for all
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            raise UserError(f"cannot use the network ({error}): look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE") from error
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type(_Busy),
            stop=stop_after_attempt(1 + limits.retries),
            wait=wait_exponential(multiplier=PAUSE, max=60.0) + wait_random(0.0, PAUSE),
            reraise=True,
        )

    async def __aenter__(self) -> "Fetcher":
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._client.aclose()

    async def fetch(self, address: str, path: Path) -> None:
        """Write the file at `address` to `path`. Raises Unfetched, and UserError where it cannot be written."""
        url = _parse(address)
        for _ in range(1 + MAX_REDIRECTS):  # by hand: each host has its limits, and httpx would read the body of a redirect to its end
            retrying = self._retrying.copy()  # it is not for several calls at a time
            further: httpx.URL | None = await retrying(self._request, url, path)
            if further is None:
                return
            url = _parse(str(further))
        raise Unfetched("dead", f"more than {MAX_REDIRECTS} redirects")

    async def _request(self, url: httpx.URL, path: Path) -> httpx.URL | None:
        """One attempt when it is its turn."""
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
        """Write the file, or return the address of a redirect; ends in time."""
        deadline = asyncio.get_running_loop().time() + self._limits.timeout
        response = await self._open(url, host, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                if response.next_request:
                    return response.next_request.url
                _check_status(response, host)
                await self._save(response, path)
        except TimeoutError as error:
            raise _Busy(f"not whole within {self._limits.timeout:g} seconds") from error
        except (httpx.HTTPError, OSError) as error:
            raise _Busy("the connection broke off") from error
        finally:
            await response.aclose()
        return None

    async def _open(self, url: httpx.URL, host: _Host, deadline: float) -> httpx.Response:
        try:
            async with asyncio.timeout_at(deadline):
                response = await self._client.send(self._client.build_request("GET", url), stream=True)
        except TimeoutError as error:
            raise host.silent(f"none within {self._limits.timeout:g} seconds") from error
        except (httpx.HTTPError, OSError) as error:
            raise host.silent(str(error)[:120] or type(error).__name__) from error
        except Exception as error:  # the clients below fail in many ways on odd addresses, and none may stop a run
            raise Unfetched("dead", f"cannot be asked for: {type(error).__name__}") from error
        self.answered = True
        host.answered()
        return response

    async def _save(self, response: httpx.Response, path: Path) -> None:
        size = 0
        with ExitStack() as stack:
            with writing(path):
                file = stack.enter_context(open(path, "wb", buffering=0))  # a buffer could fail once more when it is closed
            async for chunk in response.aiter_raw():  # nothing is unpacked: a few bytes could become gigabytes
                size += len(chunk)
                if size > self._limits.max_bytes:
                    raise Unfetched("broken", f"larger than {self._limits.max_bytes / 1e6:g} MB")
                with writing(path):
                    while chunk:
                        chunk = chunk[file.write(chunk) :]


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise UserError for what fails with `path` inside, which is not the network's fault."""
    try:
        yield
    except OSError as error:
        raise cannot_write(path, error) from error


def _parse(address: str) -> httpx.URL:
    try:
        url = httpx.URL(address)
        if url.scheme in ("http", "https") and url.host:
            return url
    except (httpx.InvalidURL, ValueError):
        pass
    raise Unfetched("dead", "not an http or https address")


def _check_status(response: httpx.Response, host: _Host) -> None:
    status = response.status_code
    if status in (408, 429) or status >= 500:
        host.rest(asked_rest(response.headers.get("Retry-After", "")))
        raise _Busy(str(status))
    if not response.is_success:
        raise Unfetched("dead", str(status))


def asked_rest(value: str) -> float:
    """The seconds that a Retry-After header asks for, as a number or as a date, within reason."""
    try:
        seconds = int(value) if value.isdecimal() else parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0
    return float(min(max(seconds, 0), LONGEST_REST))
