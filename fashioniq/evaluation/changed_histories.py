"""Conversations with another history, which show whether a search reads it."""

import random
from collections.abc import Sequence

import torch
from msgspec.structs import replace
from torch import Tensor

from fashioniq.data.conversation_records import ConversationSample


def without_history(samples: Sequence[ConversationSample]) -> list[ConversationSample]:
    """The conversations without what was said before the last round."""
    return [replace(sample, turns=sample.last_round) for sample in samples]


def other_history(samples: Sequence[ConversationSample], seed: int) -> list[ConversationSample]:
    """The last two turns of the conversations after the history of another one of them."""
    order = random.Random(seed).sample(range(len(samples)), len(samples))
    other = dict(zip(order, order[1:] + order[:1], strict=True))
    return [sample.with_history_of(samples[other[number]]) for number, sample in enumerate(samples)]


def exchanged(target_Q: Tensor, seed: int) -> Tensor:
    """The targets in random order, none at its own place if that is possible."""
    chance, own = random.Random(seed), target_Q.tolist()
    swapped = chance.sample(own, len(own))
    for one in range(len(own)):
        if swapped[one] == own[one]:
            others = [n for n in range(len(own)) if own[one] not in (swapped[n], own[n])]
            if others:
                other = chance.choice(others)
                swapped[one], swapped[other] = swapped[other], swapped[one]
    return torch.tensor(swapped)
