"""Training of a ChatSearcher (arXiv 2410.18715, section 4.3): one sum over predicted words and pictures.

Negatives of a picture are a queue of the latest pictures, those of the batch, or all items of train. Features are
frozen and M_Q is applied anew in each step, so the queue holds positions of items. Every item counts once, so the
target is no negative of itself where it is in the queue several times.
"""

import random
from collections.abc import Sequence
from typing import Any, Literal

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.items import Items
from fashioniq.features.frozen import FrozenFeatures
from fashioniq.loop.gallery import Gallery
from fashioniq.metrics.measures import percentile, recall_at
from fashioniq.models.chat_tokens import VISION, ChatTokens, TokenBatch, Tokenized
from fashioniq.models.chatsearcher import (
    ChatSearcher,
    distinct_items,
    enqueued,
    image_loss,
)
from fashioniq.training.processes import stepwise, warm_cosine

Negatives = Literal["queue", "batch", "full"]
_PART = 16  # sequences that are padded together
_WARMUP = 0.03  # share of the steps, as in both stages of the paper


def predicted(batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """Positions, B×(L−1), whose next token is a word that is predicted, and those whose next is a picture."""
    next_BL = batch.learned_BL[:, 1:]
    picture_BL = batch.ids_BL[:, 1:] == VISION
    return next_BL & ~picture_BL, next_BL & picture_BL


class ChatSearcherTraining(pl.LightningModule):
    """Lightning module for ChatSearchers; batches are numbers of examples.

    A training example is one or several sequences, of which one is drawn; a validation example is a sequence that
    ends where the assistant speaks, and its target. `train_items` are the positions of the items of train.
    """

    queue_Q: Tensor

    def __init__(
        self,
        model: ChatSearcher,
        tokens: ChatTokens,
        features: FrozenFeatures,
        *,
        train: Sequence[Sequence[Tokenized]],
        val: Sequence[tuple[Tokenized, int]],
        train_items: Tensor,
        negatives: Negatives,
        queue: int,
        learning_rate: float,
    ) -> None:
        super().__init__()
        self.model, self.tokens, self.features = model, tokens, features
        self.train_examples, self.val_examples, self.train_items = train, val, train_items
        self.negatives, self.learning_rate = negatives, learning_rate
        self.register_buffer("queue_Q", torch.full((queue,), -1))
        self._ranks: list[Tensor] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        drawn = [random.choice(self.train_examples[row]) for row in batch[0].tolist()]
        drawn.sort(key=lambda one: len(one.ids))  # parts of similar length need less padding
        parts = (drawn[start : start + _PART] for start in range(0, len(drawn), _PART))
        words, pictures, counts = self.losses(*map(self.tokens.collate, parts))
        return (words + pictures) / sum(counts)

    def losses(self, *parts: TokenBatch) -> tuple[Tensor, Tensor, tuple[int, int]]:
        """Sums of −log P over the words and over the pictures that are predicted, and how many these are.

        The parts are one batch: their pictures have the same negatives.
        """
        device = self.device
        # the pictures of a part are in the order of their blocks, which begin with [IMG]
        item_R = torch.cat(
            [part.image_R[part.learned_BL[:, 1:][part.ids_BL[:, :-1] == self.tokens.image]] for part in parts]
        )
        if self.negatives == "queue":
            image_R = torch.cat([part.image_R for part in parts])
            self.queue_Q = enqueued(self.queue_Q, image_R.to(device))
        item_N = self._candidates(item_R)
        key_NS = self.model.embed_images(self.features.vector_NF[item_N].to(device))
        words, queries, count = [], [], 0
        for part in parts:
            word_BL, picture_BL = predicted(part)
            there = part.to(device)
            shown = self.features.pictures(part.image_R, device)
            hidden_BLD, _ = self.model(there.ids_BL, there.there_BL, shown)
            logits_PV = self.model.logits(hidden_BLD[:, :-1][word_BL.to(device)])
            next_P = there.ids_BL[:, 1:][word_BL.to(device)]
            words.append(F.cross_entropy(logits_PV, next_P, reduction="sum"))
            queries.append(self.model.queries(hidden_BLD[:, :-1][picture_BL.to(device)]))
            count += int(word_BL.sum())
        pictures = image_loss(
            torch.cat(queries), key_NS, item_R.to(device), item_N.to(device), self.model.temperature
        )
        return torch.stack(words).sum(), pictures, (count, len(item_R))

    def _candidates(self, item_R: Tensor) -> Tensor:
        if self.negatives == "full":
            return self.train_items
        queue_Q = self.queue_Q.cpu() if self.negatives == "queue" else item_R[:0]
        return distinct_items(queue_Q, item_R)

    def on_validation_epoch_start(self) -> None:
        with torch.no_grad():
            vectors_ND = self.model.embed_images(
                self.features.vector_NF[self.train_items].to(self.device)
            ).float()
        self._gallery = Gallery(Items.without_attributes([""] * len(vectors_ND), vectors_ND), vectors_ND)
        self._ranks = []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        some = [self.val_examples[row] for row in batch[0].tolist()]
        asked = self.tokens.collate([self.tokens.query(asked) for asked, _ in some])
        query_BS, _ = self.model.search(
            asked.to(self.device), self.features.pictures(asked.image_R, self.device)
        )
        target_B = torch.tensor([target for _, target in some])
        place_B = torch.searchsorted(self.train_items, target_B)
        self._ranks.append(self._gallery.rank(query_BS.float(), place_B.to(self.device)))

    def on_validation_epoch_end(self) -> None:
        rank_B = torch.cat(self._ranks).cpu()
        recalls = {n: recall_at(rank_B, n) for n in (1, 5, 10)}
        for n, value in recalls.items():
            self.log(f"val_R@{n}", value)
        # P breaks ties
        self.log("val_score", sum(recalls.values()) / 3 + percentile(rank_B, len(self._gallery)) / 1000)

    def configure_optimizers(self) -> Any:
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=self.learning_rate, weight_decay=0.0)
        steps = int(self.trainer.estimated_stepping_batches)
        return stepwise(optimizer, warm_cosine(steps, max(1, round(_WARMUP * steps))))
