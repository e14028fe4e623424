"""API keys. Only hashes of their secrets are stored."""

import hashlib
from collections.abc import Sequence
from secrets import token_hex, token_urlsafe
from typing import Any

from sqlalchemy import insert, update

from fashioniq.service.store.database import Database
from fashioniq.service.store.rows import KeyRow
from fashioniq.service.store.tables import api_key


class Keys(Database):
    """API keys of the service."""

    def add_key(self, scopes: Sequence[str], limits: dict[str, Any] | None = None) -> tuple[str, str]:
        """Create a key; return its id, and its secret, which is not stored: ID.RANDOM."""
        id = f"key_{token_hex(6)}"
        secret = f"{id}.{token_urlsafe(32)}"
        values = {"id": id, "sha256": hashed(secret), "scopes": list(scopes), "limits": limits or {}}
        self.write(lambda connection: connection.execute(insert(api_key).values(values)))
        return id, secret

    def find_key(self, secret: str) -> KeyRow | None:
        """The key with a secret, or None if there is none or it was revoked."""
        of_secret = api_key.c.id == secret.partition(".")[0], api_key.c.sha256 == hashed(secret)
        return self.one(KeyRow, *of_secret, api_key.c.revoked_at.is_(None))

    def revoke_key(self, id: str) -> bool:
        """Refuse a key from now on; return whether it was valid."""
        revoked = update(api_key).where(api_key.c.id == id, api_key.c.revoked_at.is_(None))
        return self.write(
            lambda connection: connection.execute(revoked.values(revoked_at=self.now())).rowcount > 0
        )


def hashed(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()
