"""`fashioniq api-key`."""

from contextlib import closing

from fashioniq.config import ApiKey
from fashioniq.files import UserError


def run(settings: ApiKey) -> str:
    """Create an API key, print its secret and return it; or revoke one and return its id."""
    from fashioniq.service.store import Store

    with closing(Store.open(settings.database, create=False)) as store:
        if settings.revoke:
            if not store.revoke_key(settings.revoke):
                raise UserError(f"there is no valid key {settings.revoke}; give the id of a key")
            print(f"{settings.revoke} is revoked")
            return settings.revoke
        scopes = settings.scopes or ["search"]
        id, secret = store.add_key(scopes)
        print(f"{id} may use: {', '.join(scopes)}. Its secret, which is not shown again:\n{secret}")
        return secret
