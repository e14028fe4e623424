"""Database of the live service: sessions with their turns, events, products, models and keys.

Needs the extra `serve`. SQLite and PostgreSQL have the same tables and the same behavior.
"""

from fashioniq.files import UserError, why

try:
    import alembic  # noqa: F401
    import sqlalchemy  # noqa: F401
except ImportError as error:
    raise UserError(
        f"the database of the service needs SQLAlchemy and Alembic ({why(error)}); pip install 'fashioniq[serve]'"
    ) from error

from fashioniq.store.rows import (
    Event,
    Export,
    Gone,
    Key,
    KeyReused,
    Model,
    Picture,
    Product,
    Replaced,
    Session,
    Turn,
    TurnConflict,
    Unavailable,
)
from fashioniq.store.scrub import scrub
from fashioniq.store.spool import Spool
from fashioniq.store.store import Store

__all__ = [
    "Event",
    "Export",
    "Gone",
    "Key",
    "KeyReused",
    "Model",
    "Picture",
    "Product",
    "Replaced",
    "Session",
    "Spool",
    "Store",
    "Turn",
    "TurnConflict",
    "Unavailable",
    "scrub",
]
