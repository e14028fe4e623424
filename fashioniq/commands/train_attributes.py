"""`fashioniq train-attributes`."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl

from fashioniq.categories import canonical
from fashioniq.checkpoints import load_weights, read_facts
from fashioniq.commands.common import load_encoder, run_folder
from fashioniq.config import TrainAttributes
from fashioniq.data.attributes import label_matrix, label_vocabulary
from fashioniq.data.catalog import Catalog, categories_in
from fashioniq.files import UserError
from fashioniq.models.attributes import AttributePredictor
from fashioniq.models.encoder import create_encoder, encoder_mean_std, encoder_size
from fashioniq.training.attributes import AttributeTraining, LabelledImages
from fashioniq.training.fitting import begin_run, fit, loaders


def run(settings: TrainAttributes) -> None:
    """Train a stage of the attribute predictor and leave it in the run's folder."""
    if settings.start and not settings.category:
        raise UserError("--start is for one category: give --category too")
    names = [settings.category] if settings.category else categories_in(settings.data)
    catalogs = [Catalog(settings.data, name) for name in names] or [Catalog(settings.data, "dresses")]  # the latter says what is missing
    train_ids = {catalog.category: catalog.ids("train") for catalog in catalogs}
    merged = {(catalog.category, name): lists for catalog in catalogs for name, lists in catalog.labels.items()}
    train_keys = [(category, name) for category, ids in train_ids.items() for name in ids]
    words = label_vocabulary(merged, train_keys, settings.at_least)
    if not words:
        raise UserError(
            f"no attribute word is carried by {settings.at_least} training products in {settings.data}: "
            "there must be attributes/asin2attr.*.json; --at-least takes fewer"
        )
    folder = settings.run or (run_folder(None, "attributes", settings.category, False) if settings.category else Path("runs/attributes"))
    started = read_facts(settings.start, "attribute predictor") if settings.start else None
    if started:  # so that config.yaml tells what was used
        settings = replace(settings, encoder=started["encoder"], image_size=started["image_size"], weights="none")
    encoder_name, size = settings.encoder, settings.image_size
    sets = {split: _labelled(catalogs, split, merged, words, size) for split in ("train", "val")}
    if started:
        encoder = create_encoder(encoder_name)
        first = AttributePredictor(encoder, encoder_size(encoder), len(started["attribute_words"]))
        load_weights(settings.start, first)  # type: ignore[arg-type]
    else:
        encoder, _ = load_encoder(encoder_name, settings.weights)
    begin_run(folder, "train-attributes", settings)
    pl.seed_everything(settings.seed, verbose=False)
    model = AttributePredictor(encoder, encoder_size(encoder), len(words))
    facts: dict[str, Any] = {
        "kind": "attribute predictor",
        "category": canonical(settings.category) if settings.category else "all",
        "encoder": encoder_name,
        "image_size": size,
        "attribute_words": words,
        "pictures": catalogs[0].pictures_origin,
    }
    module = AttributeTraining(model, *encoder_mean_std(encoder), bool(started), settings.learning_rate)
    best = fit(
        module, model, *loaders(sets["train"], sets["val"], settings.batch_size, settings.seed, settings.workers), folder, settings, facts, "val_mAP"
    )
    chance = 100 * sets["val"].labels_NA.mean(0).mean().item()
    print(
        f"attribute predictor of epoch {best['epoch']:.0f} in {folder}: mean average precision {best['val_mAP']:.1f} (chance {chance:.1f}), "
        f"recall@8 {best['val_recall@8']:.1f}, {len(words)} words, {len(sets['val'])} pictures of val"
    )


def _labelled(catalogs: list[Catalog], split: str, labels: dict[Any, list[list[str]]], words: list[str], size: int) -> LabelledImages:
    keys = [(catalog.category, name) for catalog in catalogs for name in catalog.ids(split) if name in catalog.images and name in catalog.labels]
    if not keys:
        raise UserError(f"no {split} product in {catalogs[0].root} has both a picture in images/ and attribute labels")
    paths = {(catalog.category, name): path for catalog in catalogs for name, path in catalog.images.items()}
    images = LabelledImages([paths[key] for key in keys], np.asarray(label_matrix(labels, keys, words)), size)
    for path, reason in list(images.failures.items())[:3]:
        print(f"left out: {path}: {reason}")
    if not len(images):
        raise UserError(f"not one {split} picture in {catalogs[0].root} can be read; the first: {next(iter(images.failures.items()))}")
    return images
