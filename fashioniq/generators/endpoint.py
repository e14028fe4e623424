"""Generators of pictures on OpenAI-compatible servers. Needs the extra `chat`.

The server address and key come from OPENAI_BASE_URL and OPENAI_API_KEY, as for language models.
"""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

import httpx

from fashioniq.data.images import UnreadableImage, decode_image
from fashioniq.data.parts import PartInputs
from fashioniq.files import UserError, one_line
from fashioniq.generators.pictures import Generated, PictureRequest, checked_picture
from fashioniq.http import Client, Policy, Unfetched, follow, retried
from fashioniq.llm.endpoint import blocked, is_late, is_retried, key_headers, open_endpoint, reason, refused

MOST_BYTES = 40_000_000  # maximum size of an answer, and of a picture


class PictureEndpoint:
    """Model on a server, without seeds: each request makes a new picture.

    `size` is the side of the pictures in pixels, None for the default of the server. `timeout` are seconds of
    one attempt.
    """

    def __init__(
        self,
        model: str,
        size: int | None = 1024,
        retries: int = 4,
        timeout: float = 180.0,
        connections: int = 4,
    ) -> None:
        self.model, self.size, self.retries, self.timeout = model, size, retries, timeout
        self._connections, self._worked = connections, False
        self.identity: Mapping[str, Any] = {"backend": "endpoint", "model": model, "size": size}

    def generate(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        """Generate the pictures, several at a time.

        Raises UserError without a single picture if the server cannot be reached or refuses the key or the
        model, or if nothing has worked before.
        """
        outcomes = asyncio.run(self._generate_all(requests)) if requests else []
        self._worked = self._worked or any(one.status not in ("error", "timeout") for one in outcomes)
        if outcomes and not self._worked:
            first = outcomes[0].reason
            raise UserError(f"the model {self.model!r} generates no pictures ({first}); check its settings")
        return outcomes

    async def _generate_all(self, requests: Sequence[PictureRequest]) -> list[Generated]:
        slots, refusals = asyncio.Semaphore(self._connections), list[UserError]()
        policy = Policy(self.retries, self.timeout, max_bytes=MOST_BYTES)

        async def generate(request: PictureRequest) -> Generated:
            prompt = request.prompt.encode(errors="replace").decode()  # half a surrogate pair is not JSON
            outcome = Generated(None, "error", None, prompt)
            async with slots:
                began = monotonic()
                try:
                    if not refusals:  # others would be refused as well
                        outcome = await self._generate(client, web, outcome)
                except UserError as error:
                    refusals.append(error)
                if refusals and outcome.picture is None and not outcome.reason:
                    outcome = outcome._replace(reason=str(refusals[0]))
                return outcome._replace(seconds=monotonic() - began)

        async with (
            open_endpoint(self.retries, self.timeout, _flaw, MOST_BYTES) as client,
            Client(policy, connections=self._connections) as web,
        ):
            outcomes = await asyncio.gather(*map(generate, requests))
        if refusals and not any(one.picture for one in outcomes):
            raise refusals[0]
        return outcomes

    async def _generate(self, client: Any, web: Client, outcome: Generated) -> Generated:
        import openai

        size = {} if self.size is None else {"size": f"{self.size}x{self.size}"}
        host = client.base_url.host
        try:
            answer = await client.images.generate(
                model=self.model, prompt=outcome.sent, n=1, **size, extra_headers=key_headers()
            )
        except openai.APIConnectionError as error:
            if isinstance(error.__cause__, httpx.ConnectError):
                raise UserError(
                    f"no connection to {host}; run the same command again, earlier pictures are cached"
                ) from error
            return outcome._replace(status="timeout" if is_late(error) else "error", reason=reason(error))
        except openai.APIStatusError as error:
            return self._refused(error, host, client.api_key, outcome)
        data = answer.data[0]
        outcome = outcome._replace(revised=data.revised_prompt)
        try:
            if data.b64_json:
                content = base64.b64decode(data.b64_json)
            else:
                content = await _download(web, data.url, self.retries)
            return checked_picture(outcome, decode_image(content), self.size)
        except UnreadableImage as error:
            return outcome._replace(reason=f"unreadable picture: {error}")
        except ValueError:
            return outcome._replace(reason="unreadable picture: not in base64")
        except Unfetched as error:
            return outcome._replace(reason=f"the picture could not be downloaded: {error.detail}")

    def _refused(self, error: Any, host: str, key: str, outcome: Generated) -> Generated:
        status = error.status_code
        if code := blocked(error):
            return outcome._replace(status="blocked", reason=f"blocked by the server ({code})")
        if is_retried(status):
            late = status in (408, 504)
            return outcome._replace(status="timeout" if late else "error", reason=f"status {status}")
        if status in (401, 403, 404) or status < 400:
            raise refused(host, status, self.model) from None
        said = error.body.get("message") if isinstance(error.body, dict) else None
        about = f": {one_line(str(said).replace(key, '…'), 200)}" if said else ""
        return outcome._replace(reason=f"status {status}{about}")


def _flaw(content: bytes) -> str:
    try:
        first = json.loads(content)["data"][0]
        found = any(isinstance(first.get(key), str) and first[key] for key in ("b64_json", "url"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        found = False
    return "" if found else "answer without a picture"


async def _download(web: Client, address: str, retries: int) -> bytes:
    """Content of an address, without the key. Raises Unfetched."""

    async def attempt() -> bytes:
        parts: list[bytes] = []

        async def visit(url: httpx.URL) -> httpx.URL | None:
            async with web.send(url) as reply:
                if reply.redirect is None:
                    reply.check()
                    parts.extend([part async for part in reply.chunks()])
                return reply.redirect

        await follow(address, visit)
        return b"".join(parts)

    return await retried(attempt, retries)


def of_model(inputs: PartInputs) -> PictureEndpoint:
    """The generator endpoint:MODEL."""
    if not inputs.argument:
        raise UserError("expected endpoint:MODEL, found no model; add its name to --generator")
    return PictureEndpoint(inputs.argument)
