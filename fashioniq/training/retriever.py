"""Training a dialog retriever against a frozen user: simulated dialogs, triplet loss summed over their turns."""

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from fashioniq.askers import BestItem
from fashioniq.data.catalog import Pair
from fashioniq.data.features import Items
from fashioniq.data.words import PAD, Vocabulary
from fashioniq.gallery import Gallery
from fashioniq.metrics.ranking import percentile, recall_at
from fashioniq.models.captioner import Captioner
from fashioniq.models.retriever import DialogRetriever
from fashioniq.rollout import rollout
from fashioniq.training.losses import TURN_LOSSES
from fashioniq.users import CaptionerUser, OpenedUser, User


def random_others(item_B: Tensor, count: int) -> Tensor:
    """For each position another one of 0 … count − 1, uniformly, never itself."""
    return (item_B + torch.randint(1, count, item_B.shape, device=item_B.device)) % count


class Openings:
    """What people said of pairs, by target: the first item shown and their words, to open some of the training dialogs with."""

    def __init__(self, pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int, share: float) -> None:
        places = {name: place for place, name in enumerate(items.ids)}
        rows = [(places[pair.target], places[pair.candidate], text) for pair in pairs if pair.target for text in pair.captions]
        rows.sort(key=lambda row: row[0])
        target_R = torch.tensor([row[0] for row in rows])
        self.first_R, self.words_RL = torch.tensor([row[1] for row in rows]), vocabulary.encode([row[2] for row in rows], max_words)
        self.start_N = torch.searchsorted(target_R, torch.arange(len(items)))
        self.count_N = torch.bincount(target_R, minlength=len(items))
        self.share = share

    def draw(self, target_B: Tensor, first_B: Tensor) -> tuple[Tensor, Tensor]:
        """For that share of the targets that have captions, a recorded first item and its words; else `first_B` and padding."""
        target_B = target_B.cpu()
        count_B = self.count_N[target_B]
        opened_B = (torch.rand(len(target_B)) < self.share) & (count_B > 0)
        row_B = (self.start_N[target_B] + (torch.rand(len(target_B)) * count_B).long()).clamp(max=len(self.first_R) - 1)
        device = first_B.device
        words_BL = self.words_RL[row_B].masked_fill(~opened_B.unsqueeze(1), PAD).to(device)
        return torch.where(opened_B.to(device), self.first_R[row_B].to(device), first_B), words_BL


class RetrieverTraining(pl.LightningModule):
    """Batches are positions of targets. The gallery is embedded once an epoch; candidates are picked by it, losses use fresh vectors."""

    def __init__(
        self,
        model: DialogRetriever,
        captioner: Captioner,
        speaks: Vocabulary,
        hears: Vocabulary,
        train: Items,
        val: Items,
        openings: Openings | None,
        turns: int,
        loss: str,
        beams: int,
        learning_rate: float,
        seed: int,
    ) -> None:
        super().__init__()
        self.model, self.turns, self.loss, self.learning_rate, self.seed = model, turns, TURN_LOSSES[loss], learning_rate, seed
        self.beams, self.openings = beams, openings
        self._items = {"train": train, "val": val}
        self._captioner = (captioner,)  # in a tuple, so that it is no part of this module: neither trained nor saved
        self._vocabularies = speaks, hears
        self._ranks: list[Tensor] = []

    def _enter(self, split: str) -> tuple[Gallery, User]:
        items = self._items[split].to(self.device)
        with torch.no_grad():
            gallery = Gallery(items, self.model.embed_images(items.features_ND))
        return gallery, CaptionerUser(self._captioner[0].to(self.device), items, *self._vocabularies, self.beams)

    def on_train_epoch_start(self) -> None:
        self._train_side = self._enter("train")

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        (target_B,) = batch
        gallery, user = self._train_side
        first_B = random_others(target_B, len(gallery))
        if self.openings is not None:
            first_B, opening_BL = self.openings.draw(target_B, first_B)
            user = OpenedUser(user, opening_BL)
        dialogs = rollout(self.model, BestItem(), user, gallery, target_B, first_B, self.turns, rank=False)
        target_BD = self.model.embed_images(gallery.items.features_ND[target_B])
        return self.loss(dialogs.query_BTD, target_BD, target_B.unsqueeze(1) == target_B)

    def on_validation_epoch_start(self) -> None:
        self._val_side, self._ranks = self._enter("val"), []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        (target_B,) = batch
        gallery, user = self._val_side
        first_B = (target_B + 1 + self.seed % (len(gallery) - 1)) % len(gallery)  # any other fixed item: the same ones in every epoch
        dialogs = rollout(self.model, BestItem(), user, gallery, target_B, first_B, self.turns)
        self._ranks.append(dialogs.ranks)

    def on_validation_epoch_end(self) -> None:
        rank_BT = torch.cat(self._ranks)
        for turn in sorted({1, self.turns}):
            self.log(f"val_P_{turn}", percentile(rank_BT[:, turn - 1], len(self._items["val"])))
            self.log(f"val_R@10_{turn}", recall_at(rank_BT[:, turn - 1], 10))

    def configure_optimizers(self) -> Any:
        return torch.optim.Adam((weight for weight in self.model.parameters() if weight.requires_grad), lr=self.learning_rate)
