"""Database of the live service: sessions with their turns, events, products, models and keys.

SQLite and PostgreSQL have the same tables and the same behavior.
"""

from fashioniq.service.store.catalog import ProductsAndModels
from fashioniq.service.store.experiments import ExperimentTable
from fashioniq.service.store.exports import Exports
from fashioniq.service.store.keys import Keys
from fashioniq.service.store.privacy import Privacy
from fashioniq.service.store.rows import (
    Consent,
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
from fashioniq.service.store.sessions import Sessions
from fashioniq.service.store.spool import Spool

__all__ = [
    "Consent",
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


class Store(Sessions, Privacy, Exports, ProductsAndModels, ExperimentTable, Keys):
    """Database of the service; `Store.open(url)` opens it.

    Its methods may be called from several threads. Each raises Unavailable if the database fails, and then
    has changed nothing.
    """
