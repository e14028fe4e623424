"""Training a retriever in simulated dialogs with a frozen user, on recorded captions, or both; losses are
summed over turns."""

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
    """For each position another one of 0 … count − 1, uniformly, never itself."""
    return (item_B + shared_out(torch.randint(1, count, (len(item_B) * rank_and_count()[1],), device=item_B.device))) % count


class Start(NamedTuple):
    """Dialogs that are about to be held: targets and first items as positions B, the user, and the number of
    turns."""

    target_B: Tensor
    first_B: Tensor
    user: User
    turns: int


class DialogSource(Protocol):
    """Where the dialogs of a training come from: `turns` are those of validation, `items` the products of
    each split.

    Examples of a split are positions 0 … count(split) − 1.
    """

    turns: int
    items: dict[str, Items]

    def count(self, split: str) -> int: ...

    def enter(self, split: str, epoch: int, device: torch.device) -> None:
        """Prepare an epoch of a split."""
        ...

    def train(self, row_B: Tensor) -> Iterator[Start]:
        """The dialogs of a training step, whose losses are summed. Each is held before the next one is
        drawn."""
        ...

    def val(self, row_B: Tensor) -> Start: ...


class SimulatedDialogs:
    """Dialogs with a frozen captioner as the user: every product of a split is the target once an epoch.

    A share of `word_noise` of its words is corrupted; `seed` fixes which words, and the first items of
    validation.
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
            seed = self.seed if split == "val" else epoch_seed(self.seed, epoch)  # validation is the same in every epoch
            chance = chances(seed, self.turns, len(items), captioner.max_words, device)
            user = NoisyUser(user, self.word_noise, words, chance)
        self.users[split] = user

    def train(self, row_B: Tensor) -> Iterator[Start]:
        yield Start(row_B, random_others(row_B, self.count("train")), self.users["train"], self.turns)

    def val(self, row_B: Tensor) -> Start:
        count = self.count("val")
        first_B = (row_B + 1 + self.seed % (count - 1)) % count  # any other fixed item: the same ones in every epoch
        return Start(row_B, first_B, self.users["val"], self.turns)


class RecordedTurns:
    """Recorded captions of pairs of a split, whose products are `items`: each caption is a dialog of one
    turn."""

    def __init__(self, pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int) -> None:
        places = {name: place for place, name in enumerate(items.ids)}
        rows = [(places[pair.target], places[pair.candidate], text) for pair in pairs if pair.target for text in pair.captions]
        self.target_R, self.first_R = (torch.tensor([row[side] for row in rows]) for side in (0, 1))
        self.words_RL = vocabulary.encode([row[2] for row in rows], max_words)

    def __len__(self) -> int:
        return len(self.target_R)

    def draw(self, count: int, device: torch.device) -> Start:
        """`count` dialogs drawn uniformly, with replacement."""
        return self.dialogs(shared_out(torch.randint(len(self), (count * rank_and_count()[1],))), device)

    def dialogs(self, row_B: Tensor, device: torch.device) -> Start:
        """The dialogs of these rows."""
        row_B = row_B.cpu()
        user = Recorded.of_words(self.words_RL[row_B].unsqueeze(1).to(device))
        return Start(self.target_R[row_B].to(device), self.first_R[row_B].to(device), user, 1)


class RecordedDialogs:
    """Recorded captions of both splits, each once an epoch, without a captioner."""

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
    """Simulated dialogs, and in each training step as many recorded captions of train."""

    def __init__(self, recorded: RecordedTurns, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.recorded = recorded

    def train(self, row_B: Tensor) -> Iterator[Start]:
        yield from super().train(row_B)
        yield self.recorded.draw(len(row_B), row_B.device)


class RetrieverTraining(FusedTraining):
    """Training on the dialogs of a source; batches are positions of its examples.

    The gallery is embedded once an epoch: candidates are found in it, losses use fresh vectors. `negatives`
    are those of the batch or of the whole gallery.
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
        vectors_ND = self.model.embed_images(gallery.items.features_ND) if self.negatives == "gallery" else None
        first, *more = [self._loss_of_dialogs(gallery, vectors_ND, start) for start in self.source.train(row_B)]
        return sum(more, first)

    def _loss_of_dialogs(self, gallery: Gallery, vectors_ND: Tensor | None, start: Start) -> Tensor:
        """The loss against the whole gallery's fresh vectors, or without them against the batch's."""
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
        dialogs = rollout(System(self.model, self.asker, gallery), user, target_B, Message(item_B=first_B), turns)
        self._ranks.append(dialogs.ranks)

    def on_validation_epoch_end(self) -> None:
        rank_BT = torch.cat(self._ranks)
        for turn in sorted({1, self.source.turns}):
            self.log(f"val_P_{turn}", percentile(rank_BT[:, turn - 1], len(self.source.items["val"])))
            self.log(f"val_R@10_{turn}", recall_at(rank_BT[:, turn - 1], 10))
        last_B = rank_BT[:, -1]
        self.log("val_score", recall_at(last_B, 10) + percentile(last_B, len(self.source.items["val"])) / 1000)  # P settles ties of R@10

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
