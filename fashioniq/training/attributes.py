"""Training the attribute predictor: binary cross-entropy per attribute, mean average precision and recall@8 on validation."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from sklearn.metrics import average_precision_score
from torch import Tensor, nn
from torch.utils.data import Dataset

from fashioniq.data.images import ToSquare, UnreadableImage, augment, load_image, normalise
from fashioniq.models.attributes import AttributePredictor


class LabelledImages(Dataset[tuple[Tensor, Tensor]]):
    """Pictures as uint8 squares and rows of yes/no labels. Each picture is tried once; `failures` says which were left out, and why."""

    def __init__(self, paths: Sequence[Path], labels_NA: np.ndarray, size: int) -> None:
        self.to_square = ToSquare(size)
        with ThreadPoolExecutor() as pool:  # Pillow decodes outside of Python's lock
            reasons = list(pool.map(_unreadable, paths))
        self.failures = {str(path): reason for path, reason in zip(paths, reasons, strict=True) if reason}
        self.paths = [path for path, reason in zip(paths, reasons, strict=True) if not reason]
        self.labels_NA = torch.from_numpy(labels_NA[[not reason for reason in reasons]].astype(np.float32))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        return self.to_square(load_image(self.paths[place])), self.labels_NA[place]


def _unreadable(path: Path) -> str:
    try:
        load_image(path)
    except UnreadableImage as error:
        return str(error)
    return ""


def attribute_scores(scores_NA: np.ndarray, labels_NA: np.ndarray, k: int = 8) -> dict[str, float]:
    """In percent: the mean over attributes of average precision, and the share of true labels among the k best guesses."""
    present_A = labels_NA.any(0)
    precision = [average_precision_score(labels_NA[:, column], scores_NA[:, column]) for column in np.flatnonzero(present_A)]
    best_NK = np.argsort(-scores_NA, axis=1, kind="stable")[:, :k]
    found = np.take_along_axis(labels_NA, best_NK, axis=1).sum()
    return {"mAP": 100 * float(np.mean(precision)), f"recall@{k}": 100 * float(found / max(1, labels_NA.sum()))}


class AttributeTraining(pl.LightningModule):
    """Batches are (uint8 pictures, labels). With `head_only` the encoder stays as it is, its statistics too (the paper's second stage)."""

    def __init__(self, model: AttributePredictor, mean: tuple[float, ...], std: tuple[float, ...], head_only: bool, learning_rate: float) -> None:
        super().__init__()
        self.model, self.head_only, self.learning_rate = model, head_only, learning_rate
        self.normalise = normalise(mean, std)
        self._outputs: list[tuple[Tensor, Tensor]] = []
        model.to(memory_format=torch.channels_last).encoder.requires_grad_(not head_only)  # type: ignore[call-overload]

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        images_BCHW, labels_BA = batch
        if self.head_only:
            self.model.encoder.eval()
        _, logits_BA = self.model(augment(self._prepare(images_BCHW)))
        return F.binary_cross_entropy_with_logits(logits_BA, labels_BA)

    def on_validation_epoch_start(self) -> None:
        self._outputs = []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        images_BCHW, labels_BA = batch
        self._outputs.append((self.model(self._prepare(images_BCHW))[1].float().cpu(), labels_BA.cpu()))

    def on_validation_epoch_end(self) -> None:
        scores_NA, labels_NA = (torch.cat(parts).numpy() for parts in zip(*self._outputs, strict=True))
        for name, value in attribute_scores(scores_NA, labels_NA).items():
            self.log(f"val_{name}", value)

    def configure_optimizers(self) -> Any:
        weights: list[nn.Parameter] = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=self.learning_rate, weight_decay=0.01)
        steps = int(self.trainer.estimated_stepping_batches)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _prepare(self, images_BCHW: Tensor) -> Tensor:
        return self.normalise(images_BCHW).to(memory_format=torch.channels_last)
