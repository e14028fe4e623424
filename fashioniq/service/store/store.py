"""The store of the service: one class with all of its tables."""

from fashioniq.service.store.catalog import ProductsAndModels
from fashioniq.service.store.experiments import ExperimentTable
from fashioniq.service.store.exports import Exports
from fashioniq.service.store.keys import Keys
from fashioniq.service.store.privacy import Privacy
from fashioniq.service.store.sessions import Sessions


class Store(Sessions, Privacy, Exports, ProductsAndModels, ExperimentTable, Keys):
    """Database of the service; `Store.open(url)` opens it.

    Its methods may be called from several threads. Each raises Unavailable if the database fails, and then
    has changed nothing.
    """
