"""Caption decoding: greedy, sampled and by beam search, with each pair of products of a batch encoded once."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from fashioniq.data.items import ItemInputs
from fashioniq.data.words import END, PAD, START, UNKNOWN
from fashioniq.models.configs import CaptionerConfig
from fashioniq.models.layers import BeamSlots, small_embedding

BEGINNING = 3  # words after which captions that are not promising are given up


def drops_finished(device: torch.device) -> bool:
    """Whether finished captions leave the batch: on a CPU, where rows cost time.

    On a GPU they cost hardly any, but the host would have to wait for their number after every word.
    """
    return device.type == "cpu"


def _remaining(going_R: Tensor) -> Tensor:
    """Rows of the next step in ascending order: those of captions that are not finished, or all of them."""
    if drops_finished(going_R.device):
        return going_R.nonzero()[:, 0]
    return torch.arange(len(going_R), device=going_R.device)


class BaseCaptioner(nn.Module):
    """Base class of relative captioners, (reference, target) → at most `max_words` words.

    Subclasses implement `encode`, `advance` and `forward`.
    """

    role: nn.Embedding  # of the image difference, of attributes of the reference, and of the target

    def __init__(self, config: CaptionerConfig, *, vocabulary: int, features: int, attributes: int) -> None:
        super().__init__()
        self.vocabulary, self.max_words, self.width = vocabulary, config.max_words, config.width
        self.image = nn.Linear(features, self.width)
        self.attribute = small_embedding(attributes + 1, self.width, padding=0) if attributes else None

    def _tokens(self, reference: ItemInputs, target: ItemInputs) -> tuple[list[Tensor], list[Tensor]]:
        """Tokens of the image difference and of the attributes of both products, B×L×D each, and their masks."""
        difference_BD = reference.features_BD - target.features_BD
        tokens = [self.image(difference_BD).unsqueeze(1) + self.role.weight[0]]
        masks = [torch.ones_like(tokens[0][..., 0], dtype=torch.bool)]
        if self.attribute is not None:
            for role, attributes_BA in ((1, reference.attributes_BA), (2, target.attributes_BA)):
                tokens.append(self.attribute(attributes_BA) + self.role.weight[role])
                masks.append(attributes_BA != 0)
        return tokens, masks

    def encode(self, reference: ItemInputs, target: ItemInputs) -> Any:
        """Encode pairs of products, and return the decoder's state before the first word.

        It has the encoded pairs, and the previous words of every caption or beam, one per row. Its method
        `select(parent_R, slots)` returns the state whose row r continues row parent_R[r]; `slots` (BeamSlots) maps rows
        to beams of the pairs.
        """
        raise NotImplementedError

    def advance(self, last_R: Tensor, place: int, state: Any) -> tuple[Tensor, Any]:
        """Process the words last_R at position `place`; return the next logits, R×V, and the new state."""
        raise NotImplementedError

    def forward(self, reference: ItemInputs, target: ItemInputs, words_RL: Tensor) -> Tensor:
        """Logits of every next word, R×L×V, given the start token and the previous words (teacher forcing).

        R is B times the number of captions per pair; captions of one pair are consecutive rows.
        """
        raise NotImplementedError

    def _next_log_probabilities(self, last_R: Tensor, place: int, state: Any) -> tuple[Tensor, Any]:
        """Log-probabilities of the next word, R×V, and the new state.

        Padding, start and unknown tokens are excluded, and the end token before the first word.
        """
        logits_RV, state = self.advance(last_R, place, state)
        scores_RV = logits_RV.float().log_softmax(-1)
        for word in (PAD, START, UNKNOWN, *([END] if place == 0 else [])):
            scores_RV[:, word] = float("-inf")
        return scores_RV, state

    @torch.no_grad()
    def greedy(self, reference: ItemInputs, target: ItemInputs) -> Tensor:
        """Greedy decoding, B×max_words, padded after the last word."""
        state = self.encode(reference, target)
        batch, device = len(reference.features_BD), reference.features_BD.device
        words_BL = torch.full((batch, self.max_words), PAD, device=device)
        last_R, row_R = torch.full((batch,), START, device=device), torch.arange(batch, device=device)
        for place in range(self.max_words):
            scores_RV, state = self._next_log_probabilities(last_R, place, state)
            last_R = scores_RV.argmax(-1).where(last_R != END, END)
            words_BL[row_R, place] = last_R
            going_R = _remaining(last_R != END)
            if not len(going_R):
                break
            last_R, row_R = last_R[going_R], row_R[going_R]
            state = state.select(going_R, BeamSlots(row_R, batch, 1))
        return words_BL.masked_fill(words_BL == END, PAD)

    @torch.no_grad()
    def sample(
        self,
        reference: ItemInputs,
        target: ItemInputs,
        chance_BKL: Tensor,
        promising: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Draw K captions of each pair, B×K×max_words.

        The words are drawn by the uniform numbers of [0, 1) in `chance_BKL`, L at least max_words, so that a
        caption depends on its own numbers only. Captions of a pair that begin alike share one row of the decoder
        where finished ones leave the batch. `promising` says which beginnings of BEGINNING words, B×K×L, are completed,
        B×K; other unfinished captions are replaced by the first one.
        """
        batch, count = chance_BKL.shape[:2]
        device = chance_BKL.device
        words_RL = torch.full((batch * count, self.max_words), PAD, device=device)
        row_R = torch.arange(batch * count, device=device)
        # the decoder has N rows, one per beginning, with its pair and last word; `beginning_R` is the row of a caption
        pair_N, last_N = torch.arange(batch, device=device), torch.full((batch,), START, device=device)
        beginning_R, state = row_R // count, self.encode(reference, target)
        dropped_R = torch.zeros(batch * count, dtype=torch.bool, device=device)
        for place in range(self.max_words):
            scores_NV, state = self._next_log_probabilities(last_N, place, state)
            below_NV = scores_NV.exp().cumsum(-1)
            level_NK = chance_BKL[pair_N, :, place] * below_NV[:, -1:]
            drawn_NK = torch.searchsorted(below_NV, level_NK, right=True).clamp(max=self.vocabulary - 1)
            word_R = drawn_NK[beginning_R, row_R % count].where(last_N[beginning_R] != END, END)
            words_RL[row_R, place] = word_R
            going_R = _remaining(word_R != END)
            if promising is not None and place + 1 == BEGINNING:
                begun_RL = words_RL.masked_fill(words_RL == END, PAD)
                unfinished_R = begun_RL[:, place] != PAD
                dropped_R = unfinished_R & ~promising(begun_RL.unflatten(0, (batch, count))).flatten()
                dropped_R[::count] = False  # the first ones
                if drops_finished(device):
                    going_R = going_R[~dropped_R[row_R[going_R]]]
            if not len(going_R):
                break
            word_R, row_R, beginning_R = word_R[going_R], row_R[going_R], beginning_R[going_R]
            if drops_finished(device):
                code_N, beginning_R = torch.unique(
                    beginning_R * self.vocabulary + word_R, return_inverse=True
                )
                parent_N, last_N = code_N // self.vocabulary, code_N % self.vocabulary
                pair_N = pair_N[parent_N]
                within_N = torch.arange(len(pair_N), device=device) - torch.searchsorted(pair_N, pair_N)
                most = int(within_N.max()) + 1
                slots = BeamSlots(pair_N * most + within_N, batch, most)
            else:
                parent_N, last_N, beginning_R = beginning_R, word_R, row_R
                pair_N, slots = row_R // count, BeamSlots.full(batch, count, device)
            state = state.select(parent_N, slots)
        words_BKL = words_RL.masked_fill(words_RL == END, PAD).unflatten(0, (batch, count))
        return words_BKL[:, :1].where(dropped_R.view(batch, count, 1), words_BKL)

    @torch.no_grad()
    def beam(self, reference: ItemInputs, target: ItemInputs, beams: int) -> Tensor:
        """Beam search, B×max_words. The hypothesis with the highest mean log-probability per word is
        returned.

        Rows are the hypotheses that are not finished, on a GPU all of them. Finished ones stay among the K beams
        of their pair.
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
            # 1. Expand: every slot gets its C best next words; a finished slot only itself, with or without a row.
            score_RC, word_RC = scores_RV.topk(min(beams, self.vocabulary))
            # Without its own 0.0 the finished caption would lose its place to worse ones that go on; without -inf for
            # the rest, its copies would fill the beams of the pair.
            ended_R1 = ((last_R == END) | (last_R == PAD)).unsqueeze(1)
            score_RC, word_RC = (
                score_RC.masked_fill(ended_R1, float("-inf")),
                word_RC.masked_fill(ended_R1, PAD),
            )
            score_RC[:, :1].masked_fill_(ended_R1, 0.0)
            total_SC = torch.full((total_BK.numel(), score_RC.shape[1]), float("-inf"), device=device)
            total_SC[:, 0] = total_BK.flatten()
            total_SC[slot_R] = total_SC[slot_R, :1] + score_RC
            word_SC = torch.full_like(total_SC, PAD, dtype=word_RC.dtype).index_copy(0, slot_R, word_RC)
            # 2. Prune: keep the K best candidates of each pair, and copy the words of their parents.
            # All slots of a pair compete in one list, so that its beams may all continue the same parent.
            total_BK, choice_BK = total_SC.view(batch, -1).topk(min(beams, total_SC.numel() // batch))
            parent_BK, last_BK = choice_BK // total_SC.shape[1], word_SC.view(batch, -1).gather(1, choice_BK)
            words_BKL = words_BKL.gather(1, parent_BK.unsqueeze(-1).expand(-1, -1, self.max_words))
            words_BKL[:, :, place] = last_BK
            length_BK = length_BK.gather(1, parent_BK) + (last_BK != PAD)
            # 3. Compact: choose the rows of the next step. A parent is a slot number of this step; its row is its
            # position among the slots that had a row.
            going_BK = (last_BK != PAD) & (last_BK != END) & (total_BK > float("-inf"))
            parent_BK = parent_BK + torch.arange(batch, device=device).unsqueeze(1) * (len(total_SC) // batch)
            earlier_R, slot_R = slot_R, _remaining(going_BK.flatten())
            parent_R, last_R = (
                torch.searchsorted(earlier_R, parent_BK.flatten()[slot_R]),
                last_BK.flatten()[slot_R],
            )
            if not len(slot_R):
                break
            state = state.select(parent_R, BeamSlots(slot_R, *going_BK.shape))
        # While the search runs, sums order the beams of a pair. At the end, a sum would favor
        # the shortest caption, because every further word lowers it: the mean decides.
        best_B = (total_BK / length_BK.clamp(min=1)).argmax(1)
        words_BL = words_BKL[torch.arange(batch, device=device), best_B]
        return words_BL.masked_fill(words_BL == END, PAD)
