"""Data that a run was trained on: folder, category and feature store."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from fashioniq.categories import canonical
from fashioniq.config.shared import CATALOGS
from fashioniq.data.catalog import Catalog
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError, checksum, read_json, why
from fashioniq.runs import KINDS, CatalogOrigin, kind_of, read_run, weights_file
from fashioniq.yaml_files import read_yaml


class Selection(NamedTuple):
    """What is loaded with a run: by default the data folder, category and feature store of its training.

    The gallery holds the products of `split`; its vectors may be `stored` in a folder. Without `words`, the titles and
    labels of the products are not used.
    """

    features: Path | None
    split: str
    device: str
    data: Path | None
    category: str | None
    stored: Path | None
    words: bool = True


def recorded_settings(run: Path) -> dict[str, Any]:
    """Options in the config.yaml of a run; empty if there is no such file.

    Raises UserError if it is damaged.
    """
    path = run / "config.yaml"
    try:
        settings = read_yaml(path) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise UserError(f"expected YAML in {path}, found {why(error)}; correct the file") from error
    if not isinstance(settings, dict):
        raise UserError(
            f"expected options and values, found {type(settings).__name__} in {path}; correct the file"
        )
    return settings


def of_catalog(run: Path) -> bool:
    """Whether a run was trained on a category of a catalog. Raises UserError if it cannot be read."""
    kind = KINDS.get(kind_of(run))
    return kind is not None and isinstance(read_run(run, kind).data, CatalogOrigin)


def catalog_of(run: Path | None, data: Path | None, category: str | None) -> Catalog:
    """Catalog of a folder and category, by default those that a run of a category was trained on.

    Raises UserError if there is none, or without a category.
    """
    if run and (run / "model.json").exists() and of_catalog(run):
        about = read_run(run, KINDS[kind_of(run)])
        data, category = data or first_path(about.data.folder), category or about.category
    if category is None:
        raise UserError("no category given; give --category, or --run")
    return Catalog(data or CATALOGS, category)


def data_of(
    run: Path | None, data: Path | None, category: str | None, features: Path | None
) -> tuple[Catalog, FeatureStore]:
    """Catalog, and feature store of it, by default those that a run of a category was trained on.

    Raises UserError if there is none, or without a category.
    """
    catalog, settings = catalog_of(run, data, category), recorded_settings(run) if run else {}
    # the vectors of a search without training are those of its encoder alone
    own = first_path(settings.get("features")) if data is None or settings.get("encoder") else None
    return catalog, open_store(catalog.root, catalog.category, features or own)


def category_of(run: Path) -> str:
    """Category of a run, in model.json or config.yaml. Raises UserError if it has none, or no readable description."""
    about = read_json(run / "model.json", "the model", dict)
    category = about.get("category") or recorded_settings(run).get("category")
    if not category:
        raise UserError(f"{run} has no category; train it with --category")
    return canonical(str(category))


def version_of(run: Path, category: str) -> str:
    """Version of a run by which the service names it: category, day of the training, and digits of the checksum.

    Raises UserError if the run has no readable description, or no checksum.
    """
    about = read_json(run / "model.json", "the model", dict)
    day = str((about.get("provenance") or {}).get("date") or "")[:10]
    changed = datetime.fromtimestamp((run / "model.json").stat().st_mtime, UTC).date().isoformat()
    return f"{category}@{day or changed}-{sha256_of(run)[:6]}"


def sha256_of(run: Path) -> str:
    """Checksum of the weights of a run. Raises UserError if model.json has none and there are no weights."""
    about, weights = read_json(run / "model.json", "the model", dict), weights_file(run)
    if not about.get("checksum") and not weights.is_file():
        raise UserError(
            f'expected "checksum" in {run / "model.json"}, found none, and no {weights.name} to compute it from; '
            "write one there, such as the sha256 of the model, which identifies the run in `fashioniq serve`"
        )
    return str(about.get("checksum") or checksum(weights))


def first_path(*paths: Any) -> Path | None:
    """First of the paths that is not empty; None if all are."""
    return next((Path(path) for path in paths if path), None)


def store_of(run: Path, data: Path | None, category: str | None, features: Path | None) -> FeatureStore:
    """Feature store `features`, by default that of the category in `data`.

    Raises UserError if there is none.
    """
    if features is None and (data is None or category is None):
        raise UserError(
            f"expected the path of the feature store in {run / 'config.yaml'}, found none; give --features"
        )
    return FeatureStore(features) if features else open_store(data or Path(), category or "", None)
