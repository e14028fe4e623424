"""Pre-norm transformer layers on the fused attention kernel, with a key/value cache for decoding."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KeysValues(NamedTuple):
    """What attention looks at: keys and values, both B×H×L×D/H."""

    keys_BHLD: Tensor
    values_BHLD: Tensor

    def append(self, more: "KeysValues") -> "KeysValues":
        """These positions followed by `more`."""
        return KeysValues(torch.cat([self.keys_BHLD, more.keys_BHLD], 2), torch.cat([self.values_BHLD, more.values_BHLD], 2))

    def select(self, rows: Tensor) -> "KeysValues":
        """The given rows of the batch, in their order; a row may come more than once."""
        return KeysValues(self.keys_BHLD.index_select(0, rows), self.values_BHLD.index_select(0, rows))


class Attention(nn.Module):
    """Multi-head attention; a mask is boolean, B×L over keys, true where a query may look."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def keys_values(self, x_BLD: Tensor) -> KeysValues:
        keys_BLD, values_BLD = self.key_value(x_BLD).chunk(2, dim=-1)
        return KeysValues(self._split(keys_BLD), self._split(values_BLD))

    def forward(self, x_BLD: Tensor, seen: KeysValues, mask_BL: Tensor | None = None, causal: bool = False) -> Tensor:
        mask = None if mask_BL is None else mask_BL[:, None, None, :]
        dropout = self.dropout if self.training else 0.0
        y_BHLD = F.scaled_dot_product_attention(self._split(self.query(x_BLD)), *seen, attn_mask=mask, dropout_p=dropout, is_causal=causal)
        return self.out(y_BHLD.transpose(1, 2).flatten(2))

    def _split(self, x_BLD: Tensor) -> Tensor:
        return x_BLD.unflatten(-1, (self.heads, -1)).transpose(1, 2)


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

    def forward(self, x_BLD: Tensor, mask_BL: Tensor | None, past: KeysValues | None = None) -> tuple[Tensor, KeysValues]:
        """All positions look at each other, and at those of `past`; the mask is over both."""
        y_BLD = self.norm_attention(x_BLD)
        seen = self.attention.keys_values(y_BLD)
        if past is not None:
            seen = past.append(seen)
        x_BLD = x_BLD + self.drop(self.attention(y_BLD, seen, mask_BL))
        return x_BLD + self.drop(self.feed_forward(self.norm_feed_forward(x_BLD))), seen


class Encoder(nn.Module):
    """A stack of encoder layers and a last normalisation."""

    def __init__(self, width: int, heads: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x_BLD: Tensor, mask_BL: Tensor | None) -> Tensor:
        """Every position looks at every other one."""
        return self.go_on(x_BLD, mask_BL, None)[0]

    def go_on(self, x_BLD: Tensor, mask_BL: Tensor | None, past: list[KeysValues] | None) -> tuple[Tensor, list[KeysValues]]:
        """The same for positions that follow those of `past`, which are not computed again; and what has been seen with them."""
        seen = []
        for number, layer in enumerate(self.layers):
            x_BLD, keys_values = layer(x_BLD, mask_BL, past[number] if past else None)
            seen.append(keys_values)
        return self.norm(x_BLD), seen


class DecoderLayer(nn.Module):
    """Attention to the words so far, attention to the memory, feed-forward; each added to its input."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.words, self.memory = Attention(width, heads, dropout), Attention(width, heads, dropout)
        self.feed_forward = FeedForward(width, hidden, dropout)
        self.norm_words, self.norm_memory, self.norm_feed_forward = (nn.LayerNorm(width) for _ in range(3))
        self.drop = nn.Dropout(dropout)

    def forward(self, x_BLD: Tensor, memory: KeysValues, memory_mask_BL: Tensor | None, past: KeysValues | None) -> tuple[Tensor, KeysValues]:
        """Without `past`, all words at once, each seeing itself and those before; with it, one next word."""
        y_BLD = self.norm_words(x_BLD)
        seen = self.words.keys_values(y_BLD)
        if past is not None:
            seen = past.append(seen)
        x_BLD = x_BLD + self.drop(self.words(y_BLD, seen, causal=past is None))
        x_BLD = x_BLD + self.drop(self.memory(self.norm_memory(x_BLD), memory, memory_mask_BL))
        return x_BLD + self.drop(self.feed_forward(self.norm_feed_forward(x_BLD))), seen


class DecoderState(NamedTuple):
    """A decoder's cache: per layer the words so far (none before the first) and the memory's keys and values."""

    words: list[KeysValues | None]
    memory: list[KeysValues]
    memory_mask_BL: Tensor

    @property
    def rows(self) -> int:
        """Captions or beams that are being decoded."""
        return len(self.memory_mask_BL)

    def select(self, rows: Tensor) -> "DecoderState":
        """The given rows of the batch, in their order, with the words and the memory of each."""
        return DecoderState(self.words, [seen.select(rows) for seen in self.memory], self.memory_mask_BL.index_select(0, rows)).select_words(rows)

    def select_words(self, rows: Tensor) -> "DecoderState":
        """The words of the given rows, where the memory of row i and of rows[i] is the same: beams of one caption."""
        return self._replace(words=[None if seen is None else seen.select(rows) for seen in self.words])


class Decoder(nn.Module):
    """A stack of decoder layers and a last normalisation."""

    def __init__(self, width: int, heads: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(width, heads, hidden, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def start(self, memory_BLD: Tensor, memory_mask_BL: Tensor) -> DecoderState:
        """The state before the first word: the memory's keys and values, computed once per caption."""
        memory = [layer.memory.keys_values(memory_BLD) for layer in self.layers]  # type: ignore[union-attr,operator]
        return DecoderState([None] * len(self.layers), memory, memory_mask_BL)

    def forward(self, x_BLD: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Outputs for the new words, and the state that has seen them."""
        words: list[KeysValues | None] = []
        for layer, past, memory in zip(self.layers, state.words, state.memory, strict=True):
            x_BLD, seen = layer(x_BLD, memory, state.memory_mask_BL, past)
            words.append(seen)
        return self.norm(x_BLD), state._replace(words=words)


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
