"""What each stage cannot do without: floating-point operations (a multiplication and an addition are two) and bytes to and from memory.

Counted are matrix products and convolutions; not norms, activations, softmax, search trees. Bytes are those of weights, features and
maps that do not stay in a cache: each read once a pass. Parts of dialogs that our mathematics does not compute again are not counted again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

FLOAT = 4  # bytes
ADAM = 7  # weight, gradient and both moments are read, weight and both moments written


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
    """The paper's, as the commands' defaults; galleries are of dresses: train and test."""

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
TOKENS_OF_PAIR = 1 + 8 + 8  # the difference, the attributes of both
TOKENS_OF_TURN = 1 + 8 + 1  # special, attributes, image; and the words


def linear(rows: float, inputs: int, outputs: int) -> float:
    return 2 * rows * inputs * outputs


def transformer_layer(rows: float, keys: float, width: int, hidden: int) -> float:
    """Query, key, value and output maps, scores and their sums over `keys` positions, and the feed-forward's two maps, of `rows` positions."""
    return linear(rows, width, 4 * width) + 4 * rows * keys * width + linear(rows, width, 2 * hidden)


def weights_of(model: nn.Module) -> int:
    return FLOAT * sum(weight.numel() for weight in model.parameters())


def saying(sizes: Sizes, captioner: nn.Module, pairs: int, beams: int, words: float) -> Needs:
    """Captions of `pairs` in which `words` are computed for each beam (an end among them): pairs encoded once, each word once with a cache.

    Bytes: the encoder's weights once, the decoder's and the vocabulary's at every word.
    """
    width, _, hidden, layers = sizes.captioner
    encoding = linear(pairs, sizes.features, width) + layers * transformer_layer(pairs * TOKENS_OF_PAIR, TOKENS_OF_PAIR, width, hidden)
    memory = layers * linear(pairs * TOKENS_OF_PAIR, width, 2 * width)
    rows = pairs * (1 + beams * (words - 1))  # the first word is every beam's
    looking = linear(rows, width, 2 * width) + 4 * rows * TOKENS_OF_PAIR * width
    decoding = layers * (transformer_layer(rows, (words + 1) / 2, width, hidden) + looking) + linear(rows, width, sizes.words)
    decoder = weights_of(captioner.decoder) + weights_of(captioner.out)  # type: ignore[arg-type]
    return Needs(encoding + memory + decoding, weights_of(captioner) - decoder + words * decoder + 2 * FLOAT * pairs * sizes.features)


def hearing(sizes: Sizes, retriever: nn.Module, dialogs: int, turn: int, words: float, causal: bool) -> Needs:
    """One more turn, the `turn`th: both ways all positions so far are encoded anew, turn-causal those of the turn alone. Weights once."""
    width, _, hidden, layers = sizes.retriever
    new = TOKENS_OF_TURN + words
    rows = dialogs * new * (1 if causal else turn)
    flops = layers * transformer_layer(rows, new * turn, width, hidden) + linear(dialogs, sizes.features, width) + linear(dialogs, width, width)
    return Needs(flops, weights_of(retriever) + FLOAT * dialogs * sizes.features)


def searching(queries: int, gallery: int, width: int) -> Needs:
    """One matrix product of queries and gallery, both read once."""
    return Needs(linear(queries, width, gallery), FLOAT * width * (queries + gallery))


def simulation(
    sizes: Sizes, models: tuple[nn.Module, nn.Module], dialogs: int, gallery: int, turns: int, beams: int, words: Sequence[float], causal: bool
) -> Needs:
    """Every turn of a batch is said, heard and searched; `words` are the mean of those heard and of those computed, of all beams alike."""
    captioner, retriever = models
    heard, said = words
    needs = NOTHING
    for turn in range(1, turns + 1):
        needs += saying(sizes, captioner, dialogs, beams, said) + hearing(sizes, retriever, dialogs, turn, heard, causal)
        needs += searching(dialogs, gallery, sizes.retriever[0])
    return needs


def retriever_step(sizes: Sizes, models: tuple[nn.Module, nn.Module], dialogs: int, words: Sequence[float], causal: bool) -> Needs:
    """A simulation in which hearing is done thrice, once forward and twice backward, and Adam's step."""
    needs = simulation(sizes, models, dialogs, sizes.train, sizes.turns, 1, words, causal)
    for turn in range(1, sizes.turns + 1):
        needs += hearing(sizes, models[1], dialogs, turn, words[0], causal).times(2)
    return needs + Needs(0, ADAM * weights_of(models[1]))


def captioner_step(sizes: Sizes, captioner: nn.Module, captions: int, words: float, of_a_pair: int) -> Needs:
    """Captions of `words` words and an end, some of each pair, forward and twice that backward, and Adam's step.

    Weights are read twice, gradients written.
    """
    forward = saying(sizes, captioner, captions // of_a_pair, of_a_pair, words + 2 - 1 / of_a_pair).flops  # they share no first word
    return Needs(3 * forward, (3 + ADAM) * weights_of(captioner) + 2 * FLOAT * captions * sizes.features)


def convolutions(encoder: nn.Module, images: int, pixels: int, bytes_of_number: int) -> Needs:
    """Convolutions and linear maps of a network given on the meta device: weights, and of every convolution what goes in and comes out."""
    needs = NOTHING

    def count(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal needs
        weight = module.weight
        numbers = inputs[0].numel() + output.numel() + weight.numel()
        per_output = weight[0].numel()
        needs += Needs(2 * output.numel() * per_output, bytes_of_number * numbers)

    hooks = [module.register_forward_hook(count) for module in encoder.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        encoder.eval()(torch.empty(images, 3, pixels, pixels, device="meta"))
    for hook in hooks:
        hook.remove()
    return needs
