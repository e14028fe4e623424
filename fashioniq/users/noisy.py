"""Word noise for any user that replies in word ids."""

import numpy as np
import torch
from torch import Tensor

from fashioniq.data.words import PAD, Vocabulary
from fashioniq.loop.messages import Message, User

NEGATIONS = ("not", "no")


class NoisyUser:
    """Wrapper of a user that corrupts a share `noise` of its words (see `corrupt`).

    The noise depends on target and turn through `chance_TNL` (see `noise_draws`), so it is the same for every
    retriever.
    """

    def __init__(self, user: User, noise: float, vocabulary: Vocabulary, chance_TNL: Tensor) -> None:
        self.user, self.noise, self.negation, self.chance_TNL = user, noise, negation(vocabulary), chance_TNL

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Return the reply of the wrapped user with noise."""
        words_BL = self.user.reply(target_B, offer, turn).words_BL
        assert words_BL is not None, "noise needs a user that replies in word ids"
        return Message(words_BL=corrupt(words_BL, self.noise, self.chance_TNL[turn, target_B], self.negation))


def negation(vocabulary: Vocabulary) -> int | None:
    """Return the id of the first word of NEGATIONS in the vocabulary, or None."""
    known = [word for word in NEGATIONS if word in vocabulary]
    return vocabulary.words.index(known[0]) if known else None


def noise_draws(
    seed: int, turns: int, dialogs: int, words: int, device: torch.device | str = "cpu"
) -> Tensor:
    """Draw uniform numbers of [0, 1) for `corrupt`, one per word, T×N×L; earlier turns do not depend on T."""
    # `seed` alone is used for the first candidates, so the noise needs another stream.
    drawn = np.random.default_rng((seed, 1)).random((turns, dialogs, words), dtype=np.float32)
    return torch.from_numpy(drawn).to(device)


def corrupt(words_BL: Tensor, noise: float, chance_BL: Tensor, negation: int | None) -> Tensor:
    """Corrupt the words whose chance is below `noise`: drop, swap with a neighbor, or negate, in equal parts.

    The neighbor is the next word, or the previous one for the last word. A negation is inserted before the
    word; without a `negation` id, half of the words are dropped and half swapped. If all words would be
    dropped, the first one stays. Words beyond L are cut off.
    """
    kind = noise / (2 if negation is None else 3)
    word_mask_BL = words_BL != PAD
    dropped_BL = word_mask_BL & (chance_BL < kind)
    swapped_BL = word_mask_BL & (chance_BL >= kind) & (chance_BL < 2 * kind)
    negated_BL = word_mask_BL & (chance_BL >= 2 * kind) & (chance_BL < noise)
    dropped_BL[:, 0] &= (word_mask_BL & ~dropped_BL).any(1)
    # Words are reordered by a stable sort of their positions. Positions are integers, so ±1.5 puts a swapped
    # word
    # between its neighbor and the word beyond it. Every word has two slots with the same position, one for
    # its
    # negation and one for itself, so a negation moves with its word. Empty slots sort last.
    position_L = torch.arange(words_BL.shape[1], device=words_BL.device)
    last_BL = position_L == word_mask_BL.sum(1, keepdim=True) - 1
    position_BL = position_L + swapped_BL * torch.where(last_BL, -1.5, 1.5)
    slots_BL2 = torch.stack([(negation or PAD) * negated_BL, words_BL.masked_fill(dropped_BL, PAD)], -1)
    order_BM = (
        torch.where(slots_BL2 == PAD, torch.inf, position_BL.unsqueeze(-1))
        .flatten(1)
        .argsort(dim=1, stable=True)
    )
    return slots_BL2.flatten(1).gather(1, order_BM)[:, : words_BL.shape[1]]
