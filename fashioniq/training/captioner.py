"""Training the relative captioner on human captions: cross-entropy of the next word, Noam's learning rate, BLEU on validation."""

from typing import Any

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import Tensor

from fashioniq.data.catalog import Pair
from fashioniq.data.features import Items
from fashioniq.data.words import END, PAD, START, Vocabulary
from fashioniq.metrics.captions import bleu
from fashioniq.models.decoding import Looks, Speaker


def caption_examples(pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int) -> tuple[Tensor, Tensor, Tensor]:
    """Each caption of each pair as its own example: positions of reference and target, and the words with start and end, N×(L+2)."""
    places = {name: place for place, name in enumerate(items.ids)}
    rows = [(places[pair.candidate], places[pair.target], text) for pair in pairs if pair.target for text in pair.captions]
    words_NL = vocabulary.encode([text for *_, text in rows], max_words)
    length_N = (words_NL != PAD).sum(1)
    framed_NL = torch.cat([torch.full((len(rows), 1), START), words_NL, torch.full((len(rows), 1), PAD)], 1)
    framed_NL[torch.arange(len(rows)), length_N + 1] = END
    reference_N, target_N = (torch.tensor([row[side] for row in rows]) for side in (0, 1))
    return reference_N, target_N, framed_NL


class CaptionerTraining(pl.LightningModule):
    """Batches are (reference, target, words) in training and (reference, target, number of the pair) in validation."""

    def __init__(
        self,
        model: Speaker,
        train: Items,
        val: Items,
        vocabulary: Vocabulary,
        val_captions: list[tuple[str, ...]],
        noam_factor: float,
        warmup: int,
        beam: int,
    ) -> None:
        super().__init__()
        self.model, self.vocabulary, self.val_captions = model, vocabulary, val_captions
        self.noam_factor, self.warmup, self.beam = noam_factor, warmup, beam
        for split, items in (("train", train), ("val", val)):
            self.register_buffer(f"{split}_features", items.features_ND, persistent=False)
            self.register_buffer(f"{split}_attributes", items.attributes_NA, persistent=False)
        self._said: list[tuple[int, str]] = []

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        reference_B, target_B, words_BL = batch
        logits_BLV = self.model(self._looks("train", reference_B), self._looks("train", target_B), words_BL[:, :-1])
        return F.cross_entropy(logits_BLV.flatten(0, 1), words_BL[:, 1:].flatten(), ignore_index=PAD)

    def on_validation_epoch_start(self) -> None:
        self._said = []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        reference_B, target_B, number_B = batch
        words_BL = self.model.beam(self._looks("val", reference_B), self._looks("val", target_B), self.beam)
        self._said += zip(number_B.tolist(), self.vocabulary.decode(words_BL), strict=True)

    def on_validation_epoch_end(self) -> None:
        scores = bleu([text for _, text in self._said], [self.val_captions[number] for number, _ in self._said])
        self.log("val_BLEU-4", scores[3])
        self.log("val_BLEU-1", scores[0])

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.Adam(self.model.parameters(), lr=self.noam_factor * self.model.width**-0.5, betas=(0.9, 0.98), eps=1e-9)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) ** -0.5, (step + 1) * self.warmup**-1.5))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def _looks(self, split: str, item_B: Tensor) -> Looks:
        return Looks(getattr(self, f"{split}_features")[item_B], getattr(self, f"{split}_attributes")[item_B])
