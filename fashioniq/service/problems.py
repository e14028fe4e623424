"""Errors of the service as problem details (RFC 9457). They never repeat the input, a path or a traceback."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fashioniq.service.store import Gone, KeyReused, TurnConflict, Unavailable

TYPES = "https://fashioniq.invalid/problems/"  # prefix of the type, an identifier that is not looked up

TITLES = {  # code: status and title
    "malformed": (400, "The request could not be read"),
    "unauthorized": (401, "A valid key or session token is required"),
    "forbidden": (403, "The key does not allow this request"),
    "not-found": (404, "There is nothing at this address"),
    "unknown-category": (404, "There is no such category"),
    "unknown-product": (404, "There is no such product"),
    "unknown-label": (404, "There is no such label"),
    "unknown-session": (404, "There is no such session, or the token does not belong to it"),
    "unknown-model": (404, "There is no such model"),
    "unknown-picture": (404, "There is no such picture"),
    "method-not-allowed": (405, "The address does not accept this method"),
    "turn-conflict": (409, "The conversation has gone on since"),
    "model-retired": (409, "The model of this conversation is no longer available"),
    "no-picture-encoder": (409, "This model cannot read uploaded pictures"),
    "session-expired": (410, "The conversation has ended"),
    "too-large": (413, "The request is too large"),
    "unsupported-media-type": (415, "The content type is not supported"),
    "invalid": (422, "The request has invalid values"),
    "not-shown": (422, "This product was not shown in this conversation"),
    "nothing-understood": (422, "None of these words is known"),
    "not-held": (422, "This no longer holds"),
    "questions-only": (422, "This model is searched with words and cannot start from a product"),
    "too-many-turns": (422, "The conversation has reached its maximum number of turns"),
    "key-reused": (422, "The idempotency key was used for another request"),
    "unreadable-picture": (422, "The picture could not be read"),
    "unusable-run": (422, "The run cannot be served"),
    "too-many-requests": (429, "Too many requests"),
    "internal": (500, "The request failed"),
    "busy": (503, "The service is busy"),
    "engine": (503, "The search engine is not available"),
    "database": (503, "The database is not available"),
    "database-replaced": (
        503,
        "The file of the database was deleted or replaced since the service opened it",
    ),
}


@dataclass
class Problem(Exception):
    """Error answer: `code` is one of TITLES; `errors` have a pointer and a reason each."""

    code: str
    errors: list[dict[str, str]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    retry_after: int | None = None  # seconds

    @property
    def status(self) -> int:
        return TITLES[self.code][0]

    def content(self, request_id: str) -> dict[str, Any]:
        """Body of the answer."""
        status, title = TITLES[self.code]
        return {
            "type": TYPES + self.code,
            "title": title,
            "status": status,
            "code": self.code,
            "errors": self.errors,
            "request_id": request_id,
            **self.more,
        }


PROBLEM_OF: dict[type[Exception], Callable[[Any], Problem]] = {  # of errors of the store
    Problem: lambda problem: problem,
    TurnConflict: lambda error: Problem("turn-conflict", more={"turn": error.present}),
    KeyReused: lambda _: Problem("key-reused"),
    Gone: lambda _: Problem("session-expired"),
    Unavailable: lambda _: Problem("database", retry_after=5),
}


def wrong(pointer: str, reason: str, code: str = "invalid", **more: Any) -> Problem:
    """A problem of one value."""
    return Problem(code, [{"pointer": pointer, "reason": reason}], more)
