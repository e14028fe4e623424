"""`fashioniq train-captioner`."""

from dataclasses import asdict, replace
from pathlib import Path

import pytorch_lightning as pl
import torch
from torch.utils.data import TensorDataset

from fashioniq.categories import canonical
from fashioniq.commands.common import CAPTIONERS, describe_data, open_store, pairs_with_features, run_folder, seed_by_seed, sizes_of
from fashioniq.config import TrainCaptioner
from fashioniq.data.catalog import Catalog
from fashioniq.data.words import PAD, SPECIAL, Vocabulary, tokenize
from fashioniq.training.captioner import CaptionerTraining, caption_examples, put_together
from fashioniq.training.fitting import begin_run, fit, loaders


def run(settings: TrainCaptioner) -> None:
    """Train the captioner of a category and leave it in the run's folder, or one of each seed in a folder of its own."""
    for one, folder in seed_by_seed(settings, run_folder(settings.run, "captioner", settings.category, settings.attrs)):
        _train(one, folder)


def _train(settings: TrainCaptioner, folder: Path) -> None:
    catalog = Catalog(settings.data, settings.category)
    store = open_store(settings.data, settings.category, settings.features, settings.attrs)
    pairs = {split: pairs_with_features(catalog, store, split) for split in ("train", "val")}
    items = {
        split: store.items(list(dict.fromkeys(name for pair in some for name in (pair.target, pair.candidate) if name)))
        for split, some in pairs.items()
    }
    coverage = {split: len(some) / len(catalog.pairs(split)) for split, some in pairs.items()}
    begin_run(folder, "train-captioner", settings)
    pl.seed_everything(settings.seed, verbose=False)
    vocabulary = Vocabulary.of((text for pair in pairs["train"] for text in pair.captions), settings.at_least)
    _tell_unknown(vocabulary, [text for pair in pairs["val"] for text in pair.captions])
    model_class = CAPTIONERS[settings.model]
    attributes = len(store.attribute_words) if settings.attrs else 0
    sizes = sizes_of(model_class, asdict(settings) | {"vocabulary": len(vocabulary), "features": store.size, "attributes": attributes})
    model = model_class(**sizes)
    facts = {
        "kind": "captioner",
        "category": canonical(settings.category),
        "attrs": settings.attrs,
        "model": settings.model,
        "sizes": sizes,
        "words": vocabulary.words,
        "features": store.identity,
        "data": describe_data(catalog, coverage),
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
    captions = int((train[2][:, :, 0] != PAD).sum())
    pairs_a_step = max(1, round(settings.batch_size * len(train[2]) / captions))
    batches = loaders(TensorDataset(*train), val, pairs_a_step, settings.seed, collate=put_together)
    best = fit(module, model, *batches, folder, settings, facts, "val_BLEU-4")
    print(
        f"captioner of epoch {best['epoch']:.0f} in {folder}: BLEU-4 {best['val_BLEU-4']:.1f} on {len(pairs['val'])} pairs of val "
        f"({100 * coverage['val']:.1f} %), beam {settings.beam}, captions: {catalog.captions_origin}"
    )


def _tell_unknown(vocabulary: Vocabulary, texts: list[str]) -> None:
    unknown = vocabulary.unknown(texts)
    share = 100 * unknown.total() / sum(len(tokenize(text)) for text in texts)
    examples = f", as {', '.join(word for word, _ in unknown.most_common(5))}" if unknown else ""
    print(f"{len(vocabulary) - len(SPECIAL)} words; {share:.1f} % of the words of val are unknown{examples}")
