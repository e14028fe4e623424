"""Training run of a stage of the attribute predictor."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl

from fashioniq.categories import canonical
from fashioniq.config import TrainAttributes
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.deepfashion import read_deepfashion
from fashioniq.data.labelled import YES, LabelledSplits, labelled_products
from fashioniq.encoders.timm import load_network
from fashioniq.files import UserError, write_json
from fashioniq.metrics.attributes import summary
from fashioniq.models.attributes import AttributePredictor
from fashioniq.models.device import pick_device
from fashioniq.models.encoder import create_encoder, encoder_mean_std, encoder_size
from fashioniq.runs import PredictorRun, read_run
from fashioniq.runs.weights import load_weights
from fashioniq.training.attributes import AttributeTraining, LabelledImages, chance_logits, score
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.folder import alone, begin_run, folder_of


class TrainedStage(NamedTuple):
    """Folder of the run, keys of model.json, content of attributes.json, and the scores of the val pictures."""

    folder: Path
    facts: dict[str, Any]
    figures: dict[str, Any]
    scores_NA: np.ndarray
    val: LabelledImages


@alone
def train_attributes(settings: TrainAttributes) -> TrainedStage:
    """Train a stage of the attribute predictor, and write it with its measures on val.

    Raises UserError if pictures or labels are missing, or if options exclude each other.
    """
    began = settings.init_from
    first = read_run(began, PredictorRun) if began and not began.is_file() else None
    if began and not first:
        settings = replace(settings, weights=str(began))
    if first:  # so that config.yaml tells what was used
        settings = replace(settings, encoder=first.encoder, image_size=first.image_size, weights="none")
    data, origin, fingerprints = _read_data(settings)
    model = _begin_model(settings, first, data)
    folder = folder_of(settings)
    begin_run(folder, settings)
    train, val = (
        LabelledImages.of(split, some, settings.image_size, settings.workers, "labels")
        for split, some in (("train", data.train), ("val", data.val))
    )
    if not (val.labels_NA == YES).any():
        raise UserError(
            "no val picture has any of the attribute words; add labels, or give a lower --min-count"
        )
    facts: dict[str, Any] = {
        "kind": "attribute predictor",
        "category": canonical(settings.category) if settings.category else "all",
        "encoder": settings.encoder,
        "image_size": settings.image_size,
        "attribute_words": data.words,
        "attribute_types": data.types,
        "pictures": origin,
        "data": {"fingerprints": fingerprints},
        "coverage": {
            "train": len(train) / data.train.asked,
            "val": len(val) / data.val.asked,
        },  # share with labels and a readable picture
    }
    epoch, scores_NA = _fit(settings, folder, model, (train, val), facts, head_only=bool(began))
    figures = {"epoch": epoch} | summary(
        data.words, data.types, (train.labels_NA == YES).sum(0), scores_NA, val.labels_NA
    )
    write_json(folder / "attributes.json", figures)
    return TrainedStage(folder, facts, figures, scores_NA, val)


def _fit(
    settings: TrainAttributes,
    folder: Path,
    model: AttributePredictor,
    splits: tuple[LabelledImages, LabelledImages],
    facts: dict[str, Any],
    *,
    head_only: bool,
) -> tuple[int, np.ndarray]:
    """Train the model on train and val; return its best epoch, and its scores of the val pictures, N×A."""
    train, val = splits
    pl.seed_everything(settings.seed, verbose=False)
    module = AttributeTraining(
        model,
        types=facts["attribute_types"],
        mean_std=encoder_mean_std(model.encoder),
        head_only=head_only,
        learning_rate=settings.learning_rate,
    )
    in_memory = train.squares_N3SS is not None and val.squares_N3SS is not None
    workers = 0 if in_memory else settings.workers
    batches = loaders(train, val, settings.batch_size, settings.seed, workers)
    best = fit(module, model, batches, run=folder, settings=settings, facts=facts, monitor="val_mAP")
    return int(best["epoch"]), score(module, batches[1], pick_device(settings.device))


def _read_data(settings: TrainAttributes) -> tuple[LabelledSplits, str, dict[str, str]]:
    """Labelled pictures, their origin, and the fingerprint of each category (none for DeepFashion)."""
    if settings.deepfashion:
        return read_deepfashion(settings.deepfashion).carried_by(settings.min_count), "photographs", {}
    names = [settings.category] if settings.category else categories_in(settings.data)
    catalogs = [Catalog(settings.data, name) for name in names] or [
        Catalog(settings.data, "dresses")
    ]  # raises UserError that names the missing file
    fingerprints = {canonical(catalog.category): catalog.fingerprint() for catalog in catalogs}
    return labelled_products(catalogs, settings.min_count), catalogs[0].pictures_origin, fingerprints


def _begin_model(
    settings: TrainAttributes, first: PredictorRun | None, data: LabelledSplits
) -> AttributePredictor:
    """Model before the first step.

    Words of the first stage keep their weights; others start at their frequency.
    """
    if not first:
        encoder, _ = load_network(settings.encoder, settings.weights, settings.image_size)
    else:
        encoder = create_encoder(settings.encoder)
        known = {word: place for place, word in enumerate(first.attribute_words)}
        trained = AttributePredictor(encoder, encoder_size(encoder), len(known))
        load_weights(settings.init_from, trained)  # type: ignore[arg-type]
    model = AttributePredictor(encoder, encoder_size(encoder), len(data.words))
    model.answer_always(chance_logits(data.train.labels_NA))
    if first:
        shared = [word for word in data.words if word in known]
        model.take_words(
            trained.head, [data.words.index(word) for word in shared], [known[word] for word in shared]
        )
        print(
            f"{len(shared)} of {len(data.words)} attribute words start with the weights of "
            f"{settings.init_from}"
        )
    return model
