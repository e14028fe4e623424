"""Erasure of conversations in the database and in the files that were made from it."""

from pathlib import Path

from fashioniq.config import Forget
from fashioniq.files import UserError
from fashioniq.learning.export import without_erased
from fashioniq.store import Store


def forget(settings: Forget) -> None:
    """Erase conversations, rewrite the exports that held them, and print the models trained on them.

    Raises UserError if there is no such conversation, or an export cannot be rewritten.
    """
    store = Store.open(settings.database)
    try:
        if settings.session:
            if store.session(settings.session) is None and not store.erased([settings.session]):
                raise UserError(f"no conversation {settings.session} in the database; correct --session")
            store.erase_session(settings.session)
            print("erased 1 conversation")
        if settings.client:
            print(f"erased {store.erase_client(settings.client)} conversations")
        for export in store.stale_exports():
            erased = without_erased(store, export)
            if erased is None:
                print(f"{export.id} does not exist any more")
                continue
            print(f"{export.id}: removed {erased} of {export.sessions} conversations")
            folder = Path(export.id) / "run"
            registered = [one for one in store.models(export.rule["category"]) if Path(one.folder) == folder]
            if registered or folder.exists():
                name = f"model {registered[0].id}" if registered else "the model"
                print(f"{name} in {folder} was trained with them; replace it by `fashioniq learn`")
    finally:
        store.close()
