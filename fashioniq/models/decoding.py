"""How a captioner speaks: greedy decoding and beam search over a batch, the image side encoded once per pair."""

from typing import Any, NamedTuple, Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.words import END, PAD, START, UNKNOWN


class Looks(NamedTuple):
    """What is known of a batch of products: image features, and attribute ids where 0 means none."""

    features_BD: Tensor
    attributes_BA: Tensor


class SpeakingState(Protocol):
    """What decoding has heard: the pair, encoded once, and the words so far. One row a caption or beam."""

    @property
    def rows(self) -> int: ...

    def select(self, rows: Tensor) -> Self:
        """The given rows, in their order, with the words and the pair of each."""
        ...

    def select_words(self, rows: Tensor) -> Self:
        """The words of the given rows, where the pair of row i and of rows[i] is the same: beams of one caption."""
        ...


class Speaker(nn.Module):
    """A relative captioner: (reference, target) → at most `max_words` words. Subclasses encode pairs and score next words."""

    def __init__(self, vocabulary: int, max_words: int, width: int) -> None:
        super().__init__()
        self.vocabulary, self.max_words, self.width = vocabulary, max_words, width

    def encode(self, reference: Looks, target: Looks) -> Any:
        """Everything about the two products that decoding needs, as a SpeakingState."""
        raise NotImplementedError

    def advance(self, words_BL: Tensor, place: int, state: Any) -> tuple[Tensor, Any]:
        """Scores of the word after each of `words_BL`, B×L×V, the first of which stands at `place`; and the state that has heard them."""
        raise NotImplementedError

    def forward(self, reference: Looks, target: Looks, words_BL: Tensor) -> Tensor:
        """Scores of every next word, B×L×V, given the start and the words before it (teacher forcing)."""
        return self.advance(words_BL, 0, self.encode(reference, target))[0]

    def _next_log_probabilities(self, last_B: Tensor, place: int, state: Any) -> tuple[Tensor, Any]:
        """B×V. Padding, start and unknown are never said, and a caption has at least one word."""
        logits_BLV, state = self.advance(last_B.unsqueeze(1), place, state)
        scores_BV = logits_BLV[:, -1].float().log_softmax(-1)
        scores_BV[:, [PAD, START, UNKNOWN]] = float("-inf")
        if place == 0:
            scores_BV[:, END] = float("-inf")
        return scores_BV, state

    @torch.no_grad()
    def greedy(self, reference: Looks, target: Looks) -> Tensor:
        """The most probable next word, again and again: B×max_words, padded after the last word."""
        state = self.encode(reference, target)
        last_B = torch.full((len(reference.features_BD),), START, device=reference.features_BD.device)
        words_BL = torch.full((len(last_B), self.max_words), PAD, device=last_B.device)
        done_B = torch.zeros_like(last_B, dtype=torch.bool)
        for place in range(self.max_words):
            scores_BV, state = self._next_log_probabilities(last_B, place, state)
            last_B = scores_BV.argmax(-1)
            done_B = done_B | (last_B == END)
            words_BL[:, place] = last_B.masked_fill(done_B, PAD)
            if done_B.all():
                break
        return words_BL

    @torch.no_grad()
    def beam(self, reference: Looks, target: Looks, beams: int) -> Tensor:
        """Beam search over the batch; the caption with the best mean log-probability a word wins: B×max_words.

        Hypotheses of equal score keep the order in which they were found, so that one beam is greedy decoding.
        """
        if beams == 1:
            return self.greedy(reference, target)
        device, batch = reference.features_BD.device, len(reference.features_BD)
        state = self.encode(reference, target)
        words_BKL = torch.full((batch, 1, 0), PAD, device=device)
        last_BK = torch.full((batch, 1), START, device=device)
        total_BK, length_BK = torch.zeros(batch, 1, device=device), torch.zeros(batch, 1, device=device)
        done_BK = torch.zeros(batch, 1, dtype=torch.bool, device=device)
        only_pad_V = torch.full((self.vocabulary,), float("-inf"), device=device)
        only_pad_V[PAD] = 0.0
        for place in range(self.max_words + 1):
            if place < self.max_words:
                scores_BV, state = self._next_log_probabilities(last_BK.flatten(), place, state)
            else:  # eight words are said: the end follows by itself
                scores_BV = only_pad_V.expand(last_BK.numel(), -1)
            scores_BKV = torch.where(done_BK.unsqueeze(-1), only_pad_V, scores_BV.unflatten(0, last_BK.shape))
            total_BK, choice_BK = (total_BK.unsqueeze(-1) + scores_BKV).flatten(1).topk(min(beams, scores_BKV[0].numel()))
            parent_BK, last_BK = choice_BK // self.vocabulary, choice_BK % self.vocabulary
            done_BK = done_BK.gather(1, parent_BK)
            length_BK = length_BK.gather(1, parent_BK) + (~done_BK & (last_BK != PAD))
            done_BK = done_BK | (last_BK == END) | (last_BK == PAD)
            words_BKL = torch.cat([words_BKL.gather(1, parent_BK.unsqueeze(-1).expand(-1, -1, place)), last_BK.unsqueeze(-1)], -1)
            if done_BK.all():
                break
            rows = torch.arange(batch, device=device).unsqueeze(1) * (state.rows // batch) + parent_BK
            as_many = rows.numel() == state.rows  # then row i goes on with the pair that it has
            state = state.select_words(rows.flatten()) if as_many else state.select(rows.flatten())
        best_B = (total_BK / length_BK.clamp(min=1)).argmax(1)
        words_BL = words_BKL[torch.arange(batch, device=device), best_B][:, : self.max_words]
        words_BL = F.pad(words_BL, (0, self.max_words - words_BL.shape[1]), value=PAD)
        return words_BL.masked_fill(words_BL == END, PAD)
