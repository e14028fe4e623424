"""The models in service: loaded runs by version, and the active one of each category."""

import gc
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic

from fashioniq.categories import canonical
from fashioniq.data.catalog import ALL
from fashioniq.data.words import composed
from fashioniq.files import UserError
from fashioniq.service.inference import Inference
from fashioniq.service.problems import Problem, wrong
from fashioniq.service.served_model import Served
from fashioniq.service.store import ModelRow, Store, Unavailable

GARBAGE = 10_000  # new objects that start a garbage collection (Python's default: 700)
LOADED = 4 * 3600.0  # seconds for a model, which embeds and indexes millions of products
RETRY = 600.0  # seconds until a model that could not be loaded is tried again, for which all requests wait
KEPT = 2  # models that are loaded besides the active ones, for conversations that began with them
Load = Callable[[Path], Served]
log = logging.getLogger("fashioniq.service")


@contextmanager
def models_of(store: Store, device: str = "auto") -> Iterator["Models"]:
    """The models of a database with all products of their catalogs, to register one without serving it."""
    with closing(Inference()) as inference:
        yield Models(store, inference, partial(Served.of, split=ALL, device=device), None)


def activation(version: str) -> str:
    """The call that activates a model in a service on this machine; without a proxy, KEY may be empty."""
    return f'curl -X POST http://127.0.0.1:8000/v1/models/{version}/activate -H "Authorization: Bearer $KEY"'


