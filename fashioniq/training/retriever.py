"""Training a dialog retriever against a frozen user: simulated dialogs, triplet loss summed over their turns."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from fashioniq.askers import BestItem
from fashioniq.data.features import Items
from fashioniq.data.words import Vocabulary
from fashioniq.gallery import Gallery
from fashioniq.metrics.ranking import percentile, recall_at
from fashioniq.models.captioner import Captioner
from fashioniq.models.retriever import DialogRetriever
from fashioniq.rollout import rollout
from fashioniq.training.losses import TURN_LOSSES
from fashioniq.users import CaptionerUser


def random_others(item_BT: Tensor, count: int) -> Tensor:
    """For each position another one of 0 … count − 1, uniformly, never itself."""
    step_BT = torch.randint(1, count, item_BT.shape, device=item_BT.device)
    return (item_BT + step_BT) % count


class RetrieverTraining(pl.LightningModule):
    """Batches are positions of targets. The gallery is embedded once an epoch; candidates are picked by it, losses use fresh vectors."""

    def __init__(
        self, model: DialogRetriever, captioner: Captioner, speaks: Vocabulary, hears: Vocabulary, train: Items, val: Items,
        turns: int, loss: str, learning_rate: float, seed: int,
    ) -> None:
        super().__init__()
        self.model, self.turns, self.loss, self.learning_rate, self.seed = model, turns, TURN_LOSSES[loss], learning_rate, seed
        self._items = {"train": train, "val": val}
        self._captioner = (captioner,)  # in a tuple, so that it is no part of this module: neither trained nor saved
        self._vocabularies = speaks, hears
        self._ranks: list[Tensor] = []

    def _enter(self, split: str) -> tuple[Gallery, CaptionerUser]:
        items = self._items[split].to(self.device)
        with torch.no_grad():
            gallery = Gallery(items, self.model.embed_images(items.features_ND))
        return gallery, CaptionerUser(self._captioner[0].to(self.device), items, *self._vocabularies)

    def on_train_epoch_start(self) -> None:
        self._train_side = self._enter("train")

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        (target_B,) = batch
        gallery, user = self._train_side
        first_B = random_others(target_B, len(gallery))
        dialogs = rollout(self.model, BestItem(), user, gallery, target_B, first_B, self.turns, rank=False)
        negative_BT = random_others(target_B.unsqueeze(1).expand(-1, self.turns), len(gallery))
        features_ND = gallery.items.features_ND
        target_BD, negative_BTD = self.model.embed_images(features_ND[target_B]), self.model.embed_images(features_ND[negative_BT])
        return self.loss(dialogs.query_BTD, target_BD, negative_BTD)

    def on_validation_epoch_start(self) -> None:
        self._val_side, self._ranks = self._enter("val"), []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        (target_B,) = batch
        gallery, user = self._val_side
        first_B = (target_B * 7919 + 1 + self.seed) % len(gallery)  # any fixed item will do: the same ones in every epoch
        dialogs = rollout(self.model, BestItem(), user, gallery, target_B, first_B, self.turns)
        self._ranks.append(dialogs.ranks)

    def on_validation_epoch_end(self) -> None:
        rank_BT = torch.cat(self._ranks)
        for turn in sorted({1, self.turns}):
            self.log(f"val_P_{turn}", percentile(rank_BT[:, turn - 1], len(self._items["val"])))
            self.log(f"val_R@10_{turn}", recall_at(rank_BT[:, turn - 1], 10))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam((weight for weight in self.model.parameters() if weight.requires_grad), lr=self.learning_rate)
