"""Inputs of an evaluation of Fashion IQ's system: catalog, products, features and a trained retriever."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from fashioniq.config import EvalDialogs
from fashioniq.config.evaluation import BASELINES, BM25, LAST_SHOWN
from fashioniq.data.catalog import Catalog
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.features.selection import split_items
from fashioniq.features.store import FeatureStore
from fashioniq.files import UserError
from fashioniq.language.statements import StatementCheck
from fashioniq.models.device import pick_device
from fashioniq.models.linear import LastShown, NoVectors
from fashioniq.models.retriever import BaseRetriever
from fashioniq.runs import CatalogOrigin, RetrieverRun, is_zero_shot, read_run, zero_shot
from fashioniq.runs.trained import load_retriever
from fashioniq.runs.training_data import data_of
from fashioniq.runs.wording import scored_by


@dataclass(frozen=True)
class EvaluationInputs:
    """Inputs of an evaluation: the products of a split, a trained retriever, and whether it repeats a product."""

    catalog: Catalog
    store: FeatureStore
    items: Items
    retriever: BaseRetriever | zero_shot.ZeroShotRetriever
    vocabulary: Vocabulary
    about: RetrieverRun
    exclude_shown: bool

    @cached_property
    def truth(self) -> StatementCheck | None:
        """The check of what is said by the labels of the catalog."""
        return StatementCheck.of(self.catalog)

    @property
    def device(self) -> torch.device:
        """Device of the products' features."""
        return self.items.features_ND.device


def read_evaluation_inputs(options: EvalDialogs, run: Path) -> EvaluationInputs:
    """Read the catalog, the features and the retriever of an evaluation.

    Raises UserError if a file is missing or does not match the run.
    """
    trained = not (_is_baseline(run) or is_zero_shot(run))
    if trained:
        read_run(run, RetrieverRun)  # first, because a wrong --run is more likely than missing data
    catalog, store = data_of(run, options.data, options.category, options.features)
    device, recorded = pick_device(options.device), options.only_user in ("human", "sessions")
    retriever: BaseRetriever | zero_shot.ZeroShotRetriever
    vocabulary, about = Vocabulary([]), _without_training(catalog, store)
    if trained:
        trained_one, vocabulary, about = load_retriever(run, catalog.category, store)
        retriever = trained_one.to(device)
    elif str(run) == LAST_SHOWN:
        retriever = LastShown(store.size)
    elif str(run) == BM25 and recorded and allows_bm25(options):
        retriever = NoVectors(store.size)
    elif str(run) == BM25:
        raise UserError(
            "--run bm25 reads what people wrote; give --user human or sessions, without --word-noise, --index, "
            "--score vectors and --system"
        )
    elif recorded and not options.word_noise:
        retriever = zero_shot.load_zero_shot_retriever(run, catalog, store, device)
    else:
        raise UserError(
            f"{run} is a search without training, which reads what people wrote; give --user human or sessions, "
            "without --word-noise"
        )
    if about.data.fingerprint != catalog.fingerprint():
        print(
            f"note: the splits or captions of {catalog.category} differ from those that {run} was trained on"
        )
    # the features are checked when they are embedded, before anything is written
    items = split_items(catalog, store, options.split, read=False).to(device)
    as_trained = about.exclude_shown and not recorded
    exclude_shown = as_trained if options.exclude_shown is None else options.exclude_shown
    if exclude_shown and options.turns > len(items):
        raise UserError(
            f"--exclude-shown with --turns {options.turns} needs {options.turns} products, found "
            f"{len(items)}; give fewer --turns"
        )
    if as_trained and not exclude_shown:
        print(f"note: {run} was trained with --exclude-shown; without it, products may be shown again")
    return EvaluationInputs(
        catalog=catalog,
        store=store,
        items=items,
        retriever=retriever,
        vocabulary=vocabulary,
        about=about,
        exclude_shown=exclude_shown,
    )


def users_of_training(run: Path) -> tuple[list[str], str | None]:
    """Users that a retriever was trained with, and its first captioner, None without one."""
    if _is_baseline(run) or is_zero_shot(run):
        return [], None
    about = read_run(run, RetrieverRun)
    return list(dict.fromkeys([*([about.user] if about.user else []), *about.users])), about.user


def allows_bm25(options: EvalDialogs) -> bool:
    """Whether words alone can rank all products: in Fashion IQ's own system, which reads them, as they were written."""
    return options.system == "fashion-iq" and not (
        options.word_noise or options.index or options.score == "vectors"
    )


def _is_baseline(run: Path) -> bool:
    return str(run) in BASELINES and not run.exists()


def _without_training(catalog: Catalog, store: FeatureStore) -> RetrieverRun:
    """What is known of a baseline, and of a search without training: they learn no words."""
    return RetrieverRun(
        kind="retriever",
        category=catalog.category,
        attrs=False,
        model="none",
        sizes={},
        words=[],
        features=store.identity,
        data=CatalogOrigin(fingerprint=catalog.fingerprint()),
        user=None,
    )


def facts_of_dialogs(
    options: EvalDialogs,
    parts: EvaluationInputs,
    of_user: dict[str, Any],
    index: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Metadata of the dialogs for metrics.json."""
    return {
        "data": str(parts.catalog.root),
        "category": parts.catalog.category,
        "split": options.split,
        "coverage": len(parts.items) / len(parts.catalog.ids(options.split)),
        "features": parts.store.encoder,
        "store": str(parts.store.root),
        "pictures": parts.catalog.pictures_behind(parts.store.facts.of_words),
        "fingerprint": parts.catalog.fingerprint(),
        **of_user,
        "attributes": parts.about.attrs,
        "exclude_shown": parts.exclude_shown,
        "index": index,
        "retriever": str(options.run),
        "seed": options.seed,
    } | scored_by(options.score)
