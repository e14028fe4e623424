"""Training of retrievers in simulated dialogs with a frozen user, on recorded captions, or on both.

Losses are summed over turns.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, Message, User
from fashioniq.loop.rollout import System, rollout
from fashioniq.metrics.ranking import percentile, recall_at
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.models.retriever import BaseRetriever
from fashioniq.training.fitting import epoch_seed
from fashioniq.training.losses import TurnLoss
from fashioniq.training.processes import FusedTraining, rank_and_count, shared_out, whole_batch
from fashioniq.users.captioner import CaptionerUser
from fashioniq.users.noisy import NoisyUser, chances
from fashioniq.users.recorded import Recorded


def random_others(item_B: Tensor, count: int) -> Tensor:
    """Draw for each position another one of 0 … count − 1, uniformly."""
    return (
        item_B
        + shared_out(torch.randint(1, count, (len(item_B) * rank_and_count()[1],), device=item_B.device))
    ) % count


class Start(NamedTuple):
    """Dialogs to simulate: positions of targets and first items (B each), user, and number of turns."""

    target_B: Tensor
    first_B: Tensor
    user: User
    turns: int


class DialogSource(Protocol):
    """Source of the dialogs of a training.

    `turns` is the number of turns in validation, `items` are the products of each split. Examples of a
    split are positions 0 … count(split) − 1.
    """

    turns: int
    items: dict[str, Items]

    def count(self, split: str) -> int: ...

    def enter(self, split: str, epoch: int, device: torch.device) -> None:
        """Prepare an epoch of a split."""
        ...

    def train(self, row_B: Tensor) -> Iterator[Start]:
        """Yield the dialogs of a training step; their losses are summed.

        The caller simulates each before it asks for the next, which fixes the order of random draws.
        """
        ...

    def val(self, row_B: Tensor) -> Start: ...


class SimulatedDialogs:
    """Dialogs with a frozen captioner as the user; every product of a split is the target once per epoch.

    A share of `word_noise` of the captioner's words is corrupted. `seed` fixes the noise, and the first
    items of validation.
    """

    def __init__(
        self,
        captioner: BaseCaptioner,
        vocabulary: Vocabulary,
        items: dict[str, Items],
        *,
        turns: int,
        beams: int,
        seed: int,
        word_noise: float = 0.0,
    ) -> None:
        self.captioner, self.vocabulary, self.items, self.turns = captioner, vocabulary, items, turns
        self.beams, self.seed, self.word_noise = beams, seed, word_noise
        self.users: dict[str, User] = {}

    def count(self, split: str) -> int:
        return len(self.items[split])

    def enter(self, split: str, epoch: int, device: torch.device) -> None:
        items, captioner, words = self.items[split].to(device), self.captioner.to(device), self.vocabulary
        user: User = CaptionerUser(captioner, items, words, words, self.beams)
        if self.word_noise:
            # the same validation noise in every epoch
            seed = self.seed if split == "val" else epoch_seed(self.seed, epoch)
            chance = chances(seed, self.turns, len(items), captioner.max_words, device)
            user = NoisyUser(user, self.word_noise, words, chance)
        self.users[split] = user

    def train(self, row_B: Tensor) -> Iterator[Start]:
        yield Start(row_B, random_others(row_B, self.count("train")), self.users["train"], self.turns)

    def val(self, row_B: Tensor) -> Start:
        count = self.count("val")
        # an item other than the target, the same in every epoch
        first_B = (row_B + 1 + self.seed % (count - 1)) % count
        return Start(row_B, first_B, self.users["val"], self.turns)


class RecordedTurns:
    """Recorded captions of the pairs of a split as dialogs of one turn each; `items` are the products."""

    def __init__(self, pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int) -> None:
        position_of = {name: position for position, name in enumerate(items.ids)}
        rows = [
            (position_of[pair.target], position_of[pair.candidate], text)
            for pair in pairs
            if pair.target
            for text in pair.captions
        ]
        self.target_R, self.first_R = (torch.tensor([row[side] for row in rows]) for side in (0, 1))
        self.words_RL = vocabulary.encode([row[2] for row in rows], max_words)

    def __len__(self) -> int:
        return len(self.target_R)

    def draw(self, count: int, device: torch.device) -> Start:
        """Draw `count` dialogs uniformly, with replacement."""
        return self.dialogs(shared_out(torch.randint(len(self), (count * rank_and_count()[1],))), device)

    def dialogs(self, row_B: Tensor, device: torch.device) -> Start:
        """Return the dialogs of some rows."""
        row_B = row_B.cpu()
        user = Recorded.of_words(self.words_RL[row_B].unsqueeze(1).to(device))
        return Start(self.target_R[row_B].to(device), self.first_R[row_B].to(device), user, 1)


class RecordedDialogs:
    """Recorded captions of both splits, each once per epoch, without a captioner."""

    turns = 1

    def __init__(self, recorded: dict[str, RecordedTurns], items: dict[str, Items]) -> None:
        self.recorded, self.items = recorded, items

    def count(self, split: str) -> int:
        return len(self.recorded[split])

    def enter(self, split: str, epoch: int, device: torch.device) -> None:
        self.device = device

    def train(self, row_B: Tensor) -> Iterator[Start]:
        yield self.recorded["train"].dialogs(row_B, self.device)

    def val(self, row_B: Tensor) -> Start:
        return self.recorded["val"].dialogs(row_B, self.device)


class BothDialogs(SimulatedDialogs):
    """Simulated dialogs plus an equal number of recorded captions in each training step."""

    def __init__(self, recorded: RecordedTurns, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.recorded = recorded

    def train(self, row_B: Tensor) -> Iterator[Start]:
        yield from super().train(row_B)
        yield self.recorded.draw(len(row_B), row_B.device)


class RetrieverTraining(FusedTraining):
    """Lightning module that trains on the dialogs of a source; batches are positions of its examples.

    The gallery is embedded once per epoch for the search of candidates; losses use fresh vectors.
    `negatives` is "batch" or "gallery".
    """

    def __init__(
        self,
        model: BaseRetriever,
        source: DialogSource,
        asker: Asker,
        *,
        loss: TurnLoss,
        negatives: str,
        learning_rate: float,
        schedule: str,
    ) -> None:
        super().__init__()
        self.model, self.source, self.asker, self.loss = model, source, asker, loss
        self.negatives, self.learning_rate, self.schedule = negatives, learning_rate, schedule
        self.galleries: dict[str, Gallery] = {}
        self._ranks: list[Tensor] = []

    def _enter(self, split: str) -> None:
        items = self.source.items[split].to(self.device)
        with torch.no_grad():
            self.galleries[split] = Gallery(items, self.model.embed_images(items.features_ND))
        self.source.enter(split, self.current_epoch, self.device)

    def on_train_epoch_start(self) -> None:
        self._enter("train")

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        (row_B,) = batch
        gallery = self.galleries["train"]
        vectors_ND = (
            self.model.embed_images(gallery.items.features_ND) if self.negatives == "gallery" else None
        )
        first, *more = [
            self._loss_of_dialogs(gallery, vectors_ND, start) for start in self.source.train(row_B)
        ]
        return sum(more, first)

    def _loss_of_dialogs(self, gallery: Gallery, vectors_ND: Tensor | None, start: Start) -> Tensor:
        """Loss against `vectors_ND` of the gallery, or against the targets of the batch if it is None."""
        target_B, first_B, user, turns = start
        system = System(self.model, self.asker, gallery)
        dialogs = rollout(system, user, target_B, Message(item_B=first_B), turns, rank=False)
        if vectors_ND is None:
            item_N = whole_batch(target_B)
            vectors_ND = self.model.embed_images(gallery.items.features_ND[item_N])
        else:
            item_N = torch.arange(len(gallery), device=self.device)
        return self.loss(dialogs.query_BTD, vectors_ND, target_B.unsqueeze(1) == item_N)

    def on_validation_epoch_start(self) -> None:
        self._enter("val")
        self._ranks = []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        gallery = self.galleries["val"]
        target_B, first_B, user, turns = self.source.val(batch[0])
        dialogs = rollout(
            System(self.model, self.asker, gallery), user, target_B, Message(item_B=first_B), turns
        )
        self._ranks.append(dialogs.ranks)

    def on_validation_epoch_end(self) -> None:
        rank_BT = torch.cat(self._ranks)
        for turn in sorted({1, self.source.turns}):
            self.log(f"val_P_{turn}", percentile(rank_BT[:, turn - 1], len(self.source.items["val"])))
            self.log(f"val_R@10_{turn}", recall_at(rank_BT[:, turn - 1], 10))
        last_B = rank_BT[:, -1]
        # P breaks ties of R@10
        self.log(
            "val_score", recall_at(last_B, 10) + percentile(last_B, len(self.source.items["val"])) / 1000
        )

    def configure_optimizers(self) -> Any:
        trainable = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.Adam(trainable, lr=self.learning_rate, fused=self.can_fuse)
        if self.schedule == "constant":
            return optimizer
        steps = int(self.trainer.estimated_stepping_batches)
        rising = max(1, steps // 10)

        def share(step: int) -> float:
            return (
                (step + 1) / rising
                if step < rising
                else 0.5 + 0.5 * math.cos(math.pi * (step - rising) / max(1, steps - rising))
            )

        return {
            "optimizer": optimizer,
            "lr_scheduler": {
                "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, share),
                "interval": "step",
            },
        }