class Models:
    """Models of a database. The database tells which one is active, so that all processes agree.

    `load` loads a run folder; sessions go on with the version that they began with.
    """

    def __init__(self, store: Store, inference: Inference, load: Load, folder: Path | None) -> None:
        self.store, self.inference, self.folder, self._load = store, inference, folder, load
        self._versions: dict[str, Served] = {}
        self._active: dict[str, str] = {}
        # hashes of products and catalog of each version, as last stored by any process
        self._registered: dict[str, dict[str, str]] = {}
        self._settled: list[Served] = []
        self.compared: set[str] = set()  # versions that are kept for experiments
        self._missing: dict[str, float] = {}  # versions that could not be loaded, and when to try again
        self._lock, self._one_by_one = threading.Lock(), threading.Lock()

    def open(self, runs: Sequence[Path]) -> None:
        """Load, register and activate runs; then load the active models of the other categories of the database.

        Raises UserError for those that cannot be loaded; with `runs`, the other categories are not served then, as
        their runs may be gone for good.
        """
        for run in runs:
            served = self.register(run)
            before = self.store.active_model(served.category)
            self.activate(served.version)
            if before is not None and before.id != served.version:  # such as one that `learn` activated
                log.warning(
                    "%s is active in place of %s (%s); without --run, the active model would have been served",
                    served.version,
                    before.id,
                    before.folder,
                )
        for category in self.store.categories():
            if category not in self._active:
                try:
                    self.refresh(category)
                except Problem:
                    lacking = (
                        f"the active model of {category} cannot be loaded as it was; give its run with --run, and its "
                        "--generator if it had one"
                    )
                    if not runs:
                        raise UserError(lacking) from None
                    log.warning("%s is not served: %s", category, lacking)

    @property
    def categories(self) -> list[str]:
        """Categories with an active model."""
        return sorted(self._active)

    def active(self, category: str) -> Served:
        """The active model of a category. Raises Problem if there is none."""
        try:
            return self._versions[self._active[canonical(category)]]
        except (KeyError, UserError):
            raise Problem("unknown-category") from None

    def is_active(self, served: Served) -> bool:
        """Whether a model serves its category."""
        return self._active.get(served.category) == served.version

    def version(self, version: str) -> Served:
        """The model of a version, loaded if need be. Raises Problem if there is none.

        One that could not be loaded is tried again after RETRY seconds, and not by each of its conversations.
        """
        if (found := self._versions.get(version)) is not None:
            return found
        with self._one_by_one:
            if (found := self._versions.get(version)) is not None:
                return found
            if monotonic() < self._missing.get(version, 0.0):
                raise Problem("model-retired")
            stored = self.store.model(version)
            if stored is None:
                raise Problem("unknown-model")
            try:
                found = self.loaded(Path(stored.folder))
                if found.version != version:  # such as that of another generator
                    raise UserError(f"expected this model in {stored.folder}, found {found.version}")
            except Unavailable:
                raise
            except UserError as error:  # such as a folder that was removed
                if version not in self._missing:
                    log.warning("%s cannot be loaded: %s", version, error)
                self._missing[version] = monotonic() + RETRY
                raise Problem("model-retired") from None
            return found

    def having(self, category: str, product_id: str) -> Served:
        """The active model of a category, or another loaded one that has a product. Raises Problem if there is none."""
        active = self.active(category)
        others = [one for one in list(self._versions.values()) if one.category == active.category]
        for served in (active, *others):
            if served.own(product_id) in served:
                return served
        raise wrong("/product_id", "unknown_product", "unknown-product")

    def own(self, product_id: str) -> str:
        """The id of a product of any category as its catalog writes it; of an unknown one the composed form."""
        found = (served.own(product_id) for served in list(self._versions.values()))
        return next((name for name in found if name != product_id), composed(product_id))

    def register(self, run: Path) -> Served:
        """Load a run and store it as a model. Raises UserError if it cannot be served.

        A model that is loaded is loaded again, here and by the other processes, with what its catalog and feature store
        have now.
        """
        served = self.loaded(run, again=True)
        model = self.store.register_model(
            ModelRow(
                id=served.version,
                category=served.category,
                folder=str(run.resolve()),
                run_sha256=served.sha256,
                features={"products": served.products_sha256, "catalog": served.catalog_sha256},
                gallery_size=len(served.system.gallery),
                registered_at=self.store.now(),
            )
        )
        self._registered[model.id] = model.features
        return served

    def register_named(self, name: str) -> Served:
        """Register a run of the folder of models. Raises Problem if there is none, or if it cannot be served."""
        if self.folder is None or not (self.folder / name / "model.json").is_file():
            raise wrong("/run", "no such run in the folder of models", "unknown-model")
        try:
            return self.register(self.folder / name)
        except Unavailable:
            raise
        except UserError as error:
            log.warning("the run %s cannot be served: %s", name, error)
            raise wrong("/run", "it cannot be loaded; the log has the reason", "unusable-run") from None

    def activate(self, version: str) -> Served:
        """Let a model serve its category from now on. Raises Problem if there is none."""
        self._missing.pop(version, None)
        served = self.version(version)
        self.inference.call(served.point_alias, LOADED)
        self.store.activate_model(version)
        self._active[served.category] = version
        return served

    def refresh(self, category: str) -> None:
        """Take over what another process activated, or registered again with other products."""
        if (model := self.store.active_model(category)) is None:
            return
        if self._active.get(category) != model.id:
            self.version(model.id)
        self._take_products(model)
        self._active[category] = model.id

    def _take_products(self, model: ModelRow) -> None:
        """Load a model again if another process has registered it again with other products."""
        if self._registered.get(model.id, model.features) != model.features:
            try:
                self.loaded(Path(model.folder), again=True)
            except (Problem, Unavailable):  # such as too many requests; it is tried again
                raise
            except Exception as error:
                reason = str(error) if isinstance(error, UserError) else type(error).__name__
                log.warning("%s keeps its products until it is registered again: %s", model.id, reason)
        self._registered[model.id] = model.features

    def refresh_all(self) -> None:
        """Take over models, products, prices and stock that other processes changed.

        A category whose model cannot be loaded keeps the one that it has, and the others go on.
        """
        for category in self.store.categories():
            try:
                self.refresh(category)
            except Unavailable:
                raise
            except Problem:  # too many requests, or `version` has logged it
                continue
            except Exception as error:
                log.warning("the model of %s cannot be loaded: %s", category, type(error).__name__)
        for version in self.compared & set(self._versions):
            if (compared := self.store.model(version)) is not None:
                with suppress(Problem):
                    self._take_products(compared)
        for served in list(self._versions.values()):
            served.shelf.put(self.store.products(served.category, served.shelf.revision))

    def settle(self) -> None:
        """Exempt what is loaded from garbage collection, once after each change. To visit the objects of a process with
        20,000 products takes 0.4 s, in which no request is answered; those of 1,000 open connections, 0.1 s.
        """
        if (loaded := list(self._versions.values())) != self._settled:
            gc.unfreeze()  # also what was removed since
            gc.collect()
            gc.freeze()
            gc.set_threshold(GARBAGE)
            self._settled = loaded

    def loaded(self, run: Path, again: bool = False) -> Served:
        """The model of a run, with `again` loaded anew, with the products that it has now. Raises UserError."""
        with self._lock:
            served: Served = self.inference.call(lambda: self._load(run), LOADED)
            if not again and (known := self._versions.get(served.version)) is not None:
                return known
            served.shelf.put(self.store.each_product(served.category))
            self._versions[served.version] = served
            in_use = {*self._active.values(), *self.compared, served.version}
            for version in [one for one in self._versions if one not in in_use][:-KEPT]:
                del self._versions[version]  # loaded again for a conversation that began with it
            return served
