"""Pre-norm transformer layers on the fused attention kernel, with a key/value cache for decoding."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention to keys and values, side by side in B×L×2D. A mask is boolean, B×L over keys or B×Q×L, true where a query may look."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x_BLD: Tensor, seen_BLE: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        return self.out(self.attend(self.query(x_BLD), seen_BLE, mask, causal))

    def attend(self, query_BLD: Tensor, seen_BLE: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """What the queries find, before the last linear map."""
        if mask is not None:
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        query, keys, values = (x_BLD.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x_BLD in (query_BLD, *seen_BLE.chunk(2, -1)))
        found_BHLD = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return found_BHLD.transpose(1, 2).flatten(2)


class FeedForward(nn.Sequential):
    """Two linear maps with a ReLU between them."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, width))


class EncoderLayer(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x))."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(width, heads, dropout), FeedForward(width, hidden, dropout)
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor | None, past_BLE: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """All positions look at each other, and at those of `past_BLE`; the mask is over both."""
        y_BLD = self.norm_attention(x_BLD)
        seen_BLE = self.attention.key_value(y_BLD)
        if past_BLE is not None:
            seen_BLE = torch.cat([past_BLE, seen_BLE], 1)
        x_BLD = x_BLD + self.drop(self.attention(y_BLD, seen_BLE, mask_BL))
        return x_BLD + self.drop(self.feed_forward(self.norm_feed_forward(x_BLD))), seen_BLE


