"""Checks of runs: keys of model.json, weights, category and features."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from fashioniq.categories import canonical
from fashioniq.features.store import DIFFERENT, FeatureStore, StoreIdentity
from fashioniq.files import UserError, checksum
from fashioniq.runs import KINDS, CaptionerRun, DialogEncoderRun, RetrieverRun, Run, weights_file


def described(facts: Mapping[str, Any]) -> Run:
    """Convert the keys of a model.json to the class of its kind.

    Raises ValueError if keys are missing or unknown.
    """
    kind = KINDS[facts["kind"]]
    if unknown := set(facts) - set(kind.__struct_fields__):
        raise ValueError(f"model.json of a {facts['kind']} has no {', '.join(sorted(unknown))}")
    return msgspec.convert(msgspec.to_builtins(dict(facts)), kind)


def verify_run(run: Path, about: Run) -> None:
    """Raise UserError if the weights of a run are not those that were saved with its model.json."""
    path = weights_file(run)
    if about.checksum is not UNSET and checksum(path) != about.checksum:
        raise UserError(
            f"{path} is damaged, its checksum is not that of model.json; train the {about.KIND} again"
        )


def check_fits(run: Path, about: CaptionerRun | RetrieverRun, category: str, store: FeatureStore) -> None:
    """Raise UserError if a run was trained on another category or on other features than those of the store."""
    if canonical(about.category) != canonical(category):
        raise UserError(
            f"{run} was trained on {about.category}, not on {category}; give a run of this category"
        )
    check_features(run, about, store)


def check_features(
    run: Path, about: CaptionerRun | RetrieverRun | DialogEncoderRun, store: FeatureStore
) -> None:
    """Raise UserError if a run was trained on other features than those of the store."""
    for key in StoreIdentity.__struct_fields__:
        there, here = getattr(about.features, key), getattr(store.identity, key)
        if there != here and UNSET not in (there, here):
            difference = f"{str(there)[:60]}, not {str(here)[:60]}"
            raise UserError(
                f"{run} was trained with {DIFFERENT[key]} than {store.root} provides ({difference}); "
                "use the same store"
            )
