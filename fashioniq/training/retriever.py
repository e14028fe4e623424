"""Training of retrievers in dialogs with simulated users, and on recorded captions.

Losses are summed over turns; dialogs with fewer turns than others of the training weigh as much as those. A policy is
improved by looking ahead (Guo et al. 2018, section 3.3): the retriever chooses which product to show. At a turn of each
dialog, its best candidates are tried: the simulated user replies, the dialog goes on to its end, and the candidate with
the best ranks of the target from there on is the one that should have been shown.
"""

import random
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.askers.best_item import BestItem
from fashioniq.data.items import Items
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Asker, DialogState, Message
from fashioniq.loop.rollout import System, rollout
from fashioniq.metrics.measures import percentile, percentiles, recall_at
from fashioniq.models.retriever import BaseRetriever
from fashioniq.training.dialog_sources import DialogStarts, Source
from fashioniq.training.losses import TurnLoss
from fashioniq.training.processes import (
    FusedTraining,
    rank_and_count,
    shared_out,
    stepwise,
    warm_cosine,
    whole_batch,
)


class DialogsInTurn:
    """Several sources in turn, one per training step; validation uses all of them.

    An epoch has as many dialogs as the first source alone; the other sources draw theirs uniformly, with
    replacement. Of each source, at most `validated` dialogs of val are used, the same random ones in every epoch.
    """

    def __init__(self, sources: Sequence[Source], validated: int | None = None) -> None:
        self.sources, self.items = sources, sources[0].items
        self.turns = max(source.turns for source in sources)
        self._val_rows = [_some(source.count("val"), validated) for source in sources]

    def count(self, split: str) -> int:
        if split == "train":
            return self.sources[0].count(split)
        return max(map(len, self._val_rows))

    @property
    def validated(self) -> int:
        """Dialogs of val with all turns, of the source with the fewest."""
        pairs = zip(self.sources, self._val_rows, strict=True)
        return min(
            (len(row_R) for source, row_R in pairs if len(row_R) and source.turns == self.turns), default=0
        )

    def enter(self, split: str, epoch: int, device: torch.device) -> None:
        for source in self.sources:
            source.enter(split, epoch, device)

    def train(self, row_B: Tensor, step: int) -> DialogStarts:
        source = self.sources[step % len(self.sources)]
        if source is not self.sources[0]:
            drawn = torch.randint(source.count("train"), (len(row_B) * rank_and_count()[1],))
            row_B = shared_out(drawn).to(row_B.device)
        return source.train(row_B, step)

    def val(self, row_B: Tensor) -> dict[str, DialogStarts]:
        starts: dict[str, DialogStarts] = {}
        for source, row_R in zip(self.sources, self._val_rows, strict=True):
            own_B = row_B[row_B < len(row_R)]
            starts |= source.val(row_R.to(own_B.device)[own_B]) if len(own_B) else {}
        return starts


def _some(count: int, most: int | None) -> Tensor:
    """Rows of all, or of that many random ones: every n-th of them could be the first caption of every pair."""
    if most is None or count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most].sort().values


