"""What `eval-dialogs` left in a folder, read again, and whether evaluations can be compared."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.features.cards import attribute_words
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, read_json

PROTOCOL = "Fashion IQ dialogs"
_SAME = {"category": "category", "split": "split", "gallery": "gallery size"}
_BETTER_SAME = {
    "user": "user",
    "decoding": "decoding of the user",
    "errors": "share of the user's words that err",
    "exclude_shown": "rule on products shown before (--exclude-shown)",
    "index": "index",
    "coverage": "coverage",
    "fingerprint": "fingerprint of splits and captions",
}


@dataclass(frozen=True)
class Evaluation:
    """The metrics and the dialogs, sorted by target, of one folder."""

    folder: Path
    metrics: dict[str, Any]
    dialogs: list[dict[str, Any]]

    @property
    def targets(self) -> list[str]:
        """The target of every dialog."""
        return [dialog["target"] for dialog in self.dialogs]

    @property
    def first_shown(self) -> list[str]:
        """What every dialog begins with."""
        return [dialog["turns"][0]["shown"] for dialog in self.dialogs]

    @cached_property
    def rank_BT(self) -> Tensor:
        """The 0-based ranks of every dialog's target, turn by turn."""
        return torch.tensor([[turn["rank"] for turn in dialog["turns"]] for dialog in self.dialogs])


def read_evaluation(folder: Path) -> Evaluation:
    """Read an evaluation. Raises UserError where the folder holds none, or a damaged one."""
    if not (folder / "metrics.json").is_file():
        raise UserError(f"{folder} holds no evaluation (metrics.json is missing): give a folder that eval-dialogs made, as RUN/dialogs-test")
    metrics = read_json(folder / "metrics.json", "the evaluation's metrics", dict)
    if (protocol := metrics.get("protocol")) != PROTOCOL:
        raise UserError(f"{folder} holds an evaluation of {protocol}, not of dialogs: give folders that eval-dialogs made, as RUN/dialogs-test")
    path = folder / "dialogs.jsonl"
    try:
        dialogs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        # Dialogs of the same target stay in their order.
        evaluation = Evaluation(folder, metrics, sorted(dialogs, key=lambda dialog: dialog["target"]))
        whole = evaluation.rank_BT.ndim == 2 and len(dialogs) == metrics["dialogs"] and bool(evaluation.first_shown) and "gallery" in metrics
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise UserError(f"{path} is missing or damaged ({error!r:.120}): run eval-dialogs again") from error
    if not whole:
        raise UserError(f"{path} does not hold the {metrics['dialogs']} dialogs of metrics.json: run eval-dialogs again")
    return evaluation


def check_comparable(evaluations: Sequence[Evaluation]) -> list[str]:
    """What readers of a comparison with the first evaluation have to know.

    Raises UserError where another evaluation has another category, split, gallery or other targets: differences would say nothing.
    """
    first, *others = evaluations
    notes = []
    for other in others:
        for key, name in _SAME.items():
            if first.metrics.get(key) != other.metrics.get(key):
                ours, theirs = first.metrics.get(key), other.metrics.get(key)
                raise UserError(f"{other.folder} cannot be compared with {first.folder}: the {name} is {theirs}, not {ours}")
        if first.targets != other.targets:
            differ = len(set(first.targets) ^ set(other.targets))
            why = f"{differ} targets are in one of them only" if differ else "they hold different numbers of dialogs of the same targets"
            raise UserError(f"{other.folder} cannot be compared with {first.folder}: {why}; evaluate both on the same products")
        for key, name in _BETTER_SAME.items():
            ours, theirs = (one.metrics.get(key) or "none" for one in (first, other))
            if ours != theirs:
                notes.append(f"{other.folder} has another {name} than {first.folder}: {theirs}, not {ours}")
        if differ := sum(ours != theirs for ours, theirs in zip(first.first_shown, other.first_shown, strict=True)):
            notes.append(
                f"{other.folder} begins {differ} of {len(first.dialogs)} dialogs with other products than {first.folder}: "
                f"evaluate it with --first-candidates {first.folder / 'first_candidates.json'}"
            )
    return notes


def item_cards(metrics: dict[str, Any]) -> tuple[ItemCards, list[str]]:
    """How the products of an evaluation look, as far as its catalog and its feature store are still where they were; and what is missing."""
    images: dict[str, Path] = {}
    titles: dict[str, str] = {}
    attributes: dict[str, list[str]] = {}
    try:
        catalog = Catalog(Path(metrics["data"]), metrics["category"])
        images, titles = catalog.images, catalog.titles
        attributes = attribute_words(FeatureStore(Path(metrics.get("store", ""))), catalog.ids(metrics["split"]))
    except UserError as error:
        return ItemCards(images, titles, attributes), [f"Pictures or attributes are missing: {error}"]
    return ItemCards(images, titles, attributes), []