class Encoder(nn.Module):
    """A stack of encoder layers and a last normalisation."""

    def __init__(self, width: int, heads: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor | None) -> Tensor:
        """Every position looks at every other one."""
        return self.extend(x_BLD, mask_BL, None)[0]

    def extend(self, x_BLD: Tensor, mask_BL: Tensor | None, past: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """The same for positions that follow those of `past`, which are not computed again; and what has been seen with them."""
        seen = []
        for number, layer in enumerate(self.layers):
            x_BLD, seen_BLE = layer(x_BLD, mask_BL, past[number] if past else None)
            seen.append(seen_BLE)
        return self.norm(x_BLD), seen


class BeamSlots(NamedTuple):
    """Which captions or beams of B pairs are there, one a row, in order: row r is number slot_R[r] % beams of pair slot_R[r] // beams."""

    slot_R: Tensor
    pairs: int
    beams: int

    @classmethod
    def full(cls, pairs: int, beams: int, device: torch.device) -> "BeamSlots":
        """None is missing."""
        return cls(torch.arange(pairs * beams, device=device), pairs, beams)

    def spread(self, x_RLD: Tensor) -> Tensor:
        """The rows of a pair side by side, B×KL×D; zeros for those that are missing."""
        if len(x_RLD) < self.pairs * self.beams:
            x_RLD = x_RLD.new_zeros(self.pairs * self.beams, *x_RLD.shape[1:]).index_copy(0, self.slot_R, x_RLD)
        return x_RLD.reshape(self.pairs, -1, x_RLD.shape[-1])

    def collect(self, x_BMD: Tensor) -> Tensor:
        """R×L×D again."""
        x_SLD = x_BMD.reshape(self.pairs * self.beams, -1, x_BMD.shape[-1])
        return x_SLD if len(self.slot_R) == len(x_SLD) else x_SLD.index_select(0, self.slot_R)


class DecoderState(NamedTuple):
    """What decoding has heard. Per layer the keys and values of each pair's memory, and of the words of all its beams as they came,

    so that nothing is copied when beams fork and end: heard_RM says which of a pair's words are those of a row.
    """

    memory: list[Tensor]
    memory_mask_BL: Tensor
    slots: BeamSlots
    words: list[Tensor | None]
    heard_RM: Tensor

    def select(self, parent_R: Tensor, slots: BeamSlots) -> "DecoderState":
        """Rows that go on from the rows parent_R, of the same pairs."""
        return self._replace(slots=slots, heard_RM=self.heard_RM.index_select(0, parent_R))


class DecoderLayer(nn.Module):
    """Attention to the words so far, attention to the memory, feed-forward; each added to its input."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.words, self.memory = Attention(width, heads, dropout), Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.norm_words, self.norm_memory, self.norm_feed_forward = (nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, x_RLD: Tensor, memory_BLE: Tensor, memory_mask_BL: Tensor, slots: BeamSlots) -> Tensor:
        """All words at once, each seeing itself and those before."""
        y_RLD = self.norm_words(x_RLD)
        x_RLD = x_RLD + self.drop(self.words(y_RLD, self.words.key_value(y_RLD), causal=True))
        return self._memory_and_feed_forward(x_RLD, memory_BLE, memory_mask_BL, slots)

    def step(
        self, x_R1D: Tensor, memory_BLE: Tensor, memory_mask_BL: Tensor, slots: BeamSlots, past_BME: Tensor | None, heard_BKM: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The next word of every row, and the words of all rows with it."""
        y_R1D = self.norm_words(x_R1D)
        words_BME = slots.spread(self.words.key_value(y_R1D))
        if past_BME is not None:
            words_BME = torch.cat([past_BME, words_BME], 1)
        found_R1D = slots.collect(self.words.attend(slots.spread(self.words.query(y_R1D)), words_BME, heard_BKM))
        x_R1D = x_R1D + self.drop(self.words.out(found_R1D))
        return self._memory_and_feed_forward(x_R1D, memory_BLE, memory_mask_BL, slots), words_BME

    def _memory_and_feed_forward(self, x_RLD: Tensor, memory_BLE: Tensor, memory_mask_BL: Tensor, slots: BeamSlots) -> Tensor:
        query_BMD = slots.spread(self.memory.query(self.norm_memory(x_RLD)))
        x_RLD = x_RLD + self.drop(self.memory.out(slots.collect(self.memory.attend(query_BMD, memory_BLE, memory_mask_BL))))
        return x_RLD + self.drop(self.feed_forward(self.norm_feed_forward(x_RLD)))


class Decoder(nn.Module):
    """A stack of decoder layers and a last normalisation."""

    def __init__(self, width: int, heads: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def start(self, memory_BLD: Tensor, memory_mask_BL: Tensor) -> DecoderState:
        """The state before the first word, a row a pair: the memory's keys and values, computed once per pair."""
        memory = [layer.memory.key_value(memory_BLD) for layer in self.layers]  # type: ignore[union-attr,operator]
        slots = BeamSlots.full(len(memory_BLD), 1, memory_BLD.device)
        return DecoderState(memory, memory_mask_BL, slots, [None] * len(memory), memory_mask_BL[:, :0])

    def forward(self, x_RLD: Tensor, state: DecoderState) -> Tensor:
        """Outputs for all words at once, from the start; with several captions a pair, those of a pair follow each other."""
        slots = BeamSlots.full(state.slots.pairs, len(x_RLD) // state.slots.pairs, x_RLD.device)
        for layer, memory_BLE in zip(self.layers, state.memory, strict=True):
            x_RLD = layer(x_RLD, memory_BLE, state.memory_mask_BL, slots)
        return self.norm(x_RLD)

    def step(self, x_RD: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Outputs for the next word of every row, and the state that has heard it."""
        slots, x_R1D = state.slots, x_RD.unsqueeze(1)
        words: list[Tensor | None] = []
        own_RK = (slots.slot_R % slots.beams).unsqueeze(1) == torch.arange(slots.beams, device=x_RD.device)
        heard_RM = torch.cat([state.heard_RM, own_RK], 1)
        heard_BKM = slots.spread(heard_RM.unsqueeze(1))
        for layer, memory_BLE, past_BME in zip(self.layers, state.memory, state.words, strict=True):
            x_R1D, words_BME = layer.step(x_R1D, memory_BLE, state.memory_mask_BL, slots, past_BME, heard_BKM=heard_BKM)  # type: ignore[union-attr,operator]
            words.append(words_BME)
        return self.norm(x_R1D).squeeze(1), state._replace(words=words, heard_RM=heard_RM)


def small_embedding(count: int, width: int, padding: int | None = None) -> nn.Embedding:
    """An embedding whose rows start with about unit length, so that no kind of token drowns another."""
    embedding = nn.Embedding(count, width, padding_idx=padding)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    if padding is not None:
        with torch.no_grad():
            embedding.weight[padding].zero_()
    return embedding


def mean_embedding(embedding: nn.Embedding, ids_BA: Tensor) -> Tensor:
    """The mean over a row's ids without the padding, 0, B×D; zeros where there is nothing else."""
    there_BA1 = (ids_BA != 0).unsqueeze(-1)
    return (embedding(ids_BA) * there_BA1).sum(1) / there_BA1.sum(1).clamp(min=1)
