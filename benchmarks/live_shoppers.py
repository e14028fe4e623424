"""Simulated shoppers of a live search with pictures, clicks and impatience, and the log of their conversations.

A shopper looks for one product. Place p of an answer is examined with probability p^−bias, from the top down. A shopper
who examines the target chooses it and leaves. Other examined products are clicked if they have most of the target's
labels. Then the shopper leaves, or describes how the target differs from the examined product that is most like it.
All shoppers of a turn talk to the models together, and each model reads the whole conversation, whoever answers.
"""

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from dialect import in_dialect
from numpy.typing import NDArray

from fashioniq.data.catalog import Catalog
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message
from fashioniq.loop.query import Query
from fashioniq.loop.rollout import System
from fashioniq.sample import garments_of
from fashioniq.service.served_model import diverse
from fashioniq.users.grammar import GarmentSpeaker

DEEPEST = 50  # products of each model that are logged for an answer
TYPICAL = 8  # products on the first page
TOGETHER = 1000  # shoppers

Ints, Floats, Bools = NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]


@dataclass(frozen=True)
class Behavior:
    """What all shoppers have in common."""

    turns: int = 5  # after which everyone leaves
    shown: int = 10  # products per answer
    bias: float = 0.5  # place p is examined with probability p^−bias
    leaves: float = 0.15  # probability to leave after a turn
    clicks: float = 0.6  # share of the target's labels from which an examined product is clicked
    noise: float = 0.15  # standard deviation of that share as it is perceived
    dialect: float = 0.5  # share of the shoppers who speak the dialect
    typos: float = 0.05  # share of the words with two letters swapped

    @property
    def examination_K(self) -> Floats:
        """Probability that each place is examined."""
        return np.arange(1, self.shown + 1) ** -self.bias


class Answer(NamedTuple):
    """Products shown, which model contributed each as a credit in [−1, 1], and the probability of each."""

    items: Sequence[int]
    credits: Sequence[float]
    propensities: Sequence[float]


Arm = Callable[[Sequence[Sequence[int]], int, random.Random], Answer]  # from the ranking of each model, and k


def alone(model: int) -> Arm:
    """Answers of one model."""
    return lambda rankings, k, draw: Answer(rankings[model][:k], [0.0] * k, [1.0] * k)


@dataclass
class Log:
    """R answers to B shoppers, for M models: their first D products, and the 0-based rank of the target for each."""

    success_B: Bools
    shopper_R: Ints
    target_R: Ints
    turn_R: Ints
    item_RK: Ints
    credit_RK: Floats
    propensity_RK: Floats
    clicked_RK: Bools
    chosen_R: Ints  # place, −1 if the target was not chosen
    ranked_RMD: Ints
    rank_RM: Ints

    @property
    def score_B(self) -> Floats:
        """Mean credit of what each shopper clicked or chose, 0 without clicks."""
        size = len(self.success_B)
        credit_B = np.bincount(self.shopper_R, (self.credit_RK * self.clicked_RK).sum(1), size)
        return credit_B / np.maximum(1, np.bincount(self.shopper_R, self.clicked_RK.sum(1), size))

    @property
    def choice_B(self) -> Floats:
        """Credit of what each shopper chose, 0 without a choice."""
        row_S = np.nonzero(self.chosen_R >= 0)[0]
        return np.bincount(
            self.shopper_R[row_S], self.credit_RK[row_S, self.chosen_R[row_S]], len(self.success_B)
        )


class Street:
    """B shoppers with their targets and all coins that they throw, which are the same for every arm."""

    def __init__(
        self, catalog: Catalog, system: System, shoppers: int, behavior: Behavior, seed: int
    ) -> None:
        items, self.behavior, self.seed = system.gallery.items, behavior, seed
        garments = garments_of(catalog)
        self.speaker = GarmentSpeaker([garments[name] for name in items.ids])
        labels = [
            {word for words in catalog.labels[name][1:] for word in words} for name in items.ids
        ]  # without the garment
        names = sorted(set().union(*labels))
        has_NL = np.array([[name in own for name in names] for own in labels], np.float64)
        self.alike_NN = has_NL @ has_NL.T / has_NL.sum(1, keepdims=True)  # share of the labels of the row
        self.first_F = np.array(diverse(system.gallery.vectors_ND, system.gallery.mean_1D[0], TYPICAL))
        draw, turns, shown = np.random.default_rng(seed), behavior.turns, behavior.shown
        self.target_B = draw.integers(len(items.ids), size=shoppers)
        self.dialect_B = draw.random(shoppers) < behavior.dialect
        self.examined_BTK = draw.random((shoppers, turns, shown)) < behavior.examination_K
        self.noise_BTK = behavior.noise * draw.standard_normal((shoppers, turns, shown), np.float32)
        self.leaves_BT = draw.random((shoppers, turns)) < behavior.leaves

    def says(self, shopper: int, turn: int, item: int) -> str:
        """How the target differs from a product."""
        chance = random.Random(f"{self.seed} {shopper} {turn}")
        text = self.speaker.describe(int(self.target_B[shopper]), item, chance)
        text = in_dialect(text) if self.dialect_B[shopper] else text
        return " ".join(_typed(word, chance, self.behavior.typos) for word in text.split())

    def opening(self, shopper_B: Ints) -> Ints:
        """Product of the first page that each shopper talks about, the one most like the target."""
        alike_BF = self.alike_NN[self.target_B[shopper_B, None], self.first_F]
        return self.first_F[np.where(self.first_F == self.target_B[shopper_B, None], -1, alike_BF).argmax(1)]

    def reactions(self, shopper_B: Ints, turn: int, item_BK: Ints) -> tuple[Bools, Ints, Ints]:
        """Products clicked B×K, the place of the one chosen or −1, and the product to talk about."""
        target_B = self.target_B[shopper_B]
        examined_BK, alike_BK = self.examined_BTK[shopper_B, turn], self.alike_NN[target_B[:, None], item_BK]
        found_BK = examined_BK & (item_BK == target_B[:, None])
        chosen_B = np.where(found_BK.any(1), found_BK.argmax(1), -1)
        examined_BK = examined_BK & (found_BK.cumsum(1) - found_BK == 0)  # nothing after the target
        perceived_BK = alike_BK + self.noise_BTK[shopper_B, turn]
        clicked_BK = examined_BK & ((perceived_BK > self.behavior.clicks) | found_BK)
        best_B = np.where(examined_BK, alike_BK, -1).argmax(1)
        return clicked_BK, chosen_B, item_BK[np.arange(len(item_BK)), best_B]


