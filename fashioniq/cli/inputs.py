"""Inputs that the settings of a command name, opened before torch is imported: a wrong path is reported at
once.
"""

from dataclasses import fields
from pathlib import Path
from typing import Any

from fashioniq.config.evaluation import BASELINES
from fashioniq.config.shared import WithFeatures, WithFeaturesOfRun
from fashioniq.data.catalog import Catalog
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError
from fashioniq.options import flag, metadata_of
from fashioniq.runs import KINDS, kind_of, read_run
from fashioniq.runs.checks import verify_run
from fashioniq.runs.training_data import data_of, of_catalog


def check_inputs(settings: Any) -> None:
    """Open the runs, the catalog and the feature store of the settings, and look for the files.

    Raises UserError if something is missing, damaged or of another kind. What depends on several inputs
    together is left to the command.
    """
    of = type(settings)
    named = [
        (one.name, metadata_of(of, one.name).get("reads"), getattr(settings, one.name)) for one in fields(of)
    ]
    if any(name == "run" and reads and value is None for name, reads, value in named):
        return  # the command does without, or asks for it
    verify = getattr(settings, "verify", False)
    given = [(name, reads, value) for name, reads, value in named if isinstance(value, Path)]
    for name, reads, value in given:  # before the data, as wrong runs are more likely than missing data
        first, *others = str(reads).split(" or ")
        if "file" in others and (value.is_file() or (value / "config.json").is_file()):
            continue
        if first in KINDS and str(value) not in BASELINES:
            other = others and (value / "model.json").exists() and kind_of(value) in others
            about = read_run(value, KINDS[kind_of(value) if other else first])
            if verify:
                verify_run(value, about)
        if reads == "run":
            kind = kind_of(value)
            if verify and kind in KINDS:
                verify_run(value, read_run(value, KINDS[kind]))
        if first == "file" and not value.is_file() and str(value) not in others:
            raise UserError(f"there is no file {value}; correct {flag(name)}")
    reads_of = {reads for _, reads, _ in named}
    category = getattr(settings, "category", None)
    elsewhere = any(getattr(settings, name, None) for name in ("deepfashion", "sessions"))
    if "catalog" in reads_of and settings.data and category and not elsewhere:
        for name in category if isinstance(category, list) else [category]:
            Catalog(settings.data, name)
    store = _store(settings)
    if store and verify:
        store.verify()


def _store(settings: Any) -> FeatureStore | None:
    """Feature store of the settings, by default that of their run, if they have one."""
    of = type(settings)
    if issubclass(of, WithFeatures):
        attrs = getattr(settings, "attrs", False)
        return open_store(settings.data, settings.category, settings.features, attrs)
    if not issubclass(of, WithFeaturesOfRun) or settings.run is None:
        return None
    if str(settings.run) not in BASELINES and not of_catalog(settings.run):
        return None
    return data_of(settings.run, settings.data, settings.category, settings.features)[1]
