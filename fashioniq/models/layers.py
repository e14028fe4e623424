"""Pre-norm transformer layers with fused attention and a key/value cache for decoding.

Shape suffixes: B pairs or dialogs, R rows (captions or beams), K beams, L tokens, M cached words of all
beams of a pair, D width, E keys and values side by side (2D), S slots (B·K).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head attention to keys and values, which are concatenated in B×L×2D.

    A mask is boolean, B×L over keys or B×Q×L, and true where a query may attend.
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(
        self, x_BLD: Tensor, key_value_BLE: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        return self.out(self.attend(self.query(x_BLD), key_value_BLE, mask, causal))

    def attend(
        self, query_BLD: Tensor, key_value_BLE: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the attention output before the last linear layer."""
        if mask is not None:
            mask = mask.unsqueeze(1) if mask.dim() == 3 else mask[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        query, keys, values = (
            x_BLD.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for x_BLD in (query_BLD, *key_value_BLE.chunk(2, -1))
        )
        found_BHLD = F.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
        )
        return found_BHLD.transpose(1, 2).flatten(2)


class FeedForward(nn.Sequential):
    """Two linear layers with a ReLU and dropout between them."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(
            nn.Linear(width, hidden), nn.ReLU(inplace=True), nn.Dropout(dropout), nn.Linear(hidden, width)
        )


class EncoderLayer(nn.Module):
    """Pre-norm layer: x + attention(norm(x)), then x + feed-forward(norm(x))."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.feed_forward = (
            Attention(width, heads, dropout),
            FeedForward(width, hidden, dropout),
        )
        self.norm_attention, self.norm_feed_forward = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)

    def forward(
        self, x_BLD: Tensor, mask_BL: Tensor | None, past_BLE: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Attend to all positions of the input and of the cache `past_BLE`; the mask covers both.

        Returns the output, and keys and values of the cache and the input.
        """
        y_BLD = self.norm_attention(x_BLD)
        key_value_BLE = self.attention.key_value(y_BLD)
        if past_BLE is not None:
            key_value_BLE = torch.cat([past_BLE, key_value_BLE], 1)
        x_BLD = x_BLD + self.drop(self.attention(y_BLD, key_value_BLE, mask_BL))
        return x_BLD + self.drop(self.feed_forward(self.norm_feed_forward(x_BLD))), key_value_BLE


class TransformerLayers(nn.Module):
    """Stack of encoder layers with a final layer norm."""

    def __init__(self, width: int, heads: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor | None) -> Tensor:
        """Encode with full attention between positions."""
        return self.extend(x_BLD, mask_BL, None)[0]

    def extend(
        self, x_BLD: Tensor, mask_BL: Tensor | None, past: list[Tensor] | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Encode positions that follow the cached ones in `past`; return outputs and the extended cache.

        Cached positions are not encoded again and do not attend to the new ones.
        """
        cache = []
        for number, layer in enumerate(self.layers):
            x_BLD, key_value_BLE = layer(x_BLD, mask_BL, past[number] if past else None)
            cache.append(key_value_BLE)
        return self.norm(x_BLD), cache


class BeamSlots(NamedTuple):
    """Position of each row among the beams of B pairs, in ascending order.

    Row r is beam slot_R[r] % beams of pair slot_R[r] // beams. Finished beams have no row.
    """

    slot_R: Tensor
    pairs: int
    beams: int

    @classmethod
    def full(cls, pairs: int, beams: int, device: torch.device) -> "BeamSlots":
        """Slots of all beams of all pairs."""
        return cls(torch.arange(pairs * beams, device=device), pairs, beams)

    def spread(self, x_RLD: Tensor) -> Tensor:
        """Concatenate the rows of each pair, R×L×D → B×KL×D, with zeros for missing rows."""
        if len(x_RLD) < self.pairs * self.beams:
            x_RLD = x_RLD.new_zeros(self.pairs * self.beams, *x_RLD.shape[1:]).index_copy_(
                0, self.slot_R, x_RLD
            )
        return x_RLD.reshape(self.pairs, -1, x_RLD.shape[-1])

    def collect(self, x_BMD: Tensor) -> Tensor:
        """Invert `spread`: B×KL×D → R×L×D."""
        x_SLD = x_BMD.reshape(self.pairs * self.beams, -1, x_BMD.shape[-1])
        return x_SLD if len(self.slot_R) == len(x_SLD) else x_SLD.index_select(0, self.slot_R)


class WordCache:
    """Keys and values of the words of all beams of B pairs, each written once: lists of their tensors would be
    copied at every word.
    """

    def __init__(self) -> None:
        self.buffer_BCE: Tensor | None = None
        self.count = 0

    def append(self, word_RE: Tensor, slots: BeamSlots) -> Tensor:
        """Return all words, B×M×E, with one more for each beam at the end, zeros for those without a row."""
        begin, self.count = self.count, self.count + slots.beams
        buffer_BCE = self.buffer_BCE
        if buffer_BCE is None or self.count > buffer_BCE.shape[1]:
            self.buffer_BCE = word_RE.new_zeros(slots.pairs, 2 * self.count, word_RE.shape[1])
            if buffer_BCE is not None:
                self.buffer_BCE[:, :begin] = buffer_BCE[:, :begin]
            buffer_BCE = self.buffer_BCE
        buffer_BCE[slots.slot_R // slots.beams, begin + slots.slot_R % slots.beams] = word_RE
        return buffer_BCE[:, : self.count]


class DecoderState(NamedTuple):
    """Decoder cache: per layer, keys and values of each pair's memory and of the words of all its beams.

    Words of all beams of a pair are appended to one list of M words, B×M×E, and never moved,
    even if beams fork or end. visible_RM is the attention mask over that list: true for the words of a
    row's own history. Selecting beams therefore copies rows of the mask only. A state ends with its next word,
    which is written into its list.
    """

    memory: list[Tensor]
    memory_mask_BL: Tensor
    slots: BeamSlots
    words: list[WordCache]
    visible_RM: Tensor

    def select(self, parent_R: Tensor, slots: BeamSlots) -> "DecoderState":
        """Return the state whose row r continues row parent_R[r] of the same pair."""
        return self._replace(slots=slots, visible_RM=self.visible_RM.index_select(0, parent_R))


class DecoderLayer(nn.Module):
    """Pre-norm decoder layer: self-attention, attention to the memory, feed-forward."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.words, self.memory = Attention(width, heads, dropout), Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.norm_words, self.norm_memory, self.norm_feed_forward = (nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, x_RLD: Tensor, memory_BLE: Tensor, memory_mask_BL: Tensor, slots: BeamSlots) -> Tensor:
        """Process all words at once with causal attention."""
        y_RLD = self.norm_words(x_RLD)
        x_RLD = x_RLD + self.drop(self.words(y_RLD, self.words.key_value(y_RLD), causal=True))
        return self._memory_and_feed_forward(x_RLD, memory_BLE, memory_mask_BL, slots)

    def step(
        self,
        x_R1D: Tensor,
        memory_BLE: Tensor,
        memory_mask_BL: Tensor,
        slots: BeamSlots,
        past: WordCache,
        visible_BKM: Tensor,
    ) -> Tensor:
        """Process the next word of every row, and append it to the cache; return its output."""
        y_R1D = self.norm_words(x_R1D)
        words_BME = past.append(self.words.key_value(y_R1D.squeeze(1)), slots)
        found_R1D = slots.collect(
            self.words.attend(slots.spread(self.words.query(y_R1D)), words_BME, visible_BKM)
        )
        x_R1D = x_R1D + self.drop(self.words.out(found_R1D))
        return self._memory_and_feed_forward(x_R1D, memory_BLE, memory_mask_BL, slots)

    def _memory_and_feed_forward(
        self, x_RLD: Tensor, memory_BLE: Tensor, memory_mask_BL: Tensor, slots: BeamSlots
    ) -> Tensor:
        query_BMD = slots.spread(self.memory.query(self.norm_memory(x_RLD)))
        x_RLD = x_RLD + self.drop(
            self.memory.out(slots.collect(self.memory.attend(query_BMD, memory_BLE, memory_mask_BL)))
        )
        return x_RLD + self.drop(self.feed_forward(self.norm_feed_forward(x_RLD)))


class Decoder(nn.Module):
    """A stack of decoder layers and a last normalisation."""

    def __init__(self, width: int, heads: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def start(self, memory_BLD: Tensor, memory_mask_BL: Tensor) -> DecoderState:
        """Return the state before the first word, one row per pair, with cached keys of the memory."""
        memory = [layer.memory.key_value(memory_BLD) for layer in self.layers]  # type: ignore[union-attr,operator]
        slots = BeamSlots.full(len(memory_BLD), 1, memory_BLD.device)
        words = [WordCache() for _ in memory]
        return DecoderState(memory, memory_mask_BL, slots, words, memory_mask_BL[:, :0])

    def forward(self, x_RLD: Tensor, state: DecoderState) -> Tensor:
        """Outputs for all words at once, from the start; captions of one pair are consecutive rows."""
        slots = BeamSlots.full(state.slots.pairs, len(x_RLD) // state.slots.pairs, x_RLD.device)
        for layer, memory_BLE in zip(self.layers, state.memory, strict=True):
            x_RLD = layer(x_RLD, memory_BLE, state.memory_mask_BL, slots)
        return self.norm(x_RLD)

    def step(self, x_RD: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Process the next word of every row; return the outputs, R×D, and the new state."""
        slots, x_R1D = state.slots, x_RD.unsqueeze(1)
        # One list holds the words of all beams of a pair, and this step appends K of them, one per beam. A row sees
        # its own new word and, by `visible_RM`, those of its history: the words of sister beams are another future.
        own_RK = (slots.slot_R % slots.beams).unsqueeze(1) == torch.arange(slots.beams, device=x_RD.device)
        visible_RM = torch.cat([state.visible_RM, own_RK], 1)
        visible_BKM = slots.spread(visible_RM.unsqueeze(1))
        for layer, memory_BLE, past in zip(self.layers, state.memory, state.words, strict=True):
            cached = memory_BLE, state.memory_mask_BL, slots, past
            x_R1D = layer.step(x_R1D, *cached, visible_BKM=visible_BKM)  # type: ignore[operator]
        return self.norm(x_R1D).squeeze(1), state._replace(visible_RM=visible_RM)


def small_embedding(count: int, width: int, padding: int | None = None) -> nn.Embedding:
    """Embedding with rows of about unit length, so that all kinds of tokens start with equal weight."""
    embedding = nn.Embedding(count, width, padding_idx=padding)
    nn.init.normal_(embedding.weight, std=width**-0.5)
    if padding is not None:
        with torch.no_grad():
            embedding.weight[padding].zero_()
    return embedding


def batch_normalized(norm: nn.BatchNorm1d, x_BD: Tensor) -> Tensor:
    """`norm` of a batch; a single row, which has no variance, is normalized as in evaluation."""
    if norm.training and len(x_BD) == 1:
        return F.batch_norm(x_BD, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps)
    return norm(x_BD)


def mean_embedding(embedding: nn.Embedding, ids_BA: Tensor) -> Tensor:
    """Mean embedding of the ids of each row, B×D. Id 0 is padding; a row of padding gives zeros."""
    there_BA1 = (ids_BA != 0).unsqueeze(-1)
    return (embedding(ids_BA) * there_BA1).sum(1) / there_BA1.sum(1).clamp(min=1)
