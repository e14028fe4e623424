"""Results of `eval-dialogs` read from a folder, and checks whether evaluations can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from fashioniq import plugins
from fashioniq.data.cards import ItemCards
from fashioniq.data.catalog import Catalog
from fashioniq.data.dialog_log import LoggedDialog, read_dialogs
from fashioniq.data.evaluations import DialogMetrics, RoundMetrics, TurnMetrics, read_metrics
from fashioniq.features.cards import AttributeWords
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError, explaining

_SAME = {"protocol": "protocol", "category": "category", "split": "split", "gallery": "gallery size"}
_BETTER_SAME = {
    "user": "user",
    "decoding": "decoding of the user",
    "errors": "word noise of the user",
    "exclude_shown": "rule on products shown before (--exclude-shown)",
    "index": "index",
    "score": "score (--score)",
    "coverage": "coverage",
    "fingerprint": "fingerprint of splits and captions",
}
_BETTER_SAME_IN_ROUNDS = {
    "search_space": "search space",
    "coverage": "coverage",
    "user": "user",
    "details": "number of attributes in the user's first words (--details)",
}


@dataclass(frozen=True)
class EvaluationFolder:
    """Metrics of one folder, its dialogs, sorted by target, and the number of their first turn."""

    folder: Path
    metrics: DialogMetrics
    dialogs: list[LoggedDialog]
    first_turn: int

    @property
    def targets(self) -> list[str]:
        """Target of each dialog."""
        return [dialog.target or "" for dialog in self.dialogs]

    @property
    def first_shown(self) -> list[str]:
        """Product shown in the first turn of each dialog."""
        return [dialog.turns[0].shown or "" for dialog in self.dialogs]

    @cached_property
    def rank_BT(self) -> Tensor:
        """0-based rank of each dialog's target after each turn, B×T."""
        return torch.tensor([dialog.ranks for dialog in self.dialogs])


def read_evaluation(folder: Path) -> EvaluationFolder:
    """Read an evaluation. Raises UserError if a file is missing or damaged."""
    if not (folder / "metrics.json").is_file():
        raise UserError(
            f"expected metrics.json of eval-dialogs in {folder}, found none; give a folder such as "
            "RUN/dialogs-test, or that of one user in it"
        )
    repair = "give a folder of eval-dialogs such as RUN/dialogs-test"
    kinds = (TurnMetrics, RoundMetrics)
    metrics = read_metrics(folder / "metrics.json", "the evaluation's metrics", kinds, repair)
    assert isinstance(metrics, kinds), "read_metrics checks it"
    first = plugins.find("protocols", metrics.protocol).first_turn
    if [row.get(metrics.UNIT) for row in metrics.table] != list(range(first, first + len(metrics.table))):
        raise UserError(
            f"{folder / 'metrics.json'} is damaged, its {metrics.UNIT}s are not numbered from {first}; {repair}"
        )
    path = folder / "dialogs.jsonl"
    with explaining(
        f"{path} is missing or damaged",
        "; run eval-dialogs again",
        (OSError, ValueError, IndexError, RecursionError, msgspec.MsgspecError),
    ):
        dialogs = read_dialogs(path)
        # The sort is stable: dialogs with the same target keep their order.
        evaluation = EvaluationFolder(
            folder, metrics, sorted(dialogs, key=lambda dialog: dialog.target or ""), first
        )
        complete = (
            evaluation.rank_BT.shape[1:] == (len(metrics.table),)
            and len(dialogs) == metrics.dialogs
            and all(evaluation.targets)
            and all(evaluation.first_shown)
        )
    if not complete:
        raise UserError(
            f"expected the {metrics.dialogs} dialogs of metrics.json, found others in {path}; run "
            "eval-dialogs again"
        )
    return evaluation


def notes_on_differences(evaluations: Sequence[EvaluationFolder]) -> list[str]:
    """Notes on differences between evaluations, for readers of a comparison.

    Raises UserError if protocol, category, split, gallery or targets differ: such evaluations cannot be compared.
    Those of recorded question dialogs state neither category nor split.
    """
    first, *others = evaluations
    begin: list[str] = []
    for other in others:
        for key, name in _SAME.items():
            ours, theirs = (stated(one.metrics, key) or None for one in (first, other))
            unstated = isinstance(first.metrics, RoundMetrics) and None in (ours, theirs)
            if ours != theirs and not unstated:
                raise UserError(
                    f"{other.folder} cannot be compared with {first.folder}: the {name} is {theirs}, not "
                    f"{ours}"
                )
        if first.targets != other.targets:
            differ = len(set(first.targets) ^ set(other.targets))
            why = (
                f"{differ} targets are in one of them only"
                if differ
                else "their numbers of dialogs per target differ"
            )
            raise UserError(
                f"{other.folder} cannot be compared with {first.folder}: {why}; evaluate both on the same "
                "products"
            )
        # In question dialogs, the product shown first is a result.
        if isinstance(first.metrics, TurnMetrics) and first.first_shown != other.first_shown:
            begin.append(str(other.folder))
    notes = []
    better = _BETTER_SAME if isinstance(first.metrics, TurnMetrics) else _BETTER_SAME_IN_ROUNDS
    for key, name in better.items():
        folders: dict[str, list[str]] = {}
        for one in evaluations:
            folders.setdefault(str(stated(one.metrics, key) or "none"), []).append(str(one.folder))
        if len(folders) > 1:
            found = "; ".join(f"{value} in {', '.join(of)}" for value, of in folders.items())
            notes.append(f"the {name} differs: {found}")
    if begin:
        notes.append(
            f"dialogs in {', '.join(begin)} begin with other products than in {first.folder}; evaluate all with the "
            "same --seed"
        )
    return notes


def stated(metrics: DialogMetrics, key: str) -> Any:
    """A value of metrics.json, whether it was measured or stated by the system."""
    return getattr(metrics if key in metrics.__struct_fields__ else metrics.facts, key)


def item_cards(metrics: DialogMetrics) -> tuple[ItemCards, list[str]]:
    """Pictures, titles and attributes of an evaluation's products, and a note if the catalog or store is
    missing.
    """
    if not metrics.facts.data:
        return ItemCards(), ["Pictures and attributes are missing: the results name no catalog"]
    cards = ItemCards()
    try:
        catalog = Catalog(Path(metrics.facts.data), metrics.facts.category or "")
        cards = ItemCards(catalog.images, catalog.titles)
        store = FeatureStore(Path(metrics.facts.store or ""))
        return replace(cards, attributes=AttributeWords(store)), []
    except UserError as error:
        return cards, [f"Pictures or attributes are missing: {error}"]
