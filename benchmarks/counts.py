"""Minimum floating-point operations and memory traffic of each stage (roofline model).

Operations are those of matrix products and convolutions; a multiply-add counts as two. Norms, activations
and softmax are ignored. Bytes are those of weights, features and feature maps that exceed the cache, each
read once per pass. Parts of dialogs that need no second computation are counted once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

FLOAT = 4  # bytes
ADAM = 7  # accesses per weight: read weight, gradient and both moments; write weight and both moments


class Needs(NamedTuple):
    """Floating-point operations and bytes of one call."""

    flops: float
    bytes: float

    def __add__(self, other: "Needs") -> "Needs":  # type: ignore[override]
        return Needs(self.flops + other.flops, self.bytes + other.bytes)

    def times(self, count: float) -> "Needs":
        return Needs(self.flops * count, self.bytes * count)


NOTHING = Needs(0, 0)


@dataclass(frozen=True)
class Sizes:
    """Sizes of the paper and of the commands' defaults; galleries are the train and test splits of
    dresses."""

    train: int = 11_452
    test: int = 3_818
    targets: int = 6_346
    features: int = 2560
    attributes: int = 1000
    words: int = 2504
    captioner: tuple[int, int, int, int] = (512, 8, 2048, 6)  # width, heads, hidden, layers
    retriever: tuple[int, int, int, int] = (256, 8, 1024, 6)
    max_words: int = 8
    turns: int = 5
    encoder: str = "b7"
    pixels: int = 224


PAPER = Sizes()
SMALL = replace(
    PAPER, train=120, test=80, targets=90, features=48, attributes=30, words=60, captioner=(32, 4, 64, 2), retriever=(32, 4, 64, 2), turns=3,
    encoder="b0", pixels=64,
)  # fmt: skip
TOKENS_OF_PAIR = 1 + 8 + 8  # image difference, attributes of both products
TOKENS_OF_TURN = 1 + 8 + 1  # special token, attributes, image; words are added


def linear(rows: float, inputs: int, outputs: int) -> float:
    return 2 * rows * inputs * outputs


def transformer_layer(rows: float, keys: float, width: int, hidden: int) -> float:
    """Operations of `rows` positions that attend to `keys` positions, with projections and feed-forward
    layers."""
    return linear(rows, width, 4 * width) + 4 * rows * keys * width + linear(rows, width, 2 * hidden)


def weights_of(model: nn.Module) -> int:
    return FLOAT * sum(weight.numel() for weight in model.parameters())


def decoding(sizes: Sizes, captioner: nn.Module, pairs: int, beams: int, words: float) -> Needs:
    """Decoding of captions for `pairs`, with `words` steps per beam, including the end token.

    Pairs are encoded once, and each word once, with a cache. Bytes: the encoder's weights once, those of
    the decoder and the output layer at every word.
    """
    width, _, hidden, layers = sizes.captioner
    pair_flops = linear(pairs, sizes.features, width) + layers * transformer_layer(
        pairs * TOKENS_OF_PAIR, TOKENS_OF_PAIR, width, hidden
    )
    memory = layers * linear(pairs * TOKENS_OF_PAIR, width, 2 * width)
    rows = pairs * (1 + beams * (words - 1))  # beams share the first step
    attending = linear(rows, width, 2 * width) + 4 * rows * TOKENS_OF_PAIR * width
    word_flops = layers * (transformer_layer(rows, (words + 1) / 2, width, hidden) + attending) + linear(
        rows, width, sizes.words
    )
    decoder = weights_of(captioner.decoder) + weights_of(captioner.out)  # type: ignore[arg-type]
    return Needs(
        pair_flops + memory + word_flops,
        weights_of(captioner) - decoder + words * decoder + 2 * FLOAT * pairs * sizes.features,
    )


def encoding(
    sizes: Sizes, retriever: nn.Module, dialogs: int, turn: int, words: float, causal: bool
) -> Needs:
    """Encoding of turn number `turn`. Both-ways attention encodes all turns again, turn-causal only the new
    one.

    Weights are read once.
    """
    width, _, hidden, layers = sizes.retriever
    new = TOKENS_OF_TURN + words
    rows = dialogs * new * (1 if causal else turn)
    flops = (
        layers * transformer_layer(rows, new * turn, width, hidden)
        + linear(dialogs, sizes.features, width)
        + linear(dialogs, width, width)
    )
    return Needs(flops, weights_of(retriever) + FLOAT * dialogs * sizes.features)


def searching(queries: int, gallery: int, width: int) -> Needs:
    """Search by one matrix product of queries and gallery, each read once."""
    return Needs(linear(queries, width, gallery), FLOAT * width * (queries + gallery))


def simulation(
    sizes: Sizes,
    models: tuple[nn.Module, nn.Module],
    dialogs: int,
    gallery: int,
    turns: int,
    beams: int,
    words: Sequence[float],
    causal: bool,
) -> Needs:
    """Simulation of a batch: every turn is captioned, encoded and searched.

    `words` are the mean length of captions and the mean number of decoding steps.
    """
    captioner, retriever = models
    length, steps = words
    needs = NOTHING
    for turn in range(1, turns + 1):
        needs += decoding(sizes, captioner, dialogs, beams, steps) + encoding(
            sizes, retriever, dialogs, turn, length, causal
        )
        needs += searching(dialogs, gallery, sizes.retriever[0])
    return needs


def retriever_step(
    sizes: Sizes, models: tuple[nn.Module, nn.Module], dialogs: int, words: Sequence[float], causal: bool
) -> Needs:
    """Training step: a simulation whose encoding counts three times (forward once, backward twice), and
    Adam."""
    needs = simulation(sizes, models, dialogs, sizes.train, sizes.turns, 1, words, causal)
    for turn in range(1, sizes.turns + 1):
        needs += encoding(sizes, models[1], dialogs, turn, words[0], causal).times(2)
    return needs + Needs(0, ADAM * weights_of(models[1]))


def captioner_step(sizes: Sizes, captioner: nn.Module, captions: int, words: float, of_a_pair: int) -> Needs:
    """Training step on captions of `words` words and an end token, `of_a_pair` per pair, and Adam.

    The backward pass has twice the operations of the forward pass. Weights are read twice, gradients
    written once.
    """
    # captions share no first step
    forward = decoding(sizes, captioner, captions // of_a_pair, of_a_pair, words + 2 - 1 / of_a_pair).flops
    return Needs(3 * forward, (3 + ADAM) * weights_of(captioner) + 2 * FLOAT * captions * sizes.features)


def convolutions(encoder: nn.Module, images: int, pixels: int, bytes_of_number: int) -> Needs:
    """Needs of all convolutions and linear layers of a network on the meta device.

    Bytes are those of weights, inputs and outputs.
    """
    needs = NOTHING

    def count(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal needs
        weight = module.weight
        numbers = inputs[0].numel() + output.numel() + weight.numel()
        per_output = weight[0].numel()
        needs += Needs(2 * output.numel() * per_output, bytes_of_number * numbers)

    hooks = [
        module.register_forward_hook(count)
        for module in encoder.modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    ]
    with torch.no_grad():
        encoder.eval()(torch.empty(images, 3, pixels, pixels, device="meta"))
    for hook in hooks:
        hook.remove()
    return needs
