"""Recurrent baselines: Guo et al.'s dialog retriever (NeurIPS 2018), and a show-attend-and-tell captioner.

Both have the same inputs and outputs as the transformers.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fashioniq.data.items import ItemInputs
from fashioniq.data.words import PAD
from fashioniq.loop.messages import Turn
from fashioniq.models.configs import WORD_WIDTH, CaptionerConfig, RetrieverConfig
from fashioniq.models.decoding import BaseCaptioner
from fashioniq.models.layers import BeamSlots, batch_normalized, mean_embedding, small_embedding
from fashioniq.models.retriever import BaseRetriever, joined_turns


class RNNRetriever(BaseRetriever):
    """Dialog → query, by a convolution over the words and a GRU over the turns.

    `attributes` is the size of the attribute vocabulary; with 0 the model uses no attributes. If
    `word_vector_size` is not 0, word vectors are pretrained and frozen (`set_word_vectors`); otherwise
    they are learned.
    """

    def __init__(
        self,
        config: RetrieverConfig,
        *,
        vocabulary: int,
        features: int,
        attributes: int,
        max_words: int = 8,
        word_vector_size: int = 0,
    ) -> None:
        super().__init__(config, features=features, max_words=max_words)
        width = config.width
        self.attribute = small_embedding(attributes + 1, width, padding=0) if attributes else None
        self.word = nn.Embedding(vocabulary, word_vector_size or WORD_WIDTH, padding_idx=PAD)
        self.word.weight.requires_grad_(not word_vector_size)
        self.pairs_of_words = nn.Conv1d(self.word.embedding_dim, width, kernel_size=2)
        self.norm = nn.BatchNorm1d(width)
        self.text = nn.Linear(width, width)
        self.turn = nn.Linear(width, width)
        self.history = nn.GRUCell(width, width)
        self.query = nn.Linear(width, width)
        # Queries start short, so they are about equally far from every image and the loss starts near chance.
        nn.init.normal_(self.query.weight, std=0.1 * width**-0.5 * self.scale)
        nn.init.zeros_(self.query.bias)

    def set_word_vectors(self, vectors_VD: Tensor) -> None:
        """Replace the word embeddings by pretrained vectors, which stay frozen."""
        self.word.weight.data.copy_(vectors_VD)

    def start(self, batch: int) -> Tensor:
        """Return the hidden state of `batch` dialogs without history, B×D."""
        return torch.zeros(batch, self.width, device=self.query.weight.device)

    def step(self, state: Tensor, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return the query after one more turn and the new hidden state, both B×D."""
        state = self.history(self._encode(turn), state)
        return self._query(state), state

    def forward(
        self, words_BTL: Tensor, attributes_BTA: Tensor, image_BTD: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Return the query after the last turn of whole dialogs, B×D."""
        inputs_ND = self._encode(joined_turns(words_BTL, attributes_BTA, image_BTD))
        inputs_TBD = inputs_ND.unflatten(0, mask_BT.shape).transpose(0, 1)

        def read(state_BD: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            input_BD, mask_B1 = turn
            state_BD = torch.where(mask_B1, self.history(input_BD, state_BD), state_BD)
            return state_BD, state_BD.clone()

        state_BD, turns = self.start(mask_BT.shape[0]), (inputs_TBD, mask_BT.T.unsqueeze(-1))
        if torch.compiler.is_exporting():  # a loop would be exported with the turns of the example
            from torch._higher_order_ops import scan

            state_BD, _ = scan(read, state_BD, turns)
        else:
            for turn in zip(*turns, strict=True):
                state_BD, _ = read(state_BD, turn)
        return self._query(state_BD)

    def _query(self, state_BD: Tensor) -> Tensor:
        return self.query(state_BD) if self.scale == 1 else self.query(state_BD) / self.scale

    def _encode(self, turn: Turn) -> Tensor:
        """Input of the recurrent network for a turn, B×D."""
        seen_BD = self.offered(turn)
        if self.attribute is not None:
            seen_BD = seen_BD + mean_embedding(self.attribute, turn.attributes_BA)
        return self.turn(self._encode_words(turn.words_BL) + seen_BD)

    def _encode_words(self, words_BL: Tensor) -> Tensor:
        words_BDL = F.pad(self.word(words_BL).transpose(1, 2), (0, 1))  # zero padding completes the last pair
        outputs_BDL = F.relu(self.pairs_of_words(words_BDL)) * (words_BL != PAD).unsqueeze(1)
        return self.text(batch_normalized(self.norm, outputs_BDL.amax(2)))


class RecurrentState(NamedTuple):
    """LSTM state of every row, and the tokens of its pair with their keys and mask, which it attends to."""

    hidden_RD: Tensor
    cell_RD: Tensor
    pair_R: Tensor
    memory_BLD: Tensor
    keys_BLD: Tensor
    mask_BL: Tensor

    def select(self, parent_R: Tensor, slots: BeamSlots) -> "RecurrentState":
        """Return the state whose row r continues row parent_R[r] of the same pair."""
        hidden_RD, cell_RD = self.hidden_RD.index_select(0, parent_R), self.cell_RD.index_select(0, parent_R)
        return self._replace(hidden_RD=hidden_RD, cell_RD=cell_RD, pair_R=slots.slot_R // slots.beams)


class RNNCaptioner(BaseCaptioner):
    """(reference, target) → words, by an LSTM that attends to the image difference and all attributes."""

    def __init__(self, config: CaptionerConfig, *, vocabulary: int, features: int, attributes: int) -> None:
        width = config.width
        super().__init__(config, vocabulary=vocabulary, features=features, attributes=attributes)
        self.role = small_embedding(3, width)
        self.word = small_embedding(vocabulary, width, padding=PAD)
        self.drop = nn.Dropout(config.dropout)
        self.first = nn.Linear(width, 2 * width)
        self.cell = nn.LSTMCell(2 * width, width)
        self.key, self.look, self.weight = (
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.Linear(width, 1, bias=False),
        )
        self.out = nn.Linear(2 * width, vocabulary)

    def encode(self, reference: ItemInputs, target: ItemInputs) -> RecurrentState:
        """Encode the tokens of each pair, and compute the first LSTM state from their mean."""
        tokens, masks = self._tokens(reference, target)
        memory_BLD, mask_BL = self.drop(torch.cat(tokens, 1)), torch.cat(masks, 1)
        mean_BD = (memory_BLD * mask_BL.unsqueeze(-1)).sum(1) / mask_BL.sum(1, keepdim=True)
        hidden_BD, cell_BD = self.first(mean_BD).tanh().chunk(2, dim=-1)
        pair_R = torch.arange(len(mask_BL), device=mask_BL.device)
        return RecurrentState(
            hidden_BD, cell_BD, pair_R, memory_BLD, keys_BLD=self.key(memory_BLD), mask_BL=mask_BL
        )

    def forward(self, reference: ItemInputs, target: ItemInputs, words_RL: Tensor) -> Tensor:
        pairs = len(reference.features_BD)
        slots = BeamSlots.full(pairs, len(words_RL) // pairs, words_RL.device)
        state = self.encode(reference, target).select(slots.slot_R // slots.beams, slots)
        logits = []
        for last_R in words_RL.unbind(1):
            logits_RV, state = self.advance(last_R, 0, state)
            logits.append(logits_RV)
        return torch.stack(logits, 1)

    def advance(self, last_R: Tensor, place: int, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
        word_RD = self.drop(self.word(last_R))
        memory_RLD, keys_RLD, mask_RL = (
            part.index_select(0, state.pair_R) for part in (state.memory_BLD, state.keys_BLD, state.mask_BL)
        )
        scores_RL = self.weight((keys_RLD + self.look(state.hidden_RD).unsqueeze(1)).tanh()).squeeze(-1)
        share_RL = scores_RL.masked_fill(~mask_RL, float("-inf")).softmax(1)
        seen_RD = (share_RL.unsqueeze(-1) * memory_RLD).sum(1)
        hidden_RD, cell_RD = self.cell(torch.cat([word_RD, seen_RD], 1), (state.hidden_RD, state.cell_RD))
        logits_RV = self.out(self.drop(torch.cat([hidden_RD, seen_RD], 1)))
        return logits_RV, state._replace(hidden_RD=hidden_RD, cell_RD=cell_RD)
