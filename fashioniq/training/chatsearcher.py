"""Training of a ChatSearcher (arXiv 2410.18715, section 4.3): one sum over predicted words and pictures.

Negatives of a picture are a queue of the latest pictures, those of the batch, or all items of train. Features are
frozen and M_Q is applied anew in each step, so the queue holds positions of items. Every item counts once, so the
target is no negative of itself where it is in the queue several times.
"""

import math
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
from fashioniq.metrics.ranking import percentile, recall_at
from fashioniq.models.chat_tokens import VISION, ChatTokens, TokenBatch, Tokenized
from fashioniq.models.chatsearcher import (
    ChatSearcher,
    candidates,
    enqueued,
    image_loss,
)

Negatives = Literal["queue", "batch", "full"]
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
        words, pictures, counts = self.losses(self.tokens.collate(drawn))
        return (words + pictures) / sum(counts)

    def losses(self, sequences: TokenBatch) -> tuple[Tensor, Tensor, tuple[int, int]]:
        """Sums of −log P over the words and over the pictures that are predicted, and how many these are."""
        device, image_R = self.device, sequences.image_R
        word_BL, picture_BL = predicted(sequences)
        # the pictures of a batch are in the order of their blocks, which begin with [IMG]
        item_R = image_R[sequences.learned_BL[:, 1:][sequences.ids_BL[:, :-1] == self.tokens.image]]
        if self.negatives == "queue":
            self.queue_Q = enqueued(self.queue_Q, image_R.to(device))
        on_device = sequences.to(device)
        hidden_BLD, _ = self.model(
            on_device.ids_BL, on_device.there_BL, self.features.pictures(image_R, device)
        )
        logits_PV = self.model.logits(hidden_BLD[:, :-1][word_BL.to(device)])
        words = F.cross_entropy(logits_PV, on_device.ids_BL[:, 1:][word_BL.to(device)], reduction="sum")
        item_N = self._candidates(item_R)
        key_NS = self.model.embed_images(self.features.vector_NF[item_N].to(device))
        query_RS = self.model.queries(hidden_BLD[:, :-1][picture_BL.to(device)])
        pictures = image_loss(query_RS, key_NS, item_R.to(device), item_N.to(device), self.model.temperature)
        return words, pictures, (int(word_BL.sum()), len(item_R))

    def _candidates(self, item_R: Tensor) -> Tensor:
        if self.negatives == "full":
            return self.train_items
        queue_Q = self.queue_Q.cpu() if self.negatives == "queue" else item_R[:0]
        return candidates(queue_Q, item_R)

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
        warmup = max(1, round(_WARMUP * steps))

        def factor(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, steps - warmup))))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
