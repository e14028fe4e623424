"""Noise on top of any user that replies in words."""

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.words import PAD, Vocabulary
from fashioniq.loop.messages import Message, User

NEGATIONS = ("not", "no")


class NoisyUser:
    """Replies as another user does, with a share `noise` of the words corrupted: see `corrupt`.

    By `chance_TNL` (see `chances`) a target meets the same noise at the same turn, whichever retriever is evaluated.
    """

    def __init__(self, user: User, noise: float, vocabulary: Vocabulary, chance_TNL: Tensor) -> None:
        self.user, self.noise, self.negation, self.chance_TNL = user, noise, negation(vocabulary), chance_TNL

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """The other user's reply with noise."""
        words_BL = self.user.reply(target_B, offer, turn).words_BL
        assert words_BL is not None, "noise is defined on words"
        return Message(words_BL=corrupt(words_BL, self.noise, self.chance_TNL[turn, target_B], self.negation))


def negation(vocabulary: Vocabulary) -> int | None:
    """The id of a word of negation, or None where the vocabulary has none."""
    known = [word for word in NEGATIONS if word in vocabulary]
    return vocabulary.words.index(known[0]) if known else None


def chances(seed: int, turns: int, dialogs: int, words: int, device: torch.device | str = "cpu") -> Tensor:
    """A number of [0, 1) for every word of every dialog at every turn, T×N×L, for `corrupt`; earlier turns do not depend on T."""
    drawn = np.random.default_rng((seed, 1)).random((turns, dialogs, words), dtype=np.float32)  # first candidates are drawn from `seed` alone
    return torch.from_numpy(drawn).to(device)


def corrupt(words_BL: Tensor, noise: float, chance_BL: Tensor, negation: int | None) -> Tensor:
    """Corrupt the words whose chance is below `noise`: in equal parts dropped, swapped with the neighbour, or negated by a word before it.

    The neighbour is the next word; the last word is swapped with the one before. Without a `negation` half are dropped and half
    swapped. A reply never becomes empty: its first word stays where all would be dropped. Words beyond L are cut off.
    """
    kind = noise / (2 if negation is None else 3)
    there_BL = words_BL != PAD
    dropped_BL = there_BL & (chance_BL < kind)
    swapped_BL = there_BL & (chance_BL >= kind) & (chance_BL < 2 * kind)
    negated_BL = there_BL & (chance_BL >= 2 * kind) & (chance_BL < noise)
    dropped_BL[:, 0] &= (there_BL & ~dropped_BL).any(1)
    # Each word gets a place; a swapped word moves just beyond its neighbour. Two slots a word hold its negation and the word itself.
    place_L = torch.arange(words_BL.shape[1], device=words_BL.device)
    last_BL = place_L == there_BL.sum(1, keepdim=True) - 1
    place_BL = place_L + swapped_BL * torch.where(last_BL, -1.5, 1.5)
    said_BL2 = torch.stack([(negation or PAD) * negated_BL, words_BL.masked_fill(dropped_BL, PAD)], -1)
    order_BM = torch.where(said_BL2 == PAD, torch.inf, place_BL.unsqueeze(-1)).flatten(1).argsort(dim=1, stable=True)
    return said_BL2.flatten(1).gather(1, order_BM)[:, : words_BL.shape[1]]
