"""Client for language models on OpenAI-compatible servers, with a cache on disk. Needs the extra `chat`.

The server address and key come from OPENAI_BASE_URL and OPENAI_API_KEY; the key is never printed or written.
The `openai` client handles retries, Retry-After and request headers. Its HTTP client additionally limits the
time of an attempt and the size and form of an answer; violations are retried like network errors.
"""

import asyncio
import base64
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from fashioniq.files import UserError, explaining
from fashioniq.http import USER_AGENT, Reply, Unfetched, open_client
from fashioniq.llm.completer import (
    Answer,
    Sampling,
    is_count,
    keep_answer,
    name_of,
    read_answer,
    without_reasoning,
)

BASE, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
ENDPOINT = "endpoint:"  # before the name of a model on a server
MOST_BYTES = 10_000_000  # maximum size of an answer
CACHE = Path("runs/endpoint-cache")  # answers; cached requests are not sent again
BLOCKED = ("moderation_blocked", "content_policy_violation", "content_filter")  # codes of refused prompts


class Endpoint:
    """Model on a server.

    Answers are cached by request in the folder `cache`, so that runs can be repeated offline. `tokens` counts those
    of all prompts and answers as the server reports them, cached ones included.

    Sampled answers depend on `seed`. Raises UserError if the server cannot be reached, refuses, or does not answer in
    all attempts.
    """

    def __init__(
        self,
        model: str,
        cache: Path | None = None,
        retries: int = 4,
        timeout: float = 60.0,
        connections: int = 4,
        sampling: Sampling = Sampling(),  # noqa: B008
        seed: int = 0,
    ) -> None:
        self.model, self.cache, self.timeout, self.retries = model, cache or CACHE, timeout, retries
        self._connections, self._sampling, self._seed = connections, sampling, seed
        self.tokens = {"prompt": 0, "answer": 0}

    def complete(
        self, prompts: Sequence[str], tokens: int, pictures: Sequence[Sequence[bytes]] | None = None
    ) -> list[str]:
        """Answers to the prompts, each with its JPEG pictures if `pictures` are given.

        `tokens` limits the length of an answer. The text of a refused prompt is empty.
        """
        return [answer.text for answer in self.answers(prompts, tokens, pictures)]

    def answers(
        self, prompts: Sequence[str], tokens: int, pictures: Sequence[Sequence[bytes]] | None = None
    ) -> list[Answer]:
        """Answers as `complete` returns them, with their tokens."""
        bodies = [
            self._body(prompt, tokens, pictures[number] if pictures else ())
            for number, prompt in enumerate(prompts)
        ]
        names = list(map(name_of, bodies))
        paths = {name: self.cache / name[:2] / f"{name}.json" for name in names}
        missing = {name: body for name, body in zip(names, bodies, strict=True) if not paths[name].exists()}
        fresh = asyncio.run(self._ask_all(missing, paths)) if missing else {}
        answers = {name: fresh[name] if name in fresh else read_answer(path) for name, path in paths.items()}
        for answer in answers.values():
            for name in self.tokens:
                self.tokens[name] += answer.tokens.get(name, 0)
        return [answers[name]._replace(text=without_reasoning(answers[name].text)) for name in names]

    def _body(self, prompt: str, tokens: int, pictures: Sequence[bytes]) -> dict[str, Any]:
        content: Any = prompt
        if pictures:
            addresses = ("data:image/jpeg;base64," + base64.b64encode(one).decode() for one in pictures)
            parts = [{"type": "image_url", "image_url": {"url": address}} for address in addresses]
            content = [{"type": "text", "text": prompt}, *parts]
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": "user", "content": content}],
            "max_tokens": tokens,
            "temperature": self._sampling.temperature or 0,  # an integer, as in the keys of cached answers
        }
        if self._sampling.temperature:
            # OpenAI's API has no such penalty; vLLM and others take it under this name
            penalty = {"repetition_penalty": self._sampling.repetition_penalty}
            body |= {"top_p": self._sampling.top_p, "extra_body": penalty}
            body |= {"seed": self._seed} if self._seed else {}  # none for 0, as in the keys of cached answers
        return body

    async def _ask_all(self, bodies: dict[str, dict[str, Any]], paths: dict[str, Path]) -> dict[str, Answer]:
        slots = asyncio.Semaphore(self._connections)

        async def ask(name: str, client: Any) -> Answer:
            async with slots:
                answer = await self._ask(client, bodies[name])
            keep_answer(paths[name], self.model, answer)
            return answer

        async with open_endpoint(self.retries, self.timeout, _flaw, MOST_BYTES) as client:
            tasks = [asyncio.ensure_future(ask(name, client)) for name in bodies]
            try:
                return dict(zip(bodies, await asyncio.gather(*tasks), strict=True))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _ask(self, client: Any, body: dict[str, Any]) -> Answer:
        openai, host = _openai(), client.base_url.host
        try:
            answer = await client.chat.completions.create(**body, extra_headers=key_headers())
        except openai.APIConnectionError as error:
            raise self._unanswered(host, reason(error)) from error
        except openai.APIStatusError as error:
            status = error.status_code
            if is_retried(status):
                # `from None`: the error quotes the server, which may quote the key
                raise self._unanswered(host, str(status)) from None
            if status == 400 and blocked(error):
                return Answer("", {}, refused=True)
            raise refused(host, status, self.model) from None
        choice = answer.choices[0]
        text = choice.message.content
        declined = getattr(choice, "finish_reason", "") == "content_filter" or bool(
            getattr(choice.message, "refusal", None)
        )
        # truncated text may end within a surrogate pair
        text = text.encode(errors="replace").decode() if isinstance(text, str) else ""
        counts = (getattr(answer.usage, f"{name}_tokens", None) for name in ("prompt", "completion"))
        known = {name: count for name, count in zip(self.tokens, counts, strict=True) if is_count(count)}
        return Answer("" if declined else text, known, declined)

    def _unanswered(self, host: str, why: str) -> UserError:
        attempts = "1 attempt" if self.retries == 0 else f"at most {1 + self.retries} attempts"
        return UserError(
            f"no answer from {host} in {attempts} ({why}); run the same command again, "
            "earlier answers are cached"
        )


