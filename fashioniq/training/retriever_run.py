"""Training run of a dialog retriever, and the parts that it shares with that of a composer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import TensorDataset

from fashioniq.askers.best_item import BestItem
from fashioniq.config import TrainComposer, TrainRetriever
from fashioniq.data.catalog import Catalog, Pair, text_of
from fashioniq.data.items import Items
from fashioniq.data.words import OF_CATALOG, SPECIAL, Vocabulary, learn_word_vectors, load_word_vectors
from fashioniq.features.selection import (
    check_enough_to_show,
    describe_data,
    pairs_with_features,
)
from fashioniq.features.store import FeatureStore, open_store
from fashioniq.files import UserError
from fashioniq.loop.messages import Asker
from fashioniq.models.configs import FITTED, ModelConfig, RetrieverConfig
from fashioniq.models.linear import LinearRetriever
from fashioniq.models.residual import ResidualRetriever
from fashioniq.models.retriever import BaseRetriever
from fashioniq.runs import RetrieverRun, read_run
from fashioniq.runs.predictor import head_of
from fashioniq.runs.trained import create, load_retriever
from fashioniq.training.dialog_sources import RecordedDialogs, RecordedSessions, Source
from fashioniq.training.fitting import fit, loaders, model_facts
from fashioniq.training.folder import alone, begin_run, folder_of
from fashioniq.training.linear import bigrams_of, start_linear
from fashioniq.training.linear_run import fit_to_captions
from fashioniq.training.losses import turn_loss
from fashioniq.training.retriever import DialogsInTurn, PolicyTraining, RetrieverTraining
from fashioniq.training.users import TrainingUsers, training_users
from fashioniq.training.verdict import advice, floor_of, retriever_verdict
from fashioniq.training.wording import HALFWAY, TRAINED, fit_wording

Settings = TrainRetriever | TrainComposer
Live = Callable[
    [dict[str, Items], Vocabulary, int], RecordedSessions
]  # of products by split, and words a turn
LINEAR_TEMPERATURE = 0.4
TRAINED_AS = {
    "linear": "a linear retriever; the paper's transformer: --model.kind transformer",
    "residual": "a transformer that begins as ridge regression; the paper's: --model.kind transformer",
    "transformer": "the paper's transformer",
    "rnn": "a recurrent retriever; the paper's transformer: --model.kind transformer",
}
VALIDATED = 1000  # dialogs of each user at most in validation with several turns, which take long


def coverage_of(
    catalog: Catalog, items: dict[str, Items], pairs: dict[str, list[Pair]] | None
) -> dict[str, float]:
    """Share of each split that is used: of its products, or of its pairs if only recorded captions are."""
    if pairs is None:
        return {split: len(some) / len(catalog.ids(split)) for split, some in items.items()}
    return {split: len(some) / len(catalog.pairs(split)) for split, some in pairs.items()}


@alone
def train_retriever(settings: TrainRetriever, live: Live | None = None) -> str:
    """Train the retriever of a category with the users of --users; return a one-line summary.

    `live` makes a source of recorded sessions, which then is every second source.

    Raises UserError if a file is missing or does not match, or if options exclude each other.
    """
    folder = folder_of(settings)
    if settings.epochs == 0:
        return fit_to_captions(settings, folder)
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    users = training_users(settings, catalog, store)
    items = users.items
    if any(source.turns > 1 for source in users.sources):
        check_enough_to_show(settings, *items.values())
    before = read_run(settings.init_from, RetrieverRun).sizes if settings.init_from else {}
    fitted = settings.model.kind in FITTED and not before
    bigrams = bigrams_of(users.examples, users.vocabulary) if fitted else []
    model, sizes = new_retriever(
        settings,
        store,
        users.vocabulary,
        captions=_captions(users, catalog) if settings.word_vectors == Path(OF_CATALOG) else [],
        max_words=before.get("max_words", users.max_words),
        max_turns=max(source.turns for source in users.sources),
        bigrams=before.get("bigrams", len(bigrams)),
    )
    halfway = fitted and settings.halfway
    data = describe_data(catalog, store, coverage_of(catalog, items, users.pairs_alone))
    facts = model_facts("retriever", settings, store, users.vocabulary, sizes, data=data) | {
        "user": users.captioner and str(users.captioner),
        "loss": settings.loss,
        "negatives": settings.negatives,
        "users": [*users.names, *(["live"] if live else [])],
        "dialogs": users.kind,
        "errors": settings.word_noise,
        "exclude_shown": settings.exclude_shown,
    }
    helpful = advice(catalog, store)
    _ = catalog.titles, catalog.descriptions  # a damaged file is refused before the run is begun
    writes, words = begin_run(folder, settings, facts), ""
    if fitted:
        print(
            f"fitting ridge regression to {len(users.examples):,} texts, then the weights of words …",
            flush=True,
        )
        linear = model.linear if isinstance(model, ResidualRetriever) else model
        assert isinstance(linear, LinearRetriever), "there are no others"
        start_linear(linear, bigrams, users.examples, items["train"], users.vocabulary)
    if writes:
        try:
            pairs = pairs_with_features(catalog, store, "train")
        except UserError:  # this category has no captions of people
            pairs = []
        words = fit_wording(
            folder,
            catalog,
            items["train"],
            pairs,
            users.vocabulary,
            seed=settings.seed,
            share=HALFWAY if halfway else TRAINED,
        )
        words += "\n"
    sources: list[Source] = [*users.sources]
    if live:
        recorded = live(items, users.vocabulary, model.max_words)
        sources = [part for source in users.sources for part in (source, recorded)]
    if settings.model.kind in ("transformer", "rnn") and not (settings.word_vectors or before):
        print(
            "word embeddings are learned from scratch; the paper has GloVe's of 300 numbers: --word-vectors FILE"
        )
    print(
        f"training {TRAINED_AS.get(settings.model.kind, settings.model.kind)} "
        f"(users: {', '.join(users.names)}; loss: {settings.loss})",
        flush=True,
    )
    asker = BestItem(settings.exclude_shown)
    best, verdict = fit_retriever(settings, folder, model, sources, facts, asker=asker, halfway=halfway)
    return f"{best}; users: {', '.join(users.names)}\n{words}{verdict}{helpful}"


def _captions(users: TrainingUsers, catalog: Catalog) -> list[str]:
    """Texts that the users say in the training split, and the recorded captions, which a captioner has learned."""
    said = [text for _, text, _ in users.examples]
    if "recorded" in users.names:
        return said
    try:
        return said + [text for pair in catalog.pairs("train") for text in pair.captions]
    except UserError:  # this category has no captions of people
        return said


def new_retriever(
    settings: Settings,
    store: FeatureStore,
    vocabulary: Vocabulary,
    *,
    captions: Sequence[str],
    max_words: int,
    max_turns: int,
    bigrams: int = 0,
) -> tuple[BaseRetriever, dict[str, Any]]:
    """Create a model with its word vectors, or with the weights of --init-from; also return its sizes.

    Word vectors of the catalog are learned from `captions` and from the texts of the products of train.
    """
    vectors_VD = None
    if settings.word_vectors:
        if settings.word_vectors == Path(OF_CATALOG):
            catalog = Catalog(settings.data, settings.category)
            texts = [*captions, *(text_of(catalog, name) for name in catalog.ids("train"))]
            vectors_VD, missing = learn_word_vectors(texts, vocabulary, settings.seed)
        else:
            vectors_VD, missing = load_word_vectors(settings.word_vectors, vocabulary)
        count = len(vocabulary) - len(SPECIAL)
        print(
            f"{count - len(missing)} of {count} words have vectors in {settings.word_vectors}; "
            f"without: {', '.join(missing[:8]) or 'none'}"
        )
    pl.seed_everything(settings.seed, verbose=False)
    config: ModelConfig = settings.model
    if isinstance(config, RetrieverConfig) and config.kind in FITTED:
        config = replace(config, width=min(config.width, store.size))
    sizes = config.sizes(
        vocabulary=len(vocabulary),
        features=store.size,
        attributes=len(store.attribute_words) if settings.attrs else 0,
        max_words=max_words,
        max_turns=max_turns,  # later turns share the last turn embedding
        word_vector_size=0 if vectors_VD is None else vectors_VD.shape[1],
        bigrams=bigrams,
    )
    predictor = getattr(settings, "predictor", None)
    sizes |= {"scores": True} if predictor else {}
    model: Any = create("retrievers", settings.model.kind, sizes)
    if predictor:
        model.scores.take(head_of(predictor, store)[0])
    if vectors_VD is not None:
        model.set_word_vectors(vectors_VD)
    if settings.init_from:
        started, _, start = load_retriever(settings.init_from, settings.category, store)
        if start.sizes != sizes or start.words != vocabulary.words:
            raise UserError(
                f"{settings.init_from} has other sizes or words than this training; "
                "use the same --model.kind, --model.width, --model.layers, --word-vectors, --predictor and so on"
            )
        model.load_state_dict(started.state_dict())
    return model, sizes


def fit_retriever(
    settings: Settings,
    folder: Path,
    model: BaseRetriever,
    sources: Sequence[Source],
    facts: dict[str, Any],
    *,
    asker: Asker,
    halfway: bool = False,
) -> tuple[str, str]:
    """Train a model on dialogs of some sources; return a summary of the best epoch, and whether it is good.

    With `halfway`, a fitted model stays halfway between ridge regression and the end of the training.
    """
    several = any(source.turns > 1 for source in sources)
    source = DialogsInTurn(sources, VALIDATED if several else None)
    options: dict[str, Any] = {
        "loss": turn_loss(settings.loss, settings.margin, _temperature(settings), model.scale),
        "negatives": settings.negatives,
        "learning_rate": settings.learning_rate,
        "schedule": settings.schedule,
    }
    if isinstance(settings, TrainRetriever):
        options["gallery_every"] = settings.gallery_every
    if isinstance(settings, TrainRetriever) and settings.stage == "policy":
        options |= {"negatives": "batch", "temperature": _temperature(settings) or 1.0}
        module: RetrieverTraining = PolicyTraining(model, source, asker, **options)
    else:
        module = RetrieverTraining(model, source, asker, **options)
    of_train, of_val = torch.arange(source.count("train")), torch.arange(source.count("val"))
    batches = loaders(TensorDataset(of_train), TensorDataset(of_val), settings.batch_size, settings.seed)
    best = fit(
        module,
        model,
        batches,
        run=folder,
        settings=settings,
        facts=facts,
        monitor="val_score",
        halfway=_of_ridge(model) if halfway else (),
    )
    turns, items = source.turns, source.items["val"]
    recall = {key.removeprefix("val_R@10_"): value for key, value in best.items() if "R@10" in key}
    users = {user: value for user, value in recall.items() if not user.isdigit()}
    recorded = next((one.recorded["val"] for one in sources if type(one) is RecordedDialogs), None)
    verdict = retriever_verdict(
        best[f"val_P_{turns}"],
        source.validated,
        users or {sources[0].name: recall[str(turns)]},
        products=len(items),
        floor=floor_of(recorded.target_N, recorded.item_NT[:, 0], items) if recorded else None,
    )
    summary = (
        f"retriever of epoch {best['epoch']:.0f} in {folder}: turn {turns} P {best[f'val_P_{turns}']:.1f}, "
        f"R@10 {best[f'val_R@10_{turns}']:.1f} among the {len(items)} products of val"
    )
    return summary, verdict


def _of_ridge(model: BaseRetriever) -> list[nn.Parameter]:
    """The weights of a fitted model whose values before the training are those of ridge regression."""
    if isinstance(model, ResidualRetriever):
        return [*model.linear.parameters(), *model.transformer.query.parameters()]
    return list(model.parameters())


def _temperature(settings: Settings) -> float | None:
    """Temperature of cross-entropy; the queries of a fitted retriever have unit length and need a higher one."""
    fitted = settings.loss == "cross-entropy" and settings.model.kind in FITTED
    return LINEAR_TEMPERATURE if fitted and settings.temperature is None else settings.temperature
