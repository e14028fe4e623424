"""Embeddings of texts by an OpenAI-compatible server: POST ADDRESS/embeddings."""

import asyncio
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.parts import PartInputs
from fashioniq.encoders.identity import Identity
from fashioniq.encoders.protocol import Encoder, digest_of, in_batches, unit
from fashioniq.files import UserError, why
from fashioniq.http import Client, Policy, Unfetched, parse, retried
from fashioniq.llm.endpoint import KEY, api_key

TEXTS = 64  # texts per request
POLICY = Policy(retries=4, timeout=60.0, max_bytes=50_000_000)


class EmbeddingsEndpoint(Encoder):
    """The model of an address such as http://localhost:8000/v1#NAME; OPENAI_API_KEY is its key.

    The server does not say which weights it has: the identity is address and model. Raises UserError if it cannot be
    reached, refuses, or answers with something else.
    """

    def __init__(self, address: str, policy: Policy = POLICY) -> None:
        url, _, self._model = address.rpartition("#")
        if not url or not self._model:
            raise UserError(f"expected ADDRESS#MODEL, such as http://localhost:8000/v1#NAME, found {address}")
        self._url, self._policy = f"{url.rstrip('/')}/embeddings", policy
        self._key = api_key()
        self.size = self._request([""]).shape[1]
        self.identity = Identity(
            encoder=self._model, weights=digest_of(address), image_size=None, dimensions=self.size
        )

    def texts(self, texts: Sequence[str]) -> Tensor:
        """Encode texts, N×D."""
        return in_batches(self._request, texts, TEXTS, self.size)

    def _request(self, texts: Sequence[str]) -> Tensor:
        # some servers refuse empty texts
        body = {"model": self._model, "input": [text or " " for text in texts]}
        try:
            content = asyncio.run(retried(lambda: self._post(body), self._policy.retries))
        except Unfetched as error:
            raise UserError(
                f"no embeddings from {self._url} ({error.detail}); check the address, the model name {self._model!r} "
                f"and {KEY}, and run the same command again"
            ) from error
        try:
            rows = sorted(json.loads(content)["data"], key=lambda row: row["index"])
            vectors = np.array([row["embedding"] for row in rows], np.float32)
        except (ValueError, LookupError, TypeError) as error:
            raise UserError(
                f"expected embeddings from {self._url}, found {why(error, 80)}; correct the address"
            ) from error
        size = getattr(self, "size", vectors.shape[-1])
        if vectors.shape != (len(texts), size) or not size or not np.isfinite(vectors).all():
            raise UserError(
                f"expected {len(texts)} finite vectors of size {size} from {self._url}, found shape {vectors.shape}; "
                "check the model"
            )
        return unit(torch.from_numpy(vectors))

    async def _post(self, body: dict[str, Any]) -> bytes:
        """One attempt. Raises Busy, which is retried, or Unfetched."""
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        async with Client(self._policy, headers) as client, client.send(parse(self._url), body) as reply:
            reply.check()
            return b"".join([chunk async for chunk in reply.chunks()])


def embeddings(inputs: PartInputs) -> EmbeddingsEndpoint:
    """The encoder endpoint:MODEL, of a model at OPENAI_BASE_URL, or endpoint:ADDRESS#MODEL."""
    name = inputs.argument
    return EmbeddingsEndpoint(name if "://" in name else f"{os.environ.get('OPENAI_BASE_URL', '')}#{name}")
