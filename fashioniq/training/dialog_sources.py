"""Sources of dialogs to train a retriever with: simulated and recorded ones.

`turns` of a source is the number of turns in validation, `items` are the products of each split. Examples of a
split are positions 0 … count(split) − 1. `enter` prepares an epoch of a split, `train` returns the dialogs of a
training step, counted from 0, and `val` those of validation by the name of their user, the same in every epoch.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fashioniq.askers.recorded import recorded_items
from fashioniq.data.catalog import Pair
from fashioniq.data.items import Items
from fashioniq.data.words import Vocabulary
from fashioniq.loop.messages import Asker, User
from fashioniq.training.callbacks import epoch_seed
from fashioniq.training.processes import (
    rank_and_count,
    shared_out,
)
from fashioniq.users.noisy import NoisyUser, noise_draws
from fashioniq.users.recorded import RecordedReplies

SIMILAR = 100  # products from which a similar first product is drawn


def random_others(item_B: Tensor, count: int) -> Tensor:
    """Draw for each position another one of 0 … count − 1, uniformly. A seed gives the same ones on every device."""
    steps_G = torch.randint(1, count, (len(item_B) * rank_and_count()[1],))
    return (item_B + shared_out(steps_G).to(item_B.device)) % count


class DialogStarts(NamedTuple):
    """Dialogs to simulate: positions of targets and first items (B each), user, and number of turns.

    `asker` replaces that of the training.
    """

    target_B: Tensor
    first_B: Tensor
    user: User
    turns: int
    asker: Asker | None = None


class DialogSimulation:
    """Dialogs with one simulated user; every product of a split is the target once per epoch.

    `make_user(split, items, seed)` creates the user for the products of a split. A share of `word_noise` of its
    words, at most `max_words` per turn, is corrupted. `seed` fixes the noise, what the user says, and the
    first items of validation. A share of `similar_first` of the training dialogs begins with one of the
    `SIMILAR` products most similar to the target, as in people's dialogs, and the others with any product.
    """

    def __init__(
        self,
        make_user: Callable[[str, Items, int], User],
        vocabulary: Vocabulary,
        items: dict[str, Items],
        *,
        turns: int,
        seed: int,
        max_words: int,
        word_noise: float = 0.0,
        similar_first: float = 0.0,
        name: str = "user",
    ) -> None:
        self.make_user, self.vocabulary, self.items, self.turns = make_user, vocabulary, items, turns
        self.seed, self.max_words, self.word_noise, self.name = seed, max_words, word_noise, name
        self.similar_first = similar_first
        self.users: dict[str, User] = {}

    def count(self, split: str) -> int:
        return len(self.items[split])

    def enter(self, split: str, epoch: int, device: torch.device) -> None:
        items = self.items[split].to(device)
        # the same validation in every epoch
        seed = self.seed if split == "val" else epoch_seed(self.seed, epoch)
        user = self.make_user(split, items, seed)
        if self.word_noise:
            chance = noise_draws(seed, self.turns, len(items), self.max_words, device)
            user = NoisyUser(user, self.word_noise, self.vocabulary, chance)
        self.users[split] = user
        if self.similar_first and split == "train":
            self._unit_ND = items.embedded(partial(torch.nn.functional.normalize, dim=-1))

    def train(self, row_B: Tensor, step: int) -> DialogStarts:
        first_B = random_others(row_B, self.count("train"))
        if self.similar_first:
            first_B = self._similar(row_B, first_B)
        return DialogStarts(row_B, first_B, self.users["train"], self.turns)

    def _similar(self, row_B: Tensor, random_B: Tensor) -> Tensor:
        """Replace a share of `random_B` by products drawn from those with the most similar features."""
        unit_BD = self._unit_ND[row_B]
        likeness_BN = (unit_BD @ self._unit_ND.T).scatter(1, row_B.unsqueeze(1), -2.0)
        near_BK = likeness_BN.topk(min(SIMILAR, self.count("train") - 1)).indices
        size = (2, len(row_B) * rank_and_count()[1])
        which_B, chance_B = (shared_out(part).to(row_B.device) for part in torch.rand(size))
        drawn_B1 = (which_B * near_BK.shape[1]).long().unsqueeze(1)
        return torch.where(chance_B < self.similar_first, near_BK.gather(1, drawn_B1)[:, 0], random_B)

    def val(self, row_B: Tensor) -> dict[str, DialogStarts]:
        count = self.count("val")
        # an item other than the target, the same in every epoch
        first_B = (row_B + 1 + self.seed % (count - 1)) % count
        return {self.name: DialogStarts(row_B, first_B, self.users["val"], self.turns)}


# target, item and text of each turn, and weight
RecordedDialog = tuple[str, Sequence[tuple[str, str]], float]


@dataclass(frozen=True)
class RecordedTurns:
    """Recorded dialogs with the same number of turns: targets N, items N×T, words N×T×L, and weights N."""

    target_N: Tensor
    item_NT: Tensor
    words_NTL: Tensor
    weight_N: Tensor

    @classmethod
    def of(
        cls, recorded: Sequence[RecordedDialog], items: Items, vocabulary: Vocabulary, max_words: int
    ) -> "RecordedTurns":
        """Turns of these dialogs about `items`, the products of a split."""
        position_of = items.positions
        words_RL = vocabulary.encode([text for _, steps, _ in recorded for _, text in steps], max_words)
        return cls(
            torch.tensor([position_of[target] for target, _, _ in recorded]),
            torch.tensor([[position_of[item] for item, _ in steps] for _, steps, _ in recorded]),
            words_RL.view(len(recorded), -1, max_words),
            torch.tensor([weight for _, _, weight in recorded]),
        )

    @classmethod
    def of_pairs(
        cls, pairs: list[Pair], items: Items, vocabulary: Vocabulary, max_words: int, joined: bool = False
    ) -> "RecordedTurns":
        """Captions of pairs as dialogs of one turn each; if `joined`, all captions of a pair together are another."""
        recorded = [
            (pair.target, [(pair.candidate, text)], 1.0)
            for pair in pairs
            if pair.target
            for text in (*pair.captions, *([" and ".join(pair.captions)] if joined else []))
        ]
        return cls.of(recorded, items, vocabulary, max_words)

    def __len__(self) -> int:
        return len(self.target_N)

    def dialogs(self, row_B: Tensor, device: torch.device) -> DialogStarts:
        """Return the dialogs of some rows."""
        row_B = row_B.cpu()
        item_BT = self.item_NT[row_B].to(device)
        user = RecordedReplies.of_words(self.words_NTL[row_B].to(device))
        return DialogStarts(
            self.target_N[row_B].to(device), item_BT[:, 0], user, item_BT.shape[1], recorded_items(item_BT)
        )


class RecordedDialogs:
    """Recorded captions of both splits, or of one of them, as dialogs of one turn, each once per epoch."""

    turns, name = 1, "recorded"

    def __init__(self, recorded: dict[str, RecordedTurns], items: dict[str, Items]) -> None:
        self.recorded, self.items = recorded, items

    def count(self, split: str) -> int:
        return len(self.recorded[split]) if split in self.recorded else 0

    def enter(self, split: str, epoch: int, device: torch.device) -> None:
        self.device = device

    def train(self, row_B: Tensor, step: int) -> DialogStarts:
        return self.recorded["train"].dialogs(row_B, self.device)

    def val(self, row_B: Tensor) -> dict[str, DialogStarts]:
        return {self.name: self.recorded["val"].dialogs(row_B, self.device)} if self.count("val") else {}


class RecordedSessions(RecordedDialogs):
    """Recorded sessions of several turns with their weights, which show what the sessions showed.

    `sessions` have, by split, the target, the items and texts of the turns, and the weight. The sessions of a
    training step have the same number of turns and are drawn by weight. In validation, each turn of val is a
    dialog of its own.
    """

    def __init__(
        self,
        sessions: dict[str, Sequence[RecordedDialog]],
        items: dict[str, Items],
        vocabulary: Vocabulary,
        max_words: int,
        name: str = "live",
    ) -> None:
        val = [(target, [step], weight) for target, steps, weight in sessions["val"] for step in steps]
        recorded = {"val": RecordedTurns.of(val, items["val"], vocabulary, max_words)} if val else {}
        super().__init__(recorded, items)
        self.name = name
        of_length: dict[int, list[RecordedDialog]] = {}
        for one in sessions["train"]:
            of_length.setdefault(len(one[1]), []).append(one)
        self._groups = [
            RecordedTurns.of(group, items["train"], vocabulary, max_words) for group in of_length.values()
        ]

    def count(self, split: str) -> int:
        return sum(map(len, self._groups)) if split == "train" else super().count(split)

    def train(self, row_B: Tensor, step: int) -> DialogStarts:
        """Return as many sessions as `row_B` has rows."""
        shares = [group.weight_N.sum().item() for group in self._groups]
        group = random.Random(step).choices(self._groups, shares)[0]  # the same in all processes
        drawn = torch.multinomial(group.weight_N, len(row_B) * rank_and_count()[1], replacement=True)
        return group.dialogs(shared_out(drawn), self.device)


Source = DialogSimulation | RecordedDialogs