class RetrieverTraining(FusedTraining):
    """Lightning module that trains on the dialogs of a source; batches are positions of its examples.

    The gallery is embedded once per epoch for the search of candidates, or with `gallery_every` "step" at every step;
    losses use fresh vectors.
    `negatives` is "batch" or "gallery".
    """

    def __init__(
        self,
        model: BaseRetriever,
        source: Source | DialogsInTurn,
        asker: Asker,
        *,
        loss: TurnLoss,
        negatives: str,
        learning_rate: float,
        schedule: str,
        gallery_every: str = "epoch",
    ) -> None:
        super().__init__()
        self.model, self.source, self.asker, self.loss = model, source, asker, loss
        self.gallery_every = gallery_every
        self.negatives, self.learning_rate, self.schedule = negatives, learning_rate, schedule
        self.galleries: dict[str, Gallery] = {}
        self._ranks: dict[str, list[Tensor]] = {}
        self._distances: list[Tensor] = []

    def _enter(self, split: str) -> None:
        items = self.source.items[split].to(self.device)
        if self.negatives == "gallery" or self.gallery_every == "step":
            items = items.loaded()  # each step embeds all of them
        self.galleries[split] = self._gallery(items)
        self.source.enter(split, self.current_epoch, self.device)

    def _gallery(self, items: Items) -> Gallery:
        return Gallery(items, items.embedded(self.model.embed_images))

    def on_train_epoch_start(self) -> None:
        self._enter("train")

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        (row_B,) = batch
        if self.gallery_every == "step":
            self.galleries["train"] = self._gallery(self.galleries["train"].items)
        gallery = self.galleries["train"]
        vectors_ND = (
            self.model.embed_images(gallery.items.features_ND[:]) if self.negatives == "gallery" else None
        )
        return self._loss_of_dialogs(gallery, vectors_ND, self.source.train(row_B, self.global_step))

    def _loss_of_dialogs(self, gallery: Gallery, vectors_ND: Tensor | None, start: DialogStarts) -> Tensor:
        """Loss against `vectors_ND` of the gallery, or against the targets of the batch if it is None."""
        target_B, first_B, user, turns, asker = start
        system = System(self.model, asker or self.asker, gallery)
        dialogs = rollout(system, user, target_B, Message(item_B=first_B), turns, rank=False)
        if vectors_ND is None:
            item_N = whole_batch(target_B)
            vectors_ND = self.model.embed_images(gallery.items.features_ND[item_N])
        else:
            item_N = torch.arange(len(gallery), device=self.device)
        loss = self.loss(dialogs.query_BTD, vectors_ND, target_B.unsqueeze(1) == item_N)
        return loss * self.source.turns / turns

    def on_validation_epoch_start(self) -> None:
        self._enter("val")
        self._ranks, self._distances = {}, []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        gallery = self.galleries["val"]
        for name, (target_B, first_B, user, turns, asker) in self.source.val(batch[0]).items():
            system = System(self.model, asker or self.asker, gallery)
            dialogs = rollout(system, user, target_B, Message(item_B=first_B), turns)
            self._ranks.setdefault(name, []).append(dialogs.ranks)
            away_BT = (dialogs.query_BTD - gallery.vectors_ND[target_B].float().unsqueeze(1)).norm(dim=-1)
            self._distances.append(away_BT.flatten())

    def on_validation_epoch_end(self) -> None:
        """Log the mean over users of P and R@10, after the first turn and after the last one.

        P breaks ties of R@10 in `val_score`, the mean over all users after their last turn. `val_distance_95` is the
        distance from the query within which the target was after 95 % of the turns.
        """
        self.log("val_distance_95", torch.cat(self._distances).float().quantile(0.95))
        count = len(self.source.items["val"])
        ranks = {name: torch.cat(parts) for name, parts in self._ranks.items()}
        for turn in sorted({1, self.source.turns}):
            seen = [rank_BT[:, turn - 1] for rank_BT in ranks.values() if rank_BT.shape[1] >= turn]
            self.log(f"val_P_{turn}", fmean(percentile(rank_B, count) for rank_B in seen))
            self.log(f"val_R@10_{turn}", fmean(recall_at(rank_B, 10) for rank_B in seen))
        if len(ranks) > 1:
            for name, rank_BT in ranks.items():
                self.log(f"val_R@10_{name}", recall_at(rank_BT[:, -1], 10))
        last = [rank_BT[:, -1] for rank_BT in ranks.values()]
        self.log(
            "val_score", fmean(recall_at(rank_B, 10) + percentile(rank_B, count) / 1000 for rank_B in last)
        )

    def configure_optimizers(self) -> Any:
        trainable = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.Adam(trainable, lr=self.learning_rate, fused=self.can_fuse)
        if self.schedule == "constant":
            return optimizer
        steps = int(self.trainer.estimated_stepping_batches)
        return stepwise(optimizer, warm_cosine(steps, max(1, steps // 10)))


CANDIDATES = 4  # products tried
OTHERS = 5  # random products that the best candidate is compared with


class PolicyTraining(RetrieverTraining):
    """Lightning module: cross-entropy of the best of `CANDIDATES` products against `OTHERS` random ones.

    Every training step looks ahead from one turn, drawn uniformly from all but the last.
    """

    def __init__(self, *arguments: Any, temperature: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.temperature = temperature

    def _loss_of_dialogs(self, gallery: Gallery, vectors_ND: Tensor | None, start: DialogStarts) -> Tensor:
        target_B, first_B, user, turns, _ = start
        turn = random.Random(self.global_step).randrange(1, turns)  # the same in all processes
        system = System(self.model, self.asker, gallery)
        state = rollout(system, user, target_B, Message(item_B=first_B), turn, rank=False).state
        query_BD = state.queries[-1].vector_BD
        others_BC = torch.randint(len(gallery), (len(target_B), OTHERS)).to(self.device)
        item_BC = torch.cat([self._best(system, start, state), others_BC], 1)
        vectors_BCD = self.model.embed_images(gallery.items.features_ND[item_BC])
        square_BC = (query_BD.unsqueeze(1) - vectors_BCD).square().sum(-1)
        return F.cross_entropy(-square_BC / self.temperature, torch.zeros_like(target_B))

    @torch.no_grad()
    def _best(self, system: System, start: DialogStarts, state: DialogState) -> Tensor:
        """The candidate after which the target ranks best on average until the end, B×1."""
        assert isinstance(self.asker, BestItem), "looking ahead chooses among the best items"
        item_BK = self.asker.candidates(state, system.gallery, CANDIDATES)
        values = [
            percentiles(
                rollout(
                    system, start.user, start.target_B, Message(item_B=item_B), start.turns, state=state
                ).ranks,
                len(system.gallery),
            ).mean(1)
            for item_B in item_BK.unbind(1)
        ]
        return item_BK.gather(1, torch.stack(values, 1).argmax(1, keepdim=True))
