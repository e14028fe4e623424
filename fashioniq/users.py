"""Who plays the user: knows the target, sees the offer, answers in words only."""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from fashioniq.askers import Offer
from fashioniq.data.features import Items
from fashioniq.data.words import PAD, Vocabulary
from fashioniq.models.decoding import Looks, Speaker

NEGATIONS = ("not", "no")


class Words(NamedTuple):
    """Word ids in the vocabulary of the retriever, B×L, padded on the right."""

    words_BL: Tensor


class User(Protocol):
    def reply(self, target_B: Tensor, offer: Offer) -> Words:
        """What is said of how the targets differ from what is offered; both are positions in one gallery."""
        ...


class CaptionerUser:
    """A frozen relative captioner that speaks in the words of a listener: greedily or with beams."""

    def __init__(self, captioner: Speaker, items: Items, speaks: Vocabulary, hears: Vocabulary, beams: int = 1) -> None:
        self.captioner = captioner.eval().requires_grad_(False)
        self.items, self.beams = items, beams
        self._translation = speaks.translation(hears).to(items.features_ND.device)

    def reply(self, target_B: Tensor, offer: Offer) -> Words:
        words_BL = self.captioner.beam(self._looks(offer.item_B), self._looks(target_B), self.beams)
        return Words(self._translation[words_BL])

    def _looks(self, item_B: Tensor) -> Looks:
        return Looks(self.items.features_ND[item_B], self.items.attributes_NA[item_B])


class RecordedUser:
    """Repeats what people said: captions that were recorded for these very dialogs, B×T×L."""

    def __init__(self, words_BTL: Tensor) -> None:
        self.words_BTL = words_BTL

    def reply(self, target_B: Tensor, offer: Offer) -> Words:
        return Words(self.words_BTL[:, offer.turn])


class ErringUser:
    """Says what another user says, with errors in the share `errors` of the words: see `with_errors`.

    By `chance_TNL` (see `chances`) a target meets the same errors at the same turn whoever listens.
    """

    def __init__(self, user: User, errors: float, hears: Vocabulary, chance_TNL: Tensor) -> None:
        self.user, self.errors, self.negation, self.chance_TNL = user, errors, negation(hears), chance_TNL

    def reply(self, target_B: Tensor, offer: Offer) -> Words:
        words_BL = self.user.reply(target_B, offer).words_BL
        return Words(with_errors(words_BL, self.errors, self.chance_TNL[offer.turn, target_B], self.negation))


def negation(hears: Vocabulary) -> int | None:
    """The id of a word that negates, or None where the listener knows none."""
    known = [word for word in NEGATIONS if word in hears]
    return hears.words.index(known[0]) if known else None


def chances(seed: int, turns: int, dialogs: int, words: int, device: torch.device | str = "cpu") -> Tensor:
    """A number of [0, 1) for every word of every dialog at every turn, T×N×L, by which `with_errors` decides; earlier turns do not depend on T."""
    drawn = np.random.default_rng((seed, 1)).random((turns, dialogs, words), dtype=np.float32)  # first candidates are drawn from `seed` alone
    return torch.from_numpy(drawn).to(device)


def with_errors(words_BL: Tensor, errors: float, chance_BL: Tensor, negation: int | None) -> Tensor:
    """Err in words whose chance is below `errors`: a third each is dropped, swapped with its neighbour, or negated by a word before it.

    The neighbour is the next word, or of the last word the one before. Without a `negation` half are dropped and half swapped.
    What was said is never silenced: a first word stays where all would be dropped. What no longer fits into L words is cut off.
    """
    kind = errors / (2 if negation is None else 3)
    there_BL = words_BL != PAD
    dropped_BL = there_BL & (chance_BL < kind)
    swapped_BL = there_BL & (chance_BL >= kind) & (chance_BL < 2 * kind)
    negated_BL = there_BL & (chance_BL >= 2 * kind) & (chance_BL < errors)
    dropped_BL[:, 0] &= (there_BL & ~dropped_BL).any(1)
    place_L = torch.arange(words_BL.shape[1], device=words_BL.device)
    last_BL = place_L == there_BL.sum(1, keepdim=True) - 1
    place_BL = place_L + swapped_BL * torch.where(last_BL, -1.5, 1.5)  # just beyond the neighbour
    said_BL2 = torch.stack([(negation or PAD) * negated_BL, words_BL.masked_fill(dropped_BL, PAD)], -1)
    order_BM = torch.where(said_BL2 == PAD, torch.inf, place_BL.unsqueeze(-1)).flatten(1).argsort(dim=1, stable=True)
    return said_BL2.flatten(1).gather(1, order_BM)[:, : words_BL.shape[1]]
