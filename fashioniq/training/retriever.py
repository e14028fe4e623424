"""Training a retriever in simulated dialogs with a frozen user, on what people said of pairs, or both: triplet loss summed over the turns."""

import math
from typing import Any

import torch
from torch import Tensor

from fashioniq.data.catalog import Pair
from fashioniq.data.features import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, Message, User
from fashioniq.loop.rollout import System, rollout
from fashioniq.metrics.ranking import percentile, recall_at
from fashioniq.models.decoding import Speaker
from fashioniq.models.retriever import Listener
from fashioniq.training.fitting import epoch_seed
from fashioniq.training.losses import TurnLoss
from fashioniq.training.processes import FusedTraining, rank_and_count, shared_out, whole_batch
from fashioniq.users.captioner import CaptionerUser
from fashioniq.users.noisy import NoisyUser, chances
from fashioniq.users.recorded import Recorded


def random_others(item_B: Tensor, count: int) -> Tensor:
    """For each position another one of 0 … count − 1, uniformly, never itself."""
    return (item_B + shared_out(torch.randint(1, count, (len(item_B) * rank_and_count()[1],), device=item_B.device))) % count


class RecordedTurns:
    """What people said of pairs of a split, whose products are `items`: target, item shown, words; each caption is a dialog of one turn."""

    def __init__(self, pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int) -> None:
        places = {name: place for place, name in enumerate(items.ids)}
        rows = [(places[pair.target], places[pair.candidate], text) for pair in pairs if pair.target for text in pair.captions]
        self.target_R, self.first_R = (torch.tensor([row[side] for row in rows]) for side in (0, 1))
        self.words_RL = vocabulary.encode([row[2] for row in rows], max_words)

    def __len__(self) -> int:
        return len(self.target_R)

    def draw(self, count: int, device: torch.device) -> tuple[Tensor, Tensor, Recorded]:
        """`count` dialogs by chance, each as likely: what `dialogs` gives."""
        return self.dialogs(shared_out(torch.randint(len(self), (count * rank_and_count()[1],))), device)

    def dialogs(self, row_B: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Recorded]:
        """Targets and first items of these dialogs, and the user who says their words."""
        row_B = row_B.cpu()
        return self.target_R[row_B].to(device), self.first_R[row_B].to(device), Recorded.of_words(self.words_RL[row_B].unsqueeze(1).to(device))


class RetrieverTraining(FusedTraining):
    """Batches are positions of targets, or without a captioner of recorded dialogs, `recorded` by split.

    With a captioner the recorded ones of train are learnt beside the simulated ones, as many of them. The gallery is embedded once an
    epoch; candidates are picked by it, losses use fresh vectors.
    """

    def __init__(
        self,
        model: Listener,
        captioner: Speaker | None,
        vocabulary: Vocabulary,
        train: Items,
        val: Items,
        recorded: dict[str, RecordedTurns],
        asker: Asker,
        turns: int,
        loss: TurnLoss,
        negatives: str,
        beams: int,
        learning_rate: float,
        schedule: str,
        seed: int,
        errors: float = 0.0,
    ) -> None:
        super().__init__()
        self.model, self.asker, self.turns, self.loss, self.learning_rate, self.seed = model, asker, turns, loss, learning_rate, seed
        self.negatives, self.beams, self.errors, self.recorded, self.schedule = negatives, beams, errors, recorded, schedule
        self._items = {"train": train, "val": val}
        self._captioner = (captioner,)  # in a tuple, so that it is no part of this module: neither trained nor saved
        self._vocabulary = vocabulary
        self._ranks: list[Tensor] = []

    def _enter(self, split: str) -> tuple[Gallery, User | None]:
        items = self._items[split].to(self.device)
        with torch.no_grad():
            gallery = Gallery(items, self.model.embed_images(items.features_ND))
        if self._captioner[0] is None:
            return gallery, None
        captioner, words = self._captioner[0].to(self.device), self._vocabulary
        user = CaptionerUser(captioner, items, words, words, self.beams)
        if not self.errors:
            return gallery, user
        seed = self.seed if split == "val" else epoch_seed(self.seed, self.current_epoch)  # in validation the same in every epoch
        return gallery, NoisyUser(user, self.errors, words, chances(seed, self.turns, len(items), captioner.max_words, self.device))

    def on_train_epoch_start(self) -> None:
        self._train_side = self._enter("train")

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        (row_B,) = batch
        gallery, user = self._train_side
        vectors_ND = self.model.embed_images(gallery.items.features_ND) if self.negatives == "gallery" else None
        if user is None:
            return self._loss_of_dialogs(gallery, vectors_ND, *self.recorded["train"].dialogs(row_B, self.device), turns=1)
        loss = self._loss_of_dialogs(gallery, vectors_ND, row_B, random_others(row_B, len(gallery)), user, self.turns)
        if "train" in self.recorded:
            loss = loss + self._loss_of_dialogs(gallery, vectors_ND, *self.recorded["train"].draw(len(row_B), self.device), turns=1)
        return loss

    def _loss_of_dialogs(self, gallery: Gallery, vectors_ND: Tensor | None, target_B: Tensor, first_B: Tensor, user: User, turns: int) -> Tensor:
        """The loss against the whole gallery's fresh vectors, or without them against the batch's."""
        system = System(self.model, self.asker, gallery)
        dialogs = rollout(system, user, target_B, Message(item_B=first_B), turns, rank=False)
        if vectors_ND is None:
            item_N = whole_batch(target_B)
            vectors_ND = self.model.embed_images(gallery.items.features_ND[item_N])
        else:
            item_N = torch.arange(len(gallery), device=self.device)
        return self.loss(dialogs.query_BTD, vectors_ND, target_B.unsqueeze(1) == item_N)

    def on_validation_epoch_start(self) -> None:
        self._val_side, self._ranks = self._enter("val"), []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        (target_B,) = batch
        gallery, user = self._val_side
        if user is None:
            target_B, first_B, user = self.recorded["val"].dialogs(target_B, self.device)
        else:
            first_B = (target_B + 1 + self.seed % (len(gallery) - 1)) % len(gallery)  # any other fixed item: the same ones in every epoch
        dialogs = rollout(System(self.model, self.asker, gallery), user, target_B, Message(item_B=first_B), self.turns)
        self._ranks.append(dialogs.ranks)

    def on_validation_epoch_end(self) -> None:
        rank_BT = torch.cat(self._ranks)
        for turn in sorted({1, self.turns}):
            self.log(f"val_P_{turn}", percentile(rank_BT[:, turn - 1], len(self._items["val"])))
            self.log(f"val_R@10_{turn}", recall_at(rank_BT[:, turn - 1], 10))
        last_B = rank_BT[:, -1]
        self.log("val_score", recall_at(last_B, 10) + percentile(last_B, len(self._items["val"])) / 1000)  # P settles ties of R@10

    def configure_optimizers(self) -> Any:
        learnt = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.Adam(learnt, lr=self.learning_rate, fused=self.can_fuse)
        if self.schedule == "constant":
            return optimizer
        steps = int(self.trainer.estimated_stepping_batches)
        rising = max(1, steps // 10)

        def share(step: int) -> float:
            return (step + 1) / rising if step < rising else 0.5 + 0.5 * math.cos(math.pi * (step - rising) / max(1, steps - rising))

        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, share), "interval": "step"}}
