"""The data that a run was trained on: its folder, category and feature store."""

from pathlib import Path
from typing import Any

import yaml

from fashioniq.data.catalog import SPLITS
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError


def settings_of(run: Path) -> dict[str, Any]:
    """The options in a run's config.yaml; none where it has no such file. Raises UserError for a damaged one."""
    path = run / "config.yaml"
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"cannot read {path}: {' '.join(str(error).split())[:160]}") from error
    if not isinstance(settings, dict):
        raise UserError(f"expected options and values in {path}, found {type(settings).__name__}")
    return settings


def first_path(*paths: Any) -> Path | None:
    """The first of the paths that is given."""
    return next((Path(path) for path in paths if path), None)


def store_of(run: Path, data: Path | None, category: str | None, features: Path | None) -> FeatureStore:
    """The feature store `features`, or else the one of a category in `data`. Raises UserError where there is none."""
    if features is None and (data is None or category is None):
        raise UserError(f"{run} does not name its feature store: give it with --features")
    return FeatureStore(features) if features else open_store(data or Path(), category or "", None)


def check_split(split: str) -> None:
    """Raise UserError for the name of a split that does not exist."""
    if split not in SPLITS:
        raise UserError(f"expected a split of {', '.join(SPLITS)}, found {split!r}")
