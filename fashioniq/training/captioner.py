"""Training of the relative captioner on human captions: cross-entropy of the next word, Noam schedule.

Validation reports corpus BLEU, and how well a linear retriever fitted to recorded captions finds the
target by them.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fashioniq.data.catalog import Pair
from fashioniq.data.items import ItemInputs, Items
from fashioniq.data.words import END, PAD, START, Vocabulary
from fashioniq.language.statements import StatementCheck
from fashioniq.metrics.captions import bleu
from fashioniq.metrics.ranking import percentile, recall_at
from fashioniq.metrics.speech import truthfulness
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.training.processes import FusedTraining, mean_over_processes, stepwise
from fashioniq.users.pragmatic import Listener

LANGUAGE = 20.0  # BLEU-1 below which captions are no language


def caption_examples(
    pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Encode captioned pairs: positions of references N and targets N, and words with start and end,
    N×K×(L+2).

    Missing captions of pairs with fewer than K are all padding.
    """
    position_of = items.positions
    captioned = [pair for pair in pairs if pair.target and pair.captions]
    words_RL = vocabulary.encode([text for pair in captioned for text in pair.captions], max_words)
    length_R = (words_RL != PAD).sum(1)
    framed_RL = torch.cat(
        [torch.full((len(words_RL), 1), START), words_RL, torch.full((len(words_RL), 1), PAD)], 1
    )
    framed_RL[torch.arange(len(words_RL)), length_R + 1] = END
    of_pairs = framed_RL.split([len(pair.captions) for pair in captioned])
    words_NKL = pad_sequence(of_pairs, batch_first=True, padding_value=PAD)
    reference_N = torch.tensor([position_of[pair.candidate] for pair in captioned])
    return reference_N, torch.tensor([position_of[str(pair.target)] for pair in captioned]), words_NKL


def put_together(examples: list[tuple[Tensor, Tensor, Tensor]]) -> list[Tensor]:
    """Collate pairs into a batch, trimmed to its largest number of captions per pair and longest caption."""
    reference_B, target_B, words_BKL = (torch.stack(parts) for parts in zip(*examples, strict=True))
    there_KL = (words_BKL != PAD).any(0)
    return [reference_B, target_B, words_BKL[:, : int(there_KL[:, 0].sum()), : int(there_KL.any(0).sum())]]


class CaptionerTraining(FusedTraining):
    """Lightning module for relative captioners.

    Training batches are (reference, target, words of the captions); validation batches are (reference,
    target, number of the pair). All captions of a pair are in one batch, so that images and attributes are
    encoded once. Without a `judge`, a listener that the captioner does not speak to, validation does not
    measure how informative captions are; without `truth`, the check by labels, not how true. `val_true`
    is 0 if no caption states anything that labels decide. `val_score` chooses the epoch: P, or the BLEU
    that `select` names. P can be high before captions are language, as the listener sees the item shown,
    too; such epochs count only if there are no others.
    """

    def __init__(
        self,
        model: BaseCaptioner,
        *,
        train: Items,
        val: Items,
        vocabulary: Vocabulary,
        val_pairs: list[Pair],
        judge: Listener | None = None,
        truth: StatementCheck | None = None,
        noam_factor: float,
        warmup: int,
        beam: int,
        select: str = "P",
    ) -> None:
        super().__init__()
        self.model, self.vocabulary, self.val_pairs, self.judge = model, vocabulary, val_pairs, judge
        self.noam_factor, self.warmup, self.beam, self.truth = noam_factor, warmup, beam, truth
        self.select = select
        self.items = {"train": train, "val": val}  # no buffers: DDP would broadcast them in every step
        self._captions: list[tuple[int, str]] = []

    def on_fit_start(self) -> None:
        self.items = {split: items.to(self.device) for split, items in self.items.items()}

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        reference_B, target_B, words_BKL = batch
        words_RL = words_BKL.flatten(0, 1)
        logits_RLV = self.model(
            self._inputs("train", reference_B), self._inputs("train", target_B), words_RL[:, :-1]
        )
        next_RL = words_RL[:, 1:]
        loss = F.cross_entropy(logits_RLV.flatten(0, 1), next_RL.flatten(), ignore_index=PAD, reduction="sum")
        # ranks have different numbers of words
        return loss / mean_over_processes((next_RL != PAD).sum().to(loss.dtype))

    def on_validation_epoch_start(self) -> None:
        self._captions = []

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        reference_B, target_B, number_B = batch
        words_BL = self.model.beam(self._inputs("val", reference_B), self._inputs("val", target_B), self.beam)
        self._captions += zip(number_B.tolist(), self.vocabulary.decode(words_BL), strict=True)

    def on_validation_epoch_end(self) -> None:
        """Log BLEU, the share of true statements, P and R@10 of the judge, who tells informative captions from vague
        ones, and the score.
        """
        pairs = [self.val_pairs[number] for number, _ in self._captions]
        texts = [text for _, text in self._captions]
        scores = bleu(texts, [pair.captions for pair in pairs])
        found = {f"BLEU-{n}": scores[n - 1] for n in (4, 3, 1)}
        if self.truth:
            said = ((text, str(pair.target), pair.candidate) for text, pair in zip(texts, pairs, strict=True))
            found["true"] = 100 * (truthfulness(said, self.truth)["true"] or 0.0)
        if self.judge is not None:
            examples = [
                (pair.candidate, text, str(pair.target)) for pair, text in zip(pairs, texts, strict=True)
            ]
            rank_N, items = self.judge.ranks(examples, self.items["val"]), len(self.items["val"])
            found |= {"P": percentile(rank_N, items), "R@10": recall_at(rank_N, 10)}
        if self.select in found:
            found["score"] = found[self.select]
            if self.select == "P" and found["BLEU-1"] < LANGUAGE:
                found["score"] -= 100.0
        for name, value in found.items():
            self.log(f"val_{name}", value)

    def configure_optimizers(self) -> Any:
        rate = self.noam_factor * self.model.width**-0.5
        optimizer = torch.optim.Adam(
            self.model.parameters(), lr=rate, betas=(0.9, 0.98), eps=1e-9, fused=self.can_fuse
        )
        return stepwise(optimizer, lambda step: min((step + 1) ** -0.5, (step + 1) * self.warmup**-1.5))

    def _inputs(self, split: str, item_B: Tensor) -> ItemInputs:
        return self.items[split].inputs(item_B)
