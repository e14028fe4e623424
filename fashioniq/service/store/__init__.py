"""Database of the live service: sessions with their turns, events, products, models and keys.

SQLite and PostgreSQL have the same tables and the same behavior.
"""

from fashioniq.service.store.rows import (
    EventRow,
    ExperimentRow,
    ExportRow,
    Gone,
    KeyReused,
    KeyRow,
    ModelRow,
    PictureRow,
    ProductRow,
    Replaced,
    SessionRow,
    TurnConflict,
    TurnRow,
    Unavailable,
)
from fashioniq.service.store.scrub import scrub
from fashioniq.service.store.spool import Spool
from fashioniq.service.store.store import Store

__all__ = [
    "EventRow",
    "ExperimentRow",
    "ExportRow",
    "Gone",
    "KeyReused",
    "KeyRow",
    "ModelRow",
    "PictureRow",
    "ProductRow",
    "Replaced",
    "SessionRow",
    "Spool",
    "Store",
    "TurnConflict",
    "TurnRow",
    "Unavailable",
    "scrub",
]
