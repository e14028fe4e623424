"""Checks of runs: keys of model.json, weights, category and features."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from fashioniq.categories import canonical
from fashioniq.features.store import DIFFERENT, FeatureStore, StoreIdentity
from fashioniq.files import UserError, checksum
from fashioniq.runs import (
    KINDS,
    CaptionerRun,
    ChatSearcherRun,
    DialogEncoderRun,
    GeneratorRun,
    PredictorRun,
    RetrieverRun,
    Run,
    weights_file,
)


def described(facts: Mapping[str, Any]) -> Run:
    """Convert the keys of a model.json to the class of its kind.

    Raises ValueError if keys are missing or unknown.
    """
    kind = KINDS[facts["kind"]]
    if unknown := set(facts) - set(kind.__struct_fields__):
        raise ValueError(f"model.json of a {facts['kind']} has no {', '.join(sorted(unknown))}")
    return msgspec.convert(msgspec.to_builtins(dict(facts)), kind)


def made_of(about: Run) -> dict[str, str]:
    """Digests of the data, the features and the words of a run, which must be the same where it is resumed."""
    words = getattr(about, "words", None) or getattr(about, "attribute_words", None)
    parts = {"data": fingerprints(about), "features": getattr(about, "features", None), "words": words}
    return {name: hashlib.sha256(repr(part).encode()).hexdigest()[:16] for name, part in parts.items()}


def check_made_of(run: Path, about: Run, saved: Mapping[str, Any]) -> None:
    """Raise UserError if a run is made of other data, features or words than those in its checkpoint."""
    for part, digest in saved.get("made_of", {}).items():
        if made_of(about)[part] != digest:
            raise UserError(
                f"cannot resume: the {part} of {run} have changed since it was started; restore them, or start another "
                "run with --run"
            )


def fingerprints(about: Run) -> dict[str, str]:
    """What identifies the data of a run: the fingerprints of its categories, or the checksums of its files."""
    if isinstance(about, PredictorRun | GeneratorRun):
        return dict((about.data or {}).get("fingerprints", {}))
    if isinstance(about, DialogEncoderRun | ChatSearcherRun):
        return about.data.checksums
    return {about.category: about.data.fingerprint}


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
