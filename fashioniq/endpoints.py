"""Any OpenAI-compatible server of language models: patient with servers that are busy, and asked nothing twice.

Its address and key come from the environment, OPENAI_BASE_URL and OPENAI_API_KEY; the key is never told or written.
"""

import asyncio
import base64
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt, wait_exponential

from fashioniq import __version__
from fashioniq.data.fetching import asked_rest
from fashioniq.files import UserError, read_json, write_json

BASE, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
PAUSE = 1.0  # seconds before the second attempt, twice as many before each further one
MOST_BYTES = 10_000_000  # of an answer


class _Busy(Exception):
    """To be tried again, after `rest` seconds at least."""

    def __init__(self, detail: str, rest: float = 0.0) -> None:
        super().__init__(detail)
        self.rest = rest


class Endpoint:
    """A model of the server. Answers lie in the folder `cache` by what was asked: a run can be repeated without the server.

    Raises UserError where the server cannot be asked, refuses, or gives no answer in all attempts.
    """

    def __init__(self, model: str, cache: Path, retries: int = 4, timeout: float = 60.0, connections: int = 4) -> None:
        self.model, self.cache, self.timeout = model, cache, timeout
        self._attempts, self._connections = 1 + retries, connections

    def complete(self, prompts: Sequence[str], tokens: int, pictures: Sequence[bytes] | None = None) -> list[str]:
        """What the model says to each prompt, with its JPEG picture where there are any; empty where it says nothing."""
        bodies = [self._body(prompt, tokens, pictures[place] if pictures else None) for place, prompt in enumerate(prompts)]
        paths = {name: self.cache / name[:2] / f"{name}.json" for name in map(_name, bodies)}
        missing = {_name(body): body for body in bodies if not paths[_name(body)].exists()}
        fresh = asyncio.run(self._ask_all(missing, paths)) if missing else {}
        return [fresh[name] if (name := _name(body)) in fresh else _read(paths[name]) for body in bodies]

    def _body(self, prompt: str, tokens: int, picture: bytes | None) -> dict[str, Any]:
        content: Any = prompt
        if picture is not None:
            address = "data:image/jpeg;base64," + base64.b64encode(picture).decode()
            content = [{"type": "text", "text": prompt}, {"type": "image_url", "image_url": {"url": address}}]
        return {"model": self.model, "messages": [{"role": "user", "content": content}], "max_tokens": tokens, "temperature": 0}

    async def _ask_all(self, bodies: dict[str, dict[str, Any]], paths: dict[str, Path]) -> dict[str, str]:
        base, headers = _server()
        slots = asyncio.Semaphore(self._connections)
        retrying = AsyncRetrying(retry=retry_if_exception_type(_Busy), stop=stop_after_attempt(self._attempts), wait=_wait, reraise=True)

        async def ask(name: str, client: httpx.AsyncClient) -> str:
            async with slots:
                try:
                    text: str = await retrying.copy()(self._attempt, client, bodies[name])
                except _Busy as error:
                    attempts = "1 attempt" if self._attempts == 1 else f"{self._attempts} attempts"
                    raise UserError(f"{base.host} gave no answer in {attempts} ({error}): run the same command again, answers are kept") from error
            write_json(paths[name], {"model": self.model, "text": text})  # silence too: the run can then be repeated
            return text

        try:  # one deadline for all of an attempt instead of httpx's for each step; redirects, which could take the key along, are not followed
            opened = httpx.AsyncClient(base_url=base, headers=headers, timeout=None)
        except (ImportError, OSError, ValueError) as error:
            raise UserError("cannot use the network: look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE") from error
        async with opened as client:
            tasks = [asyncio.ensure_future(ask(name, client)) for name in bodies]
            try:
                return dict(zip(bodies, await asyncio.gather(*tasks), strict=True))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _attempt(self, client: httpx.AsyncClient, body: dict[str, Any]) -> str:
        try:
            async with asyncio.timeout(self.timeout), client.stream("POST", "chat/completions", json=body) as response:
                status, content = response.status_code, await _content(response)
        except TimeoutError as error:
            raise _Busy(f"not whole within {self.timeout:g} seconds") from error
        except (httpx.HTTPError, OSError) as error:
            raise _Busy(f"no answer: {type(error).__name__}") from error
        if status in (408, 429) or status >= 500:
            raise _Busy(str(status), asked_rest(response.headers.get("Retry-After", "")))
        if not response.is_success:
            raise UserError(f"{response.url.host} refused with {status}: look at {BASE}, {KEY} and the model's name, {self.model!r}")
        return _said(content)


def _name(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read(path: Path) -> str:
    kept = read_json(path, "a kept answer", dict)
    if not isinstance(kept.get("text"), str):
        raise UserError(f"{path} holds no answer: remove the file")
    return kept["text"]


def _server() -> tuple[httpx.URL, dict[str, str]]:
    try:
        base = httpx.URL(os.environ.get(BASE, ""))
    except httpx.InvalidURL:
        base = httpx.URL("")
    if base.scheme not in ("http", "https") or not base.host:
        raise UserError(f"not all answers are kept, and {BASE} names no server: set it, as https://example.org/v1, and {KEY} where it needs one")
    headers = {"User-Agent": f"fashioniq/{__version__}"}
    if key := os.environ.get(KEY, "").strip():
        if not (key.isascii() and key.isprintable()):
            raise UserError(f"{KEY} holds characters that no key has: set it anew")
        headers["Authorization"] = f"Bearer {key}"
    return base, headers


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    return max(wait_exponential(multiplier=PAUSE, max=60.0)(state), error.rest if isinstance(error, _Busy) else 0.0)


async def _content(response: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise _Busy(f"an answer of more than {MOST_BYTES / 1e6:g} MB")
    return b"".join(parts)


def _said(content: bytes) -> str:
    try:
        text = json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _Busy("an answer of another form") from error
    return text.encode(errors="replace").decode() if isinstance(text, str) else ""  # a cut text may end with half a character
