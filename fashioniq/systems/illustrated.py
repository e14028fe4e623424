"""Retriever that fuses the text of a dialog with pictures generated from it (DAR); GenIR uses pictures alone."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from fashioniq.generators.pictures import Generated, Generator, Request, generate_usable
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Retriever, Turn
from fashioniq.models.text import unit

Fusion = Literal["sum", "mean", "normalized"]
Encode = Callable[[Sequence[Image]], Tensor]  # pictures → vectors of unit length, N×D


Prompts = tuple[str, ...]
# the dialogs of a batch → their prompts; the k-th picture is made from the k-th one, and again from the first
Write = Callable[[Sequence[Sequence[str]]], Sequence[Prompts]]
SHARED = 5  # of the ten best products of two pictures: as many or more, and the pictures are trusted


class State(NamedTuple):
    """State of the text retriever; rounds, prompts and newest usable picture of each dialog, and how often the
    prompts were repeated; and the vectors of all pictures that count.
    """

    text: Any
    rounds: list[tuple[str, ...]]
    prompts: list[Prompts | None]
    repeats: list[int]
    pictures: tuple[Image | None, ...]
    vectors_BKD: Tensor | None = None
    usable_BK: Tensor | None = None


class Parts(NamedTuple):
    """Parts of a query: vectors of text and pictures, and which of the pictures are usable."""

    text_BD: Tensor
    picture_BKD: Tensor
    usable_BK: Tensor


@dataclass
class Costs:
    """What the pictures of an evaluation cost, by round: dialogs, pictures by status, seconds.

    `unchanged` counts dialogs whose prompt is that of the round before, and that keep their pictures.
    """

    dialogs: Counter[int] = field(default_factory=Counter)
    pictures: Counter[tuple[int, str]] = field(default_factory=Counter)
    without_picture: Counter[int] = field(default_factory=Counter)
    unchanged: Counter[int] = field(default_factory=Counter)
    seconds: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))

    def rows(self) -> list[dict[str, float]]:
        """Means per dialog of every round."""
        rows = []
        for number, count in sorted(self.dialogs.items()):
            made = {status: times for (round, status), times in self.pictures.items() if round == number}
            rows.append(
                {
                    "pictures": sum(made.values()) / count,
                    "failed": (sum(made.values()) - made.get("ok", 0) - made.get("wrong size", 0)) / count,
                    "without_picture": self.without_picture[number] / count,
                    "unchanged": self.unchanged[number] / count,
                    "seconds": self.seconds[number] / count,
                }
            )
        return rows


@dataclass(frozen=True)
class Weights:
    """Weight of the text after each round, the last one for all further rounds; the pictures have the rest.

    With `by_agreement`, each picture's weight is multiplied by its similarity to the text, at least 0. With
    `chosen`, the pictures of a dialog count only if they agree with each other (see `agreeing`); the text is the
    query of the other dialogs.
    """

    text: Sequence[float]
    by_agreement: bool = False
    chosen: bool = False

    def of_round(self, number: int) -> float:
        """Weight of the text after a round, counted from 0."""
        return self.text[min(number, len(self.text) - 1)]


def fuse(
    text_BD: Tensor,
    picture_BKD: Tensor,
    usable_BK: Tensor,
    weight: float,
    fusion: Fusion,
    agree: bool = False,
) -> Tensor:
    """Query from vectors of unit length: `weight` · text + (1 − `weight`) · pictures, B×D.

    With the fusion "sum", the similarity of a query to an image is the weighted sum of the similarities of
    text and pictures. A dialog without a usable picture has the text as its query.
    """
    share_BK = usable_BK.to(text_BD.dtype)
    if agree:
        share_BK = share_BK * torch.einsum("bd,bkd->bk", text_BD, picture_BKD).clamp_min(0)
    pictures_BD = torch.einsum("bk,bkd->bd", share_BK, picture_BKD)
    if fusion != "sum":
        pictures_BD = pictures_BD / usable_BK.sum(1, keepdim=True).clamp_min(1)
    if fusion == "normalized":
        pictures_BD = unit(pictures_BD)
    query_BD = weight * text_BD + (1 - weight) * pictures_BD
    return torch.where((share_BK > 0).any(1, keepdim=True), query_BD, text_BD)


def agreeing(gallery: Gallery, picture_BKD: Tensor, usable_BK: Tensor, shared: int = SHARED) -> Tensor:
    """Dialogs of whose usable pictures any two find `shared` of the same ten products, on average, B.

    Pictures of a vague description differ from each other, and so does what they find. Dialogs with fewer than
    two usable pictures do not agree.
    """
    batch, count = usable_BK.shape
    item_BKT = gallery.top(picture_BKD.flatten(0, 1), min(10, len(gallery)))[1].view(batch, count, -1)
    common_BKK = (item_BKT[:, :, None, :, None] == item_BKT[:, None, :, None, :]).any(-1).sum(-1)
    pair_BKK = (usable_BK[:, :, None] & usable_BK[:, None, :]).triu(1)
    pairs_B = pair_BKK.sum((1, 2))
    return (pairs_B > 0) & ((common_BKK * pair_BKK).sum((1, 2)) >= shared * pairs_B)


class Illustrated:
    """Retriever that adds generated pictures to the query of a text retriever.

    `write` makes the prompts of the pictures from the rounds of the dialogs. `count` pictures are generated per
    round, with seeds that depend on `seed` and prompt only. Prompts that did not change keep their pictures; with
    `more`, further ones are generated from them, and all count. With `seed_of`, seeds are a function of the row
    in the batch, the round and the number of the picture, for pictures that were generated before, and every
    round has its own. Where no picture is usable, the text alone is the query. The parts of every query are
    appended to `recorded`, if it is given.
    """

    def __init__(
        self,
        text: Retriever,
        write: Write,
        generator: Generator,
        encode: Encode,
        *,
        gallery: Gallery,
        weights: Weights,
        fusion: Fusion = "sum",
        count: int = 1,
        seed: int = 0,
        more: bool = False,
        seed_of: Callable[[int, int, int], int] | None = None,
        costs: Costs | None = None,
        recorded: list[Parts] | None = None,
        said: Callable[[Turn], Sequence[str]] = lambda turn: turn.rounds,
    ) -> None:
        self.said = said
        self.seed_of, self.more, self.gallery, self.recorded = seed_of, more, gallery, recorded
        self.text, self.write, self.generator, self.encode = text, write, generator, encode
        self.weights, self.fusion, self.count, self.seed = weights, fusion, count, seed
        self.costs = costs or Costs()

    def start(self, batch: int) -> State:
        """Return `batch` dialogs without rounds."""
        return State(self.text.start(batch), [()] * batch, [None] * batch, [0] * batch, (None,) * batch)

    def step(self, state: State, turn: Turn) -> tuple[Tensor, State]:
        """Generate the pictures of one more round; return the query, B×D, and the state."""
        state, parts = self._illustrate(state, turn)
        if self.recorded is not None:
            self.recorded.append(parts)
        return self.query(parts, len(state.rounds[0]) - 1), state

    def query(self, parts: Parts, number: int) -> Tensor:
        """Fuse the parts of the query after a round, B×D."""
        usable_BK, weights = parts.usable_BK, self.weights
        if weights.chosen:
            usable_BK = usable_BK & agreeing(self.gallery, parts.picture_BKD, usable_BK)[:, None]
        return fuse(
            parts.text_BD,
            parts.picture_BKD,
            usable_BK,
            weights.of_round(number),
            self.fusion,
            agree=weights.by_agreement,
        )

    def _illustrate(self, state: State, turn: Turn) -> tuple[State, Parts]:
        """Generate the pictures of one more round."""
        text_BD, text = self.text.step(state.text, turn)
        rounds = [(*before, said) for before, said in zip(state.rounds, self.said(turn), strict=True)]
        prompts = [tuple(some) for some in self.write(rounds)]
        kept = [not self.seed_of and new == old for new, old in zip(prompts, state.prompts, strict=True)]
        repeats = [times + 1 if same else 0 for same, times in zip(kept, state.repeats, strict=True)]
        asked = [row for row, same in enumerate(kept) if self.more or not same]
        outcomes = self._generate(
            len(rounds[0]) - 1, kept, {row: (prompts[row], repeats[row]) for row in asked}
        )
        shape = len(rounds), self.count
        new_BKD = text_BD.new_zeros(*shape, text_BD.shape[1])
        fresh_BK = torch.zeros(shape, dtype=torch.bool, device=text_BD.device)
        pictures = [picture if same else None for picture, same in zip(state.pictures, kept, strict=True)]
        for row, some in zip(asked, outcomes, strict=True):
            fresh_BK[row] = torch.tensor([one.picture is not None for one in some], device=text_BD.device)
            pictures[row] = next((one.picture for one in some if one.picture), pictures[row])
        if made := [one.picture for some in outcomes for one in some if one.picture]:
            new_BKD[fresh_BK] = self.encode(made).to(text_BD)
        vectors_BKD, usable_BK = new_BKD, fresh_BK
        if state.vectors_BKD is not None and state.usable_BK is not None:
            kept_B1 = torch.tensor(kept, device=text_BD.device)[:, None]
            vectors_BKD = torch.cat([state.vectors_BKD, new_BKD], 1)
            usable_BK = torch.cat([state.usable_BK & kept_B1, fresh_BK], 1)
            used_K = usable_BK.any(0)  # pictures of earlier prompts are dropped
            used_K[-self.count :] = True
            vectors_BKD, usable_BK = vectors_BKD[:, used_K], usable_BK[:, used_K]
        state = State(
            text=text,
            rounds=rounds,
            prompts=list(prompts),
            repeats=repeats,
            pictures=tuple(pictures),
            vectors_BKD=vectors_BKD,
            usable_BK=usable_BK,
        )
        return state, Parts(text_BD, vectors_BKD, usable_BK)

    def _generate(
        self, number: int, kept: Sequence[bool], prompts: Mapping[int, tuple[Prompts, int]]
    ) -> list[list[Generated]]:
        """Outcomes of the pictures of each row with its prompts and their repeats; costs of the round are counted."""
        requests = [
            Request(prompt, self._seed(row, number, prompt, place))
            for row, (some, repeats) in prompts.items()
            for place in range(repeats * self.count, (repeats + 1) * self.count)
            for prompt in [some[place % len(some)]]
        ]
        attempts = generate_usable(self.generator, requests)
        costs = self.costs
        costs.dialogs[number] += len(kept)
        costs.unchanged[number] += sum(kept)
        for tried in attempts:
            costs.pictures.update((number, one.status) for one in tried)
            costs.seconds[number] += sum(one.seconds for one in tried)
        last = [tried[-1] for tried in attempts]
        outcomes = [last[start : start + self.count] for start in range(0, len(last), self.count)]
        costs.without_picture[number] += sum(not any(one.picture for one in some) for some in outcomes)
        return outcomes

    def _seed(self, row: int, number: int, prompt: str, place: int) -> int:
        if self.seed_of:
            return self.seed_of(row, number, place)
        name = f"{self.seed}/{place}/{prompt}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