def open_endpoint(retries: int, timeout: float, flaw: Callable[[bytes], str], most_bytes: int) -> Any:
    """Create an `openai.AsyncOpenAI` client of the server in OPENAI_BASE_URL; the library's default is OpenAI.

    An attempt ends after `timeout` seconds. Answers with a `flaw`, a few words, or more than `most_bytes` are
    retried like network errors: `reason` then gives it, and `is_late` whether it is the time.
    """
    openai, base, key = _openai(), _base(), api_key()
    # Redirects could take the key to another server, and a compressed answer could unpack to any size.
    http = open_client(
        _Limited, follow_redirects=False, timeout=None, headers={"Accept-Encoding": "identity"}
    )
    http.seconds, http.flaw, http.most_bytes = timeout, flaw, most_bytes
    return openai.AsyncOpenAI(
        base_url=base,
        api_key=key or "none",
        max_retries=retries,
        timeout=None,
        default_headers={"User-Agent": USER_AGENT},
        http_client=http,
    )


def key_headers() -> dict[str, Any]:
    """Headers of a request that keep the client from sending a key where there is none."""
    return {} if api_key() else {"Authorization": _openai().Omit()}


def is_retried(status: int) -> bool:
    """Whether the client repeats a request after this status."""
    return status in (408, 409, 429) or status >= 500


def blocked(error: Any) -> str:
    """Code of an openai.APIStatusError of a server that refuses the content of a prompt; empty for other errors."""
    return next((code for code in BLOCKED if code in (error.code, error.type)), "")


def refused(host: str, status: int, model: str) -> UserError:
    """Error for a request that the server refused, without quoting it: it may quote the key."""
    hint = f"check {BASE}, {KEY} and the model name {model!r}"
    return UserError(f"{host} refused the request with status {status}; {hint}")


class _Limited(httpx.AsyncClient):
    """HTTP client with a time limit that rejects answers that are too large, compressed or malformed."""

    seconds: float
    most_bytes: int
    flaw: Callable[[bytes], str]

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request and read the JSON body.

        Raises httpx.RequestError, which the `openai` client retries.
        """
        try:
            async with asyncio.timeout(self.seconds):
                response = await super().send(request, **{**options, "stream": True})
                try:
                    content = await _content(response, self.most_bytes)
                finally:
                    await response.aclose()
        except TimeoutError as error:
            raise _Late(f"not complete within {self.seconds:g} seconds", request=request) from error
        if response.is_success and (flaw := self.flaw(content)):
            raise _Unusable(flaw, request=request)
        kept = {
            name: value
            for name, value in response.headers.items()
            if name.startswith(("retry-after", "x-should-retry"))
        }
        headers = {**kept, "Content-Type": "application/json"}
        return httpx.Response(response.status_code, headers=headers, content=content, request=request)


class _Unusable(httpx.RequestError):
    """Unusable response; the message is the reason."""


class _Late(_Unusable):
    """Response that was not complete in time."""


async def _content(response: httpx.Response, most_bytes: int) -> bytes:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise _Unusable("compressed answer, although not requested", request=response.request)
    try:
        return b"".join([part async for part in Reply(response, most_bytes).chunks()])
    except Unfetched as error:
        raise _Unusable(f"answer {error.detail}", request=response.request) from error


def _flaw(content: bytes) -> str:
    try:
        json.loads(content)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "malformed answer"
    return ""


def is_late(error: Exception) -> bool:
    """Whether the last attempt of a request ended because its time was over."""
    return isinstance(error.__cause__, _Late)


def reason(error: Exception) -> str:
    """Reason of a connection error of the client: what was unusable, or the name of the network error."""
    cause = error.__cause__
    return str(cause) if isinstance(cause, _Unusable) else f"{type(cause or error).__name__}"


def _openai() -> Any:
    with explaining("endpoint: needs the package openai", "; pip install 'fashioniq[chat]'", ImportError):
        import openai
    return openai


def _base() -> str:
    try:
        base = httpx.URL(os.environ.get(BASE, ""))
    except httpx.InvalidURL:
        base = httpx.URL("")
    if base.scheme not in ("http", "https") or not base.host:
        advice = f"set it, for example to https://example.org/v1, and {KEY} if the server needs a key"
        raise UserError(
            f"not all answers are in the cache, and {BASE} is not set to a server address; {advice}"
        )
    return str(base)


def api_key() -> str:
    """Key of the server, empty if there is none. Raises UserError for one that cannot be sent."""
    key = os.environ.get(KEY, "").strip()
    if key and not (key.isascii() and key.isprintable()):
        raise UserError(f"{KEY} contains characters that are not allowed in a key; set it again")
    return key
