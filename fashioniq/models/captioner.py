"""The relative captioner: what a person would say of how the target differs from the reference (Fashion IQ, section 4.1).

A transformer reads the difference of the two image features and the attributes of both, and writes at most eight words.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fashioniq.data.words import END, PAD, START, UNKNOWN
from fashioniq.models.layers import Decoder, DecoderState, Encoder, small_embedding


class Looks(NamedTuple):
    """What is known of a batch of products: image features, and attribute ids where 0 means none."""

    features_BD: Tensor
    attributes_BA: Tensor


class Captioner(nn.Module):
    """(reference, target) → words. `attributes` is the number of attribute words known, 0 for none to be used."""

    def __init__(
        self,
        vocabulary: int,
        features: int,
        attributes: int,
        width: int = 512,
        heads: int = 8,
        hidden: int = 2048,
        layers: int = 6,
        dropout: float = 0.1,
        max_words: int = 8,
    ) -> None:
        super().__init__()
        self.max_words = max_words
        self.image = nn.Linear(features, width)
        self.attribute = small_embedding(attributes + 1, width, padding=0) if attributes else None
        self.role = small_embedding(3, width)  # the difference, an attribute of the reference, one of the target
        self.word = small_embedding(vocabulary, width, padding=PAD)
        self.place = small_embedding(max_words + 1, width)
        self.drop = nn.Dropout(dropout)
        self.encoder = Encoder(width, heads, hidden, layers, dropout)
        self.decoder = Decoder(width, heads, hidden, layers, dropout)
        self.out = nn.Linear(width, vocabulary)

    def encode(self, reference: Looks, target: Looks) -> DecoderState:
        """Everything about the two products that decoding needs, computed once per pair."""
        tokens = [self.image(reference.features_BD - target.features_BD).unsqueeze(1) + self.role.weight[0]]
        masks = [torch.ones_like(tokens[0][..., 0], dtype=torch.bool)]
        if self.attribute is not None:
            for role, attributes_BA in ((1, reference.attributes_BA), (2, target.attributes_BA)):
                tokens.append(self.attribute(attributes_BA) + self.role.weight[role])
                masks.append(attributes_BA != 0)
        mask_BL = torch.cat(masks, 1)
        return self.decoder.start(self.encoder(self.drop(torch.cat(tokens, 1)), mask_BL), mask_BL)

    def forward(self, reference: Looks, target: Looks, words_BL: Tensor) -> Tensor:
        """Scores of every next word, B×L×V, given the start and the words before it (teacher forcing)."""
        return self._advance(words_BL, 0, self.encode(reference, target))[0]

    def _advance(self, words_BL: Tensor, place: int, state: DecoderState) -> tuple[Tensor, DecoderState]:
        x_BLD = self.word(words_BL) + self.place.weight[place : place + words_BL.shape[1]]
        x_BLD, state = self.decoder(self.drop(x_BLD), state)
        return self.out(x_BLD), state

    def _next_log_probabilities(self, last_B: Tensor, place: int, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """B×V. Padding, start and unknown are never said, and a caption has at least one word."""
        logits_BLV, state = self._advance(last_B.unsqueeze(1), place, state)
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
        device, batch, width = reference.features_BD.device, len(reference.features_BD), self.out.out_features
        state = self.encode(reference, target)
        words_BKL = torch.full((batch, 1, 0), PAD, device=device)
        last_BK = torch.full((batch, 1), START, device=device)
        total_BK, length_BK = torch.zeros(batch, 1, device=device), torch.zeros(batch, 1, device=device)
        done_BK = torch.zeros(batch, 1, dtype=torch.bool, device=device)
        only_pad_V = torch.full((width,), float("-inf"), device=device)
        only_pad_V[PAD] = 0.0
        for place in range(self.max_words + 1):
            if place < self.max_words:
                scores_BV, state = self._next_log_probabilities(last_BK.flatten(), place, state)
            else:  # eight words are said: the end follows by itself
                scores_BV = only_pad_V.expand(last_BK.numel(), -1)
            scores_BKV = torch.where(done_BK.unsqueeze(-1), only_pad_V, scores_BV.unflatten(0, last_BK.shape))
            total_BK, choice_BK = (total_BK.unsqueeze(-1) + scores_BKV).flatten(1).topk(min(beams, scores_BKV[0].numel()))
            parent_BK, last_BK = choice_BK // width, choice_BK % width
            done_BK = done_BK.gather(1, parent_BK)
            length_BK = length_BK.gather(1, parent_BK) + (~done_BK & (last_BK != PAD))
            done_BK = done_BK | (last_BK == END) | (last_BK == PAD)
            words_BKL = torch.cat([words_BKL.gather(1, parent_BK.unsqueeze(-1).expand(-1, -1, place)), last_BK.unsqueeze(-1)], -1)
            if done_BK.all():
                break
            rows = torch.arange(batch, device=device).unsqueeze(1) * (state.memory_mask_BL.shape[0] // batch) + parent_BK
            as_many = rows.numel() == len(state.memory_mask_BL)  # then row i goes on with the memory that it has
            state = state.select_words(rows.flatten()) if as_many else state.select(rows.flatten())
        best_B = (total_BK / length_BK.clamp(min=1)).argmax(1)
        words_BL = words_BKL[torch.arange(batch, device=device), best_B][:, : self.max_words]
        words_BL = torch.nn.functional.pad(words_BL, (0, self.max_words - words_BL.shape[1]), value=PAD)
        return words_BL.masked_fill(words_BL == END, PAD)
