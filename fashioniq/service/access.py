"""Who may do what: API keys with scopes, and limits per key or address."""

import ipaddress
import time
from dataclasses import dataclass, field

from fastapi import Request
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from fashioniq.service.problems import Problem
from fashioniq.service.store import KeyRow, Store, Unavailable

REMEMBERED = 3600.0  # seconds for which a valid key remains valid without the database
LIMITS = {  # per key or address
    "turns": "10 per 2 second",
    "sessions": "20 per hour",  # of an address without a key
    "search": "10 per 2 second",
    "uploads": "10 per hour",
}


@dataclass
class Access:
    """Rules of access. With `local`, requests from this machine need no key and have no limits."""

    store: Store
    local: bool
    _valid: dict[str, tuple[KeyRow, float]] = field(
        default_factory=dict
    )  # keys by secret, and when they were found
    _limiter: SlidingWindowCounterRateLimiter = field(
        default_factory=lambda: SlidingWindowCounterRateLimiter(MemoryStorage())
    )

    def is_local(self, request: Request) -> bool:
        """Whether a request comes from this machine and needs no key."""
        host = request.client.host if request.client else ""
        try:
            return self.local and ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def key(self, request: Request) -> KeyRow | None:
        """API key of a request, None without one. Raises Problem for a wrong one.

        While the database is not available, keys that were found less than REMEMBERED seconds ago remain valid.
        """
        secret = bearer(request)
        if not secret.startswith("key_"):
            return None
        try:
            found = self.store.find_key(secret)
        except Unavailable:
            found, at = self._valid.get(secret, (None, 0.0))
            if found is None or time.monotonic() - at > REMEMBERED:
                raise
            return found
        if found is None:
            self._valid.pop(secret, None)
            raise Problem("unauthorized")
        self._valid[secret] = found, time.monotonic()
        return found

    def require(self, request: Request, scope: str) -> None:
        """Raise Problem if a request may not use a scope."""
        key = self.key(request)
        if key is None and not self.is_local(request):
            raise Problem("unauthorized")
        if key is not None and not {scope, "admin"} & set(key.scopes):
            raise Problem("forbidden")

    def limit(self, request: Request, what: str) -> None:
        """Count a request, and raise Problem if there were too many of this key or address."""
        if self.is_local(request):
            return
        key = self.key(request)
        own = key.limits.get(what) if key else None
        if key and what == "sessions" and own is None:  # a shop begins those of all its shoppers
            return
        rule = parse(own or LIMITS[what])
        caller = key.id if key else _network(request.client.host if request.client else "unknown")
        if not self._limiter.hit(rule, what, caller):
            wait = self._limiter.get_window_stats(rule, what, caller).reset_time - time.time()
            raise Problem("too-many-requests", retry_after=max(1, int(wait) + 1))


def _network(host: str) -> str:
    """The address of a caller; of IPv6 its network of 64 bits, as one machine may use each address of it."""
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:  # of IPv4, or none
        return host
    return str(address.ipv4_mapped or ipaddress.IPv6Network((int(address), 64), strict=False))


def bearer(request: Request) -> str:
    """Token of the Authorization header, or an empty string."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""
