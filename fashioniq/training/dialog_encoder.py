"""Training the image retriever F on partial dialogs, the images' features frozen (ChatIR, Levy et al. 2023): a random round of each,

some without their caption or another part, so that no part alone is relied on. All images of a batch are each other's negatives, however
few of its texts fit in memory.
"""

import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from fashioniq.data.dialogues import Dialogue, dialog_text, split_round
from fashioniq.data.features import Items
from fashioniq.loop.gallery import Gallery
from fashioniq.metrics.ranking import percentile, recall_at
from fashioniq.models.dialog_encoder import TextTower
from fashioniq.training.losses import TurnLoss, contrastive, recall_surrogate

LOSSES: dict[str, tuple[TurnLoss, ...]] = {"recall": (recall_surrogate,), "contrastive": (contrastive,), "both": (recall_surrogate, contrastive)}
_ROUNDS_LEFT_OUT = 0.5  # of an example whose rounds are masked
_TOKENS_LEFT_OUT = 0.15  # of one whose tokens are, as BERT's
_DECAY, _LEAST_RATE = 0.93, 1e-6  # of the learning rate, per epoch


def masked(rounds: Sequence[str], mask: str) -> list[str]:
    """The rounds of a dialog without the masked part; as they are where nothing would be left."""
    caption, *answered = rounds
    kept = {
        "caption": lambda: answered,
        "questions": lambda: [caption, *(split_round(text)[1] for text in answered)],
        "answers": lambda: [caption, *(split_round(text)[0] for text in answered)],
        "rounds": lambda: [caption, *(text for text in answered if random.random() >= _ROUNDS_LEFT_OUT)],
        "tokens": lambda: [" ".join(word for word in text.split() if random.random() >= _TOKENS_LEFT_OUT) for text in rounds],
    }[mask]()
    kept = [text for text in kept if text]
    return kept or list(rounds)


def partial_text(dialogue: Dialogue, mask: str, share: float, joined: str) -> str:
    """A dialog until a random round, each as likely; `mask` is left out of a `share` of them."""
    last = random.randrange(len(dialogue.rounds))
    if dialogue.alone or mask == "none" or random.random() >= share:
        return dialog_text(dialogue, last, joined)
    return joined.join(masked(dialogue.rounds[: last + 1], mask))


def embed_in_chunks(model: TextTower, texts: Sequence[str], chunk: int, device: torch.device) -> Tensor:
    """The queries of texts, B×D, `chunk` of them in memory at a time: each chunk is computed again for its gradient, with the same dropout.

    The gradient is that of all texts at once, as in gradient caching (Gao et al. 2021). Texts of a length go together: there is less to pad.
    """
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    parts = [model.tokens([texts[place] for place in order[start : start + chunk]]).to(device) for start in range(0, len(texts), chunk)]
    query_BD = torch.cat([checkpoint(model, part, use_reentrant=False) for part in parts] if len(parts) > 1 else [model(parts[0])])
    return query_BD[torch.tensor(order).argsort().to(device)]


class DialogEncoderTraining(pl.LightningModule):
    """Batches are positions of dialogs of a split, whose images are `items`: one for each dialog's name, in any order."""

    def __init__(
        self,
        model: TextTower,
        dialogues: dict[str, list[Dialogue]],
        items: dict[str, Items],
        losses: Sequence[TurnLoss],
        mask: str,
        mask_share: float,
        joined: str,
        chunk: int,
        learning_rate: float,
    ) -> None:
        super().__init__()
        self.model, self.dialogues, self.losses, self.joined, self.chunk, self.learning_rate = model, dialogues, losses, joined, chunk, learning_rate
        self._text = partial(partial_text, mask=mask, share=mask_share, joined=joined)
        self._items, self._target = items, {}
        for split, some in dialogues.items():
            places = {name: place for place, name in enumerate(items[split].ids)}
            self._target[split] = torch.tensor([places[dialogue.image] for dialogue in some])
        last = len(dialogues["val"][0].rounds) - 1
        self.val_rounds = sorted({0, last // 2, last})  # all of them would cost more than the training
        self._ranks: list[Tensor] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        rows = batch[0].tolist()
        texts = [self._text(self.dialogues["train"][row]) for row in rows]
        query_BTD = embed_in_chunks(self.model, texts, self.chunk, self.device).unsqueeze(1)
        target_B = self._target["train"][rows]
        vectors_ND = self.model.embed_images(self._items["train"].features_ND[target_B].to(self.device))
        same_BN = (target_B.unsqueeze(1) == target_B).to(self.device)
        return torch.stack([loss(query_BTD, vectors_ND, same_BN) for loss in self.losses]).sum()

    def on_validation_epoch_start(self) -> None:
        items = self._items["val"].to(self.device)
        self._gallery, self._ranks = Gallery(items, self.model.embed_images(items.features_ND)), []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        rows = batch[0].tolist()
        target_B = self._target["val"][rows].to(self.device)
        texts = ([dialog_text(self.dialogues["val"][row], last, self.joined) for row in rows] for last in self.val_rounds)
        rank_BT = [self._gallery.rank(embed_in_chunks(self.model, some, self.chunk, self.device), target_B) for some in texts]
        self._ranks.append(torch.stack(rank_BT, 1))

    def on_validation_epoch_end(self) -> None:
        rank_BT = torch.cat(self._ranks)
        for place, last in enumerate(self.val_rounds):
            self.log(f"val_R@10_{last}", recall_at(rank_BT[:, place], 10))
        self.log("val_score", recall_at(rank_BT.flatten(), 10) + percentile(rank_BT.flatten(), len(self._gallery)) / 1000)  # P settles ties of R@10

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW((weight for weight in self.model.parameters() if weight.requires_grad), lr=self.learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: max(_DECAY**epoch, _LEAST_RATE / self.learning_rate))
        return {"optimizer": optimizer, "lr_scheduler": schedule}
