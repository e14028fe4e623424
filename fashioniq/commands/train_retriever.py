"""`fashioniq train-retriever`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.askers import BestItem
from fashioniq.categories import canonical
from fashioniq.commands.common import (
    RETRIEVERS,
    check_enough_to_show,
    describe_data,
    load_captioner,
    load_retriever,
    open_store,
    pairs_with_features,
    run_folder,
    seed_by_seed,
    sizes_of,
    split_items,
)
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog, Pair
from fashioniq.data.features import FeatureStore
from fashioniq.data.words import SPECIAL, Vocabulary, load_word_vectors
from fashioniq.files import UserError
from fashioniq.models.composer import PARTS
from fashioniq.models.decoding import Speaker
from fashioniq.models.retriever import Listener
from fashioniq.training.fitting import begin_run, fit, loaders
from fashioniq.training.losses import turn_loss
from fashioniq.training.retriever import RecordedTurns, RetrieverTraining

CAPTIONED = {"simulated": (), "recorded": ("train", "val"), "both": ("train",)}  # splits whose recorded captions are heard
MAX_WORDS = 8  # heard of a caption where no captioner says how many: the paper's; 5 to 8 % of the released ones are longer


def run(settings: TrainRetriever) -> None:
    """Train the retriever of a category against a frozen captioner, on recorded captions, or both, and leave it in the run's folder.

    Several seeds have a folder each.
    """
    _check_composer(settings)
    kind = f"composer-{settings.composition}" if settings.model == "composer" else "retriever"
    for one, folder in seed_by_seed(settings, run_folder(settings.run, kind, settings.category, settings.attrs)):
        _train(one, folder)


def _train(settings: TrainRetriever, folder: Path) -> None:
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    pairs = {split: pairs_with_features(catalog, store, split) for split in CAPTIONED[settings.dialogs]}
    captioner, vocabulary, user_run = _user(settings, store, pairs)
    max_words = captioner.max_words if captioner else MAX_WORDS
    train, val = (split_items(catalog, store, split) for split in ("train", "val"))
    items = {"train": train, "val": val}
    recorded = {split: RecordedTurns(some, items[split], vocabulary, max_words) for split, some in pairs.items()}
    check_enough_to_show(settings, train, val)
    turns = settings.turns if captioner else 1
    model, sizes = _model(settings, store, vocabulary, max_words, turns)
    begin_run(folder, "train-retriever", settings)
    share = {split: len(some) / len(catalog.ids(split)) for split, some in items.items()}
    if captioner is None:
        share = {split: len(some) / len(catalog.pairs(split)) for split, some in pairs.items()}
    facts = {
        "kind": "retriever",
        "category": canonical(settings.category),
        "attrs": settings.attrs,
        "model": settings.model,
        "sizes": sizes,
        "words": vocabulary.words,
        "features": store.identity,
        "data": describe_data(catalog, share),
        "user": user_run and str(user_run),
        "loss": settings.loss,
        "negatives": settings.negatives,
        "dialogs": settings.dialogs,
        "errors": settings.errors,
        "exclude_shown": settings.exclude_shown,
    }
    module = RetrieverTraining(
        model,
        captioner,
        vocabulary,
        train,
        val,
        recorded,
        BestItem(settings.exclude_shown),
        turns,
        turn_loss(settings.loss, settings.margin),
        settings.negatives,
        settings.beam,
        settings.learning_rate,
        settings.schedule,
        settings.seed,
        settings.errors,
    )
    of_train, of_val = (TensorDataset(torch.arange(len(items[split] if captioner else recorded[split]))) for split in ("train", "val"))
    batches = loaders(of_train, of_val, settings.batch_size, settings.seed)
    best = fit(module, model, *batches, folder, settings, facts, "val_score")
    said = f"user {user_run}" if captioner else f"{len(recorded['val'])} recorded captions"
    print(
        f"retriever of epoch {best['epoch']:.0f} in {folder}: turn {turns} P {best[f'val_P_{turns}']:.1f}, "
        f"R@10 {best[f'val_R@10_{turns}']:.1f} among the {len(val)} products of val, {said}"
    )


def _model(settings: TrainRetriever, store: FeatureStore, vocabulary: Vocabulary, max_words: int, turns: int) -> tuple[Listener, dict[str, Any]]:
    """A new model, with the word vectors or the weights that it is to begin with, and its sizes."""
    vectors_VD = None
    if settings.word_vectors:
        vectors_VD, lacking = load_word_vectors(settings.word_vectors, vocabulary)
        count = len(vocabulary) - len(SPECIAL)
        print(f"{count - len(lacking)} of {count} words have vectors in {settings.word_vectors}; without: {', '.join(lacking[:8]) or 'none'}")
    pl.seed_everything(settings.seed, verbose=False)
    model_class = RETRIEVERS[settings.model]
    known = asdict(settings) | {
        "vocabulary": len(vocabulary),
        "features": store.size,
        "attributes": len(store.attribute_words) if settings.attrs else 0,
        "max_words": max_words,
        "max_turns": turns,  # later ones carry the mark of the last that was learnt
        "word_vector_size": 0 if vectors_VD is None else vectors_VD.shape[1],
    }
    sizes = sizes_of(model_class, known)
    model = model_class(**sizes)
    if vectors_VD is not None:
        model.set_word_vectors(vectors_VD)
    if settings.start:
        started, _, start_facts = load_retriever(settings.start, settings.category, store)
        if start_facts.sizes != sizes or start_facts.words != vocabulary.words:
            raise UserError(f"{settings.start} has other sizes or words than this training: give its --width, --layers and so on, and its captioner")
        model.load_state_dict(started.state_dict())
    return model, sizes


def _check_composer(settings: TrainRetriever) -> None:
    """Raise UserError where a composer is to learn from dialogs, or is told something else of attributes than its composition says."""
    if settings.model != "composer":
        if settings.composition != "A":
            raise UserError(f"--composition {settings.composition} is of a composer, --model is {settings.model}: give --model composer")
        return
    if settings.dialogs != "recorded":
        raise UserError(f"a composer hears a single turn, --dialogs is {settings.dialogs}: train it with --dialogs recorded")
    if settings.attrs != ("attributes" in PARTS[settings.composition]):
        rule = "sees no attributes: leave --attrs out" if settings.attrs else "sees attributes: give --attrs"
        raise UserError(f"a composer of composition {settings.composition} {rule}")


def _user(settings: TrainRetriever, store: FeatureStore, pairs: dict[str, list[Pair]]) -> tuple[Speaker | None, Vocabulary, Path | None]:
    """The captioner that plays the user, its vocabulary and its run; with recorded captions alone no captioner, and the words of train."""
    if settings.dialogs == "recorded":
        if settings.errors:
            raise UserError(f"--errors is {settings.errors}, of a captioner's words, and --dialogs recorded has no captioner: leave one of them out")
        if settings.exclude_shown:
            raise UserError("--exclude-shown is for dialogs of several turns, and --dialogs recorded has one: leave one of them out")
        return None, Vocabulary.of(text for pair in pairs["train"] for text in pair.captions), None
    run = run_folder(settings.captioner, "captioner", settings.category, settings.attrs)
    captioner, vocabulary, _ = load_captioner(run, settings.category, store)
    return captioner, vocabulary, run
