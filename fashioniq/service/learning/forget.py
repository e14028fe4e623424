"""Erasure of conversations in the database and in the files that were made from it."""

import sys
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from fashioniq.config import Forget
from fashioniq.files import UserError, one_line
from fashioniq.service.learning.export import check_here, remove_erased
from fashioniq.service.store import ExportRow, Replaced, Store, Unavailable


class Erasure(NamedTuple):
    """Result of an erasure; `failed` if some of the training data could not be reached."""

    failed: bool


def forget(settings: Forget) -> Erasure:
    """Erase conversations, also in the training data that hold them, and print the models trained on them.

    What could not be reached is tried again by the next call. Raises UserError if there is no such conversation, no
    such training data, or no database.
    """
    with closing(Store.open(settings.database, create=False)) as store:
        for id in settings.deleted:
            _set_deleted(store, id)
        if settings.session is not None:
            if store.session(settings.session) is None and not store.erased([settings.session]):
                raise UserError(f"no conversation {settings.session} in the database; correct --session")
            store.erase_session(settings.session)
            print("erased 1 conversation in the database")
        if settings.client is not None:
            print(f"erased {store.erase_client(settings.client)} conversations in the database")
        complete = carry_out(store)
        _name_models(store)
        return Erasure(failed=not complete)


def carry_out(store: Store) -> bool:
    """Remove what was erased from the files of the database, and from training data also what may no longer be used for
    training; print it.

    Return whether all of it was removed; what was not is printed with the reason, and tried again by the next call.
    """
    try:
        complete = store.finish_erasures()
        why = "another process reads the database"
    except Replaced:
        raise
    except Unavailable as error:  # such as too little space to rewrite the file
        complete, why = False, str(error)
    exports = store.stale_exports()  # fails without a database, of whose files nothing is known then
    if not complete:
        _complain(f"the files of the database still have erased conversations: {why}")
    for export in exports:
        try:
            if erased := remove_erased(store, export):
                print(f"{export.folder}: removed {erased} of {export.sessions} conversations")
        except UserError as error:
            _complain(f"{export.folder} may still have erased or withdrawn conversations: {error}")
            complete = False
    return complete


def trained_with_erased(store: Store) -> list[tuple[ExportRow, int]]:
    """Training data that exist and whose run was trained with conversations that were erased or withdrawn since, or
    started from such a run; and the number of all of these conversations.
    """
    exports, held = store.exports(), store.forbidden_held()
    erased = {export.id: held.get(export.id, set()) for export in exports}
    for _ in exports:  # each may have started from the run of another one
        for export in exports:
            erased[export.id] |= erased.get(export.rule.get("training_data") or "", set())
    present = [export for export in exports if export.deleted_at is None]
    return [(export, len(erased[export.id])) for export in present if erased[export.id]]


def run_of(export: ExportRow) -> Path:
    """Folder of the run that was trained on training data."""
    return Path(export.folder) / "run"


def _name_models(store: Store) -> None:
    for export, count in trained_with_erased(store):
        run = run_of(export)
        names = [one.id for one in store.models(export.rule["category"]) if Path(one.folder) == run]
        if names or (run.exists() and _is_here(export)):
            print(
                f"{f'model {names[0]}' if names else 'the model'} in {run} was trained with {count} of the erased "
                "or withdrawn conversations; replace it by `fashioniq learn` from a run trained without them"
            )


def _set_deleted(store: Store, id: str) -> None:
    """Store that training data were deleted. Raises UserError if they exist."""
    found = [one for one in store.exports() if one.id == id and one.deleted_at is None]
    if not found:
        raise UserError(f"expected an id of training data, found --deleted {one_line(id)}; correct it")
    if _is_here(found[0]):
        raise UserError(f"{found[0].folder} still has the training data {id}; remove the folder first")
    store.set_deleted(id)


def _is_here(export: ExportRow) -> bool:
    try:
        check_here(export)
    except UserError:
        return False
    return True


def _complain(what: str) -> None:
    print(f"error: {one_line(what)}", file=sys.stderr, flush=True)
