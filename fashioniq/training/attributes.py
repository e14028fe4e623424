"""Training of the attribute predictor: binary cross-entropy on known labels.

Validation reports mean average precision and recall@8.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import track
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from fashioniq.data.images import PictureReader, UnreadableImage
from fashioniq.data.labelled import NO, YES, LabeledPhotos
from fashioniq.data.photos import Photo, box_is_possible, square_of_photo
from fashioniq.files import UserError
from fashioniq.loop.exact import NotFiniteError
from fashioniq.metrics.attributes import TOP, average_precision, mean_by_type, recall_at
from fashioniq.models.attributes import AttributePredictor
from fashioniq.models.encoder import normalise
from fashioniq.training.processes import FusedTraining

KEPT = 2**29  # bytes: largest set of decoded photos that a split keeps in memory


class LabelledImages(Dataset[tuple[Tensor, Tensor]]):
    """Photos as uint8 squares, 3×size×size, with rows of int8 labels.

    Every photo is decoded once at the start. Photos that cannot be read are skipped, with the reason in
    `failures`. `odd_boxes` counts photos whose box lies outside the picture; they are used uncropped. If
    all squares take at most `KEPT` bytes, they stay in memory (`squares_N3SS`); otherwise photos are
    decoded again in every epoch.
    """

    def __init__(self, photos: Sequence[Photo], labels_NA: np.ndarray, size: int, workers: int = 0) -> None:
        self.size = size
        keep = len(photos) * 3 * size * size <= KEPT
        with PictureReader(
            partial(square_of_photo, size=size) if keep else box_is_possible, workers
        ) as reader:
            results = reader(photos)
            opened: list[Any] = list(
                track(results, "opening photos", len(photos), disable=not sys.stderr.isatty())
            )
        kept = [place for place, result in enumerate(opened) if not isinstance(result, UnreadableImage)]
        self.failures = {
            str(photo.path): str(result)
            for photo, result in zip(photos, opened, strict=True)
            if isinstance(result, UnreadableImage)
        }
        self.odd_boxes = sum(not (opened[place][1] if keep else opened[place]) for place in kept)
        self.squares_N3SS = (
            torch.from_numpy(np.stack([opened[place][0] for place in kept])) if keep and kept else None
        )
        self.photos = [photos[place] for place in kept]
        self.labels_NA = labels_NA[kept] if self.failures else labels_NA

    @classmethod
    def of(cls, split: str, data: LabeledPhotos, size: int, workers: int, what: str) -> "LabelledImages":
        """The photos of a split; prints how many have `what`, and are readable. Raises UserError if none is."""
        images = cls(data.photos, data.labels_NA, size, workers)
        print(f"{split}: {len(images)} of {data.asked} have {what} and a readable picture", flush=True)
        for path, reason in list(images.failures.items())[:3]:
            print(f"  left out: {path}: {reason}")
        if len(images.failures) > 3:
            print(f"  left out: {len(images.failures) - 3} more")
        if images.odd_boxes:
            print(f"  {images.odd_boxes} have a box outside the picture; the whole picture is used")
        if not len(images):
            path, reason = next(iter(images.failures.items()))
            raise UserError(
                f"no {split} picture can be read, such as {path}: {reason}; check the folder of the pictures"
            )
        return images

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        labels_A = torch.from_numpy(self.labels_NA[place])
        if self.squares_N3SS is not None:
            return self.squares_N3SS[place], labels_A
        try:
            square, _ = square_of_photo(self.photos[place], self.size)
        except UnreadableImage as error:
            raise UnreadableImage(f"{self.photos[place].path}: {error}") from error
        return torch.from_numpy(square), labels_A


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
