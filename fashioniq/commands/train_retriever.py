"""`fashioniq train-retriever`."""

from dataclasses import asdict

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.categories import canonical
from fashioniq.commands.common import (
    RETRIEVERS,
    describe_data,
    load_captioner,
    load_retriever,
    open_store,
    pairs_with_features,
    run_folder,
    sizes_of,
    split_items,
)
from fashioniq.config import TrainRetriever
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import SPECIAL, load_word_vectors
from fashioniq.files import UserError
from fashioniq.training.fitting import begin_run, fit, loaders
from fashioniq.training.losses import turn_loss
from fashioniq.training.retriever import RecordedTurns, RetrieverTraining


def run(settings: TrainRetriever) -> None:
    """Train the retriever of a category against a frozen captioner and leave it in the run's folder."""
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    user_run = run_folder(settings.captioner, "captioner", settings.category, settings.attrs)
    captioner, vocabulary, user_facts = load_captioner(user_run, settings.category, store)
    if settings.attrs and not user_facts["attrs"]:
        raise UserError(f"{user_run} was trained without attributes: give a captioner trained with --attrs, or leave --attrs out")
    train, val = (split_items(catalog, store, split) for split in ("train", "val"))
    recorded = None
    if settings.recorded_turns:
        pairs = pairs_with_features(catalog, store, "train")
        recorded = RecordedTurns(pairs, train, vocabulary, captioner.max_words)
    vectors_VD = None
    if settings.word_vectors:
        vectors_VD, lacking = load_word_vectors(settings.word_vectors, vocabulary)
        count = len(vocabulary) - len(SPECIAL)
        print(f"{count - len(lacking)} of {count} words have vectors in {settings.word_vectors}; without: {', '.join(lacking[:8]) or 'none'}")
    folder = run_folder(settings.run, "retriever", settings.category, settings.attrs)
    pl.seed_everything(settings.seed, verbose=False)
    model_class = RETRIEVERS[settings.model]
    known = asdict(settings) | {
        "vocabulary": len(vocabulary),
        "features": store.size,
        "attributes": len(store.attribute_words) if settings.attrs else 0,
        "max_words": captioner.max_words,
        "max_turns": settings.turns,
        "word_vector_size": 0 if vectors_VD is None else vectors_VD.shape[1],
    }
    sizes = sizes_of(model_class, known)
    model = model_class(**sizes)
    if vectors_VD is not None:
        model.set_word_vectors(vectors_VD)
    if settings.start:
        started, _, start_facts = load_retriever(settings.start, settings.category, store)
        if start_facts["sizes"] != sizes or start_facts["words"] != vocabulary.words:
            raise UserError(f"{settings.start} has other sizes or words than this training: give its --width, --layers and so on, and its captioner")
        model.load_state_dict(started.state_dict())
    begin_run(folder, "train-retriever", settings)
    facts = {
        "kind": "retriever",
        "category": canonical(settings.category),
        "attrs": settings.attrs,
        "model": settings.model,
        "sizes": sizes,
        "words": vocabulary.words,
        "features": store.identity,
        "data": describe_data(catalog, {split: len(items) / len(catalog.ids(split)) for split, items in (("train", train), ("val", val))}),
        "user": str(user_run),
        "loss": settings.loss,
        "negatives": settings.negatives,
        "recorded_turns": settings.recorded_turns,
    }
    module = RetrieverTraining(
        model,
        captioner,
        vocabulary,
        train,
        val,
        recorded,
        settings.turns,
        turn_loss(settings.loss, settings.margin),
        settings.negatives,
        settings.beam,
        settings.learning_rate,
        settings.schedule,
        settings.seed,
    )
    targets = [TensorDataset(torch.arange(len(items))) for items in (train, val)]
    batches = loaders(targets[0], targets[1], settings.batch_size, settings.seed)
    best = fit(module, model, *batches, folder, settings, facts, "val_score")
    print(
        f"retriever of epoch {best['epoch']:.0f} in {folder}: turn {settings.turns} P {best[f'val_P_{settings.turns}']:.1f}, "
        f"R@10 {best[f'val_R@10_{settings.turns}']:.1f} among the {len(val)} products of val, user {user_run}"
    )
