"""`fashioniq train-captioner`."""

from dataclasses import replace
from typing import Any

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.categories import canonical
from fashioniq.commands.common import describe_data, open_store, pairs_with_features, run_folder
from fashioniq.config import TrainCaptioner
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import Vocabulary
from fashioniq.models.captioner import Captioner
from fashioniq.training.captioner import CaptionerTraining, caption_examples
from fashioniq.training.fitting import begin_run, fit, loaders


def run(settings: TrainCaptioner) -> None:
    """Train the captioner of a category and leave it in the run's folder."""
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    pairs = {split: pairs_with_features(catalog, store, split) for split in ("train", "val")}
    items = {
        split: store.items(list(dict.fromkeys(name for pair in some for name in (pair.target, pair.candidate) if name)))
        for split, some in pairs.items()
    }
    folder = run_folder(settings.run, "captioner", settings.category, settings.attrs)
    begin_run(folder, "train-captioner", settings)
    pl.seed_everything(settings.seed, verbose=False)
    vocabulary = Vocabulary.of((text for pair in pairs["train"] for text in pair.captions), settings.at_least)
    sizes: dict[str, Any] = {
        "vocabulary": len(vocabulary),
        "features": store.size,
        "attributes": len(store.attribute_words) if settings.attrs else 0,
        "width": settings.width,
        "heads": settings.heads,
        "hidden": settings.hidden,
        "layers": settings.layers,
        "dropout": settings.dropout,
        "max_words": settings.max_words,
    }
    model = Captioner(**sizes)
    facts = {
        "kind": "captioner",
        "category": canonical(settings.category),
        "attrs": settings.attrs,
        "sizes": sizes,
        "words": vocabulary.words,
        "features": store.identity,
        "data": describe_data(catalog),
    }
    train = caption_examples(pairs["train"], items["train"], vocabulary, settings.max_words)
    reference_N, target_N, _ = caption_examples(
        [replace(pair, captions=pair.captions[:1]) for pair in pairs["val"]], items["val"], vocabulary, settings.max_words
    )
    module = CaptionerTraining(
        model,
        items["train"],
        items["val"],
        vocabulary,
        [pair.captions for pair in pairs["val"]],
        settings.noam_factor,
        settings.warmup,
        settings.beam,
    )
    val = TensorDataset(reference_N, target_N, torch.arange(len(reference_N)))
    best = fit(module, model, *loaders(TensorDataset(*train), val, settings.batch_size, settings.seed), folder, settings, facts, "val_BLEU-4")
    print(
        f"captioner of epoch {best['epoch']:.0f} in {folder}: BLEU-4 {best['val_BLEU-4']:.1f} on {len(pairs['val'])} pairs of val, "
        f"beam {settings.beam}, captions: {catalog.captions_origin}"
    )
