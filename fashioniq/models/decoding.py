"""How a captioner speaks: greedy decoding and beam search over a batch, the image side encoded once per pair."""

from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from fashioniq.data.items import ItemInputs
from fashioniq.data.words import END, PAD, START, UNKNOWN
from fashioniq.models.layers import BeamSlots


class DecodingState(Protocol):
    """What decoding has heard: each pair, encoded once, and the words so far of every caption or beam, one a row."""

    def select(self, parent_R: Tensor, slots: BeamSlots) -> Self:
        """Rows that go on from the rows parent_R; `slots` says where they stand among the beams of the same pairs."""
        ...


class BaseCaptioner(nn.Module):
    """A relative captioner: (reference, target) → at most `max_words` words. Subclasses encode pairs and score next words."""

    def __init__(self, vocabulary: int, max_words: int, width: int) -> None:
        super().__init__()
        self.vocabulary, self.max_words, self.width = vocabulary, max_words, width

    def encode(self, reference: ItemInputs, target: ItemInputs) -> Any:
        """Everything about the two products that decoding needs, as a DecodingState."""
        raise NotImplementedError

    def advance(self, last_R: Tensor, place: int, state: Any) -> tuple[Tensor, Any]:
        """Scores of the word after each of last_R, which stand at `place`, R×V; and the state that has heard them."""
        raise NotImplementedError

    def forward(self, reference: ItemInputs, target: ItemInputs, words_RL: Tensor) -> Tensor:
        """Scores of every next word, R×L×V, given the start and the words before it (teacher forcing).

        R is B, or a multiple of it where pairs have several captions, which follow each other.
        """
        raise NotImplementedError

    def _next_log_probabilities(self, last_R: Tensor, place: int, state: Any) -> tuple[Tensor, Any]:
        """R×V. Padding, start and unknown are never said, and a caption has at least one word."""
        logits_RV, state = self.advance(last_R, place, state)
        scores_RV = logits_RV.float().log_softmax(-1)
        for word in (PAD, START, UNKNOWN, *([END] if place == 0 else [])):
            scores_RV[:, word] = float("-inf")
        return scores_RV, state

    @torch.no_grad()
    def greedy(self, reference: ItemInputs, target: ItemInputs) -> Tensor:
        """The most probable next word, again and again: B×max_words, padded after the last word. A caption that has ended leaves the batch."""
        state = self.encode(reference, target)
        batch, device = len(reference.features_BD), reference.features_BD.device
        words_BL = torch.full((batch, self.max_words), PAD, device=device)
        last_R, row_R = torch.full((batch,), START, device=device), torch.arange(batch, device=device)
        for place in range(self.max_words):
            scores_RV, state = self._next_log_probabilities(last_R, place, state)
            last_R = scores_RV.argmax(-1)
            going_R = (last_R != END).nonzero()[:, 0]
            last_R, row_R = last_R[going_R], row_R[going_R]
            words_BL[row_R, place] = last_R
            if not len(row_R):
                break
            state = state.select(going_R, BeamSlots(row_R, batch, 1))
        return words_BL

    @torch.no_grad()
    def beam(self, reference: ItemInputs, target: ItemInputs, beams: int) -> Tensor:
        """Beam search over the batch; the caption with the best mean log-probability a word wins: B×max_words.

        Rows are the hypotheses that have not ended; one that has keeps its place among the K of its pair.
        """
        if beams == 1:
            return self.greedy(reference, target)
        device, batch = reference.features_BD.device, len(reference.features_BD)
        state = self.encode(reference, target)
        words_BKL = torch.full((batch, 1, self.max_words), PAD, device=device)
        total_BK, length_BK = torch.zeros(batch, 1, device=device), torch.zeros(batch, 1, device=device)
        last_R, slot_R = torch.full((batch,), START, device=device), torch.arange(batch, device=device)
        for place in range(self.max_words):
            scores_RV, state = self._next_log_probabilities(last_R, place, state)
            score_RC, word_RC = scores_RV.topk(min(beams, self.vocabulary))
            # each place of each pair with its next words; in a place that has ended only the hypothesis itself
            total_SC = torch.full((total_BK.numel(), score_RC.shape[1]), float("-inf"), device=device)
            total_SC[:, 0] = total_BK.flatten()
            total_SC[slot_R] = total_SC[slot_R, :1] + score_RC
            word_SC = torch.full_like(total_SC, PAD, dtype=word_RC.dtype).index_copy(0, slot_R, word_RC)
            total_BK, choice_BK = total_SC.view(batch, -1).topk(min(beams, total_SC.numel() // batch))
            parent_BK, last_BK = choice_BK // total_SC.shape[1], word_SC.view(batch, -1).gather(1, choice_BK)
            words_BKL = words_BKL.gather(1, parent_BK.unsqueeze(-1).expand(-1, -1, self.max_words))
            words_BKL[:, :, place] = last_BK
            length_BK = length_BK.gather(1, parent_BK) + (last_BK != PAD)
            going_BK = (last_BK != PAD) & (last_BK != END) & (total_BK > float("-inf"))
            parent_BK = parent_BK + torch.arange(batch, device=device).unsqueeze(1) * (len(total_SC) // batch)
            earlier_R, slot_R = slot_R, going_BK.flatten().nonzero()[:, 0]
            parent_R, last_R = torch.searchsorted(earlier_R, parent_BK.flatten()[slot_R]), last_BK.flatten()[slot_R]
            if not len(slot_R):
                break
            state = state.select(parent_R, BeamSlots(slot_R, *going_BK.shape))
        best_B = (total_BK / length_BK.clamp(min=1)).argmax(1)
        words_BL = words_BKL[torch.arange(batch, device=device), best_B]
        return words_BL.masked_fill(words_BL == END, PAD)