def _typed(word: str, chance: random.Random, typos: float) -> str:
    if len(word) < 4 or chance.random() >= typos:
        return word
    place = chance.randrange(len(word) - 1)
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


@torch.inference_mode()
def converse(street: Street, models: Sequence[System], arm: Arm, ranks: bool = False) -> Log:
    """The conversations of all shoppers in an arm; the ranks of the targets are computed on request."""
    size = len(street.target_B)
    parts = [
        part
        for start in range(0, size, TOGETHER)
        for part in _together(street, models, arm, np.arange(start, min(size, start + TOGETHER)), ranks)
    ]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    chose_B = np.bincount(found["shopper_R"], found["chosen_R"] >= 0, size) > 0
    return Log(success_B=chose_B, **found)


def _together(
    street: Street, models: Sequence[System], arm: Arm, shopper_B: Ints, ranks: bool
) -> list[dict[str, NDArray]]:
    """One part of the log for each turn."""
    behavior, parts = street.behavior, []
    about_B = street.opening(shopper_B)
    talked_BT = about_B[:, None]
    states = [model.start(len(shopper_B)) for model in models]
    for turn in range(behavior.turns):
        texts = [street.says(*one) for one in zip(shopper_B, [turn] * len(shopper_B), about_B, strict=True)]
        offer, reply = Message(item_B=torch.from_numpy(about_B)), Message(texts=texts)
        states = _observed(models, states, offer, reply)
        queries, talked = [state.queries[-1] for state in states], torch.from_numpy(talked_BT)
        target_B = torch.from_numpy(street.target_B[shopper_B])
        ranked_BMD = np.stack(
            [
                model.gallery.top(query, DEEPEST, talked)[1].numpy()
                for model, query in zip(models, queries, strict=True)
            ],
            1,
        )
        rank_BM = np.stack(
            [
                model.gallery.rank(query, target_B).numpy() if ranks else np.zeros(len(target_B), np.int64)
                for model, query in zip(models, queries, strict=True)
            ],
            1,
        )
        answers = [
            arm(ranked, behavior.shown, random.Random(f"{street.seed} {shopper} {turn} answer"))
            for shopper, ranked in zip(shopper_B, ranked_BMD.tolist(), strict=True)
        ]
        item_BK, credit_BK, propensity_BK = (np.array(part) for part in zip(*answers, strict=True))
        clicked_BK, chosen_B, about_B = street.reactions(shopper_B, turn, item_BK)
        parts.append(
            {
                "shopper_R": shopper_B,
                "target_R": street.target_B[shopper_B],
                "turn_R": np.full(len(shopper_B), turn),
                "item_RK": item_BK,
                "credit_RK": credit_BK.astype(float),
                "propensity_RK": propensity_BK.astype(float),
                "clicked_RK": clicked_BK,
                "chosen_R": chosen_B,
                "ranked_RMD": ranked_BMD,
                "rank_RM": rank_BM,
            }
        )
        (stay_S,) = np.nonzero((chosen_B < 0) & ~street.leaves_BT[shopper_B, turn])
        if not len(stay_S):
            break
        shopper_B, about_B = shopper_B[stay_S], about_B[stay_S]
        talked_BT = np.concatenate([talked_BT[stay_S], about_B[:, None]], 1)
        states = [_rows(state, stay_S) for state in states]
    return parts


def _observed(
    models: Sequence[System], states: Sequence[DialogState], offer: Message, reply: Message
) -> list[DialogState]:
    """The states after a turn; models with the same wording read what is wished once."""
    found: list[DialogState] = []
    for model, state in zip(models, states, strict=True):
        shared = found and model.wording is models[0].wording
        wishes = found[0].queries[-1].wishes if shared else None
        found.append(model.observe(state, offer, reply, wishes))
    return found


def _rows(state: DialogState, row_S: Ints) -> DialogState:
    """The state of some of the dialogs."""
    vector_BD, wishes = state.queries[-1]
    query = Query(vector_BD[row_S], None if wishes is None else [wishes[row] for row in row_S])
    return DialogState(len(row_S), state.state[row_S], (), (query,))


@torch.no_grad()
def degraded(system: System, noise: float, seed: int) -> System:
    """The system with Gaussian noise of `noise` standard deviations on each weight; words count as before."""
    retriever, draw = deepcopy(system.retriever), torch.Generator().manual_seed(seed)
    for weight in retriever.parameters():
        if weight.ndim and weight.numel():
            weight += noise * weight.std() * torch.randn(weight.shape, generator=draw)
    items = system.gallery.items
    gallery = Gallery(items, items.embedded(retriever.embed_images), scorer=system.gallery.scorer)
    return replace(system, retriever=retriever, gallery=gallery)
