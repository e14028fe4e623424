"""Training of a stage of the attribute predictor: binary cross-entropy on known labels.

Validation reports mean average precision and recall@8.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

from fashioniq.categories import canonical
from fashioniq.config import TrainAttributes
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.deepfashion import read_deepfashion
from fashioniq.data.labelled import NO, YES, LabelledSplits, labelled_products
from fashioniq.encoders.timm import load_network
from fashioniq.files import UserError, write_json
from fashioniq.loop.exact import NotFiniteError
from fashioniq.metrics.attributes import TOP, average_precision, mean_by_type, recall_at, summary
from fashioniq.models.attributes import AttributePredictor
from fashioniq.models.device import pick_device
from fashioniq.models.encoder import create_encoder, encoder_mean_std, encoder_size, normalise
from fashioniq.runs import PredictorRun, read_run
from fashioniq.runs.weights import load_weights
from fashioniq.training.fitting import fit, loaders
from fashioniq.training.folder import alone, begin_run, folder_of
from fashioniq.training.labelled_images import LabelledImages
from fashioniq.training.processes import FusedTraining


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


def augment(images_BCHW: Tensor) -> Tensor:
    """Mirror, shift and scale float pictures at random. Colors are unchanged, since color is an attribute."""
    batch = len(images_BCHW)
    scale_B2 = 0.9 + 0.2 * torch.rand(batch, 2, device=images_BCHW.device)
    scale_B2[:, 0] *= torch.randint(0, 2, (batch,), device=images_BCHW.device) * 2 - 1
    theta_B23 = torch.cat(
        [torch.diag_embed(scale_B2), 0.1 * torch.rand(batch, 2, 1, device=images_BCHW.device) - 0.05], 2
    )
    grid_BHW2 = F.affine_grid(theta_B23, list(images_BCHW.shape), align_corners=False)
    return F.grid_sample(images_BCHW, grid_BHW2, padding_mode="border", align_corners=False)


def chance_logits(labels_NA: np.ndarray) -> Tensor:
    """Logits of the positive share of each attribute's known labels, A: the best constant prediction."""
    known_A = np.maximum(1, (labels_NA >= NO).sum(0))
    return torch.from_numpy((labels_NA == YES).sum(0) / known_A).float().clamp(1e-4, 1 - 1e-4).logit()


def attribute_loss(logits_BA: Tensor, labels_BA: Tensor) -> Tensor:
    """Mean binary cross-entropy over the known labels."""
    known_BA, yes_BA = labels_BA >= NO, (labels_BA == YES).to(logits_BA.dtype)
    loss_BA = F.binary_cross_entropy_with_logits(logits_BA, yes_BA, reduction="none")
    return (loss_BA * known_BA).sum() / known_BA.sum().clamp(min=1)


class AttributeTraining(FusedTraining):
    """Lightning module for batches of (uint8 pictures, int8 labels).

    Pictures are normalized with `mean_std`. With `head_only`, the encoder and its batch statistics are
    frozen (the paper's second stage).
    """

    def __init__(
        self,
        model: AttributePredictor,
        *,
        types: Sequence[str],
        mean_std: tuple[tuple[float, ...], tuple[float, ...]],
        head_only: bool,
        learning_rate: float,
    ) -> None:
        super().__init__()
        self.model, self.types, self.head_only, self.learning_rate = model, types, head_only, learning_rate
        self.normalise = normalise(*mean_std)
        self._outputs: list[tuple[Tensor, Tensor]] = []
        model.to(memory_format=torch.channels_last).encoder.requires_grad_(not head_only)  # type: ignore[call-overload]

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        images_BCHW, labels_BA = batch
        # batch statistics need more than one picture
        self.model.encoder.train(not self.head_only and len(images_BCHW) > 1)
        _, logits_BA = self.model(augment(self._prepare(images_BCHW)))
        return attribute_loss(logits_BA, labels_BA)

    def on_validation_epoch_start(self) -> None:
        self._outputs = []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        logits_BA = self.predict_step(batch, batch_idx)
        self.log("val_loss", attribute_loss(logits_BA, batch[1]), batch_size=len(logits_BA))
        self._outputs.append((logits_BA.cpu(), batch[1].cpu()))

    def on_validation_epoch_end(self) -> None:
        scores_NA, labels_NA = (torch.cat(parts).numpy() for parts in zip(*self._outputs, strict=True))
        if not np.isfinite(scores_NA).all():
            raise NotFiniteError("a prediction is not finite")
        precision_A = average_precision(scores_NA, labels_NA)
        self.log("val_mAP", float(np.nanmean(precision_A)))
        self.log(f"val_recall@{TOP}", recall_at(scores_NA, labels_NA))
        for kind, value in mean_by_type(precision_A, self.types).items():
            self.log(f"val_mAP_{kind}", value)

    def predict_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Return the logits of a batch, B×A."""
        return self.model(self._prepare(batch[0]))[1].float()

    def configure_optimizers(self) -> Any:
        weights: list[nn.Parameter] = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=self.learning_rate, weight_decay=0.01, fused=self.can_fuse)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _prepare(self, images_BCHW: Tensor) -> Tensor:
        return self.normalise(images_BCHW).to(memory_format=torch.channels_last)


@torch.no_grad()
def score(module: AttributeTraining, batches: DataLoader[Any], device: torch.device) -> np.ndarray:
    """Return the logits of all pictures, N×A, from the current weights."""
    module.eval().to(device)
    return torch.cat(
        [module.predict_step([part.to(device) for part in batch], 0).cpu() for batch in batches]
    ).numpy()
