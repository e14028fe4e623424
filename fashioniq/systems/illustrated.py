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
from fashioniq.loop.messages import Retriever, Turn
from fashioniq.models.text import unit

Fusion = Literal["sum", "mean", "normalized"]
Encode = Callable[[Sequence[Image]], Tensor]  # pictures → vectors of unit length, N×D


class State(NamedTuple):
    """State of the text retriever; rounds, prompt and pictures of each dialog; and the vectors of the pictures."""

    text: Any
    rounds: list[tuple[str, ...]]
    prompts: list[str | None]
    pictures: tuple[Image | None, ...]  # the first usable one
    vectors_BKD: Tensor | None = None
    usable_BK: Tensor | None = None


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

    With `by_agreement`, each picture's weight is multiplied by its similarity to the text, at least 0.
    """

    text: Sequence[float]
    by_agreement: bool = False

    def of_round(self, number: int) -> float:
        """Weight of the text after a round, counted from 0."""
        return self.text[min(number, len(self.text) - 1)]


PAPER, CODE = Weights((0.7, 0.7, 0.5)), Weights((0.8, 0.8, 0.5))  # DAR's paper; its released code


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


class Illustrated:
    """Retriever that adds generated pictures to the query of a text retriever.

    `prompt` writes the text of the pictures from the rounds of a dialog. `count` pictures are generated per
    round, with seeds that depend on `seed` and prompt only; a prompt that did not change keeps its pictures.
    With `seed_of`, seeds are a function of the row in the batch, the round and the number of the picture, for
    pictures that were generated before, and every round has its own. Where no picture is usable, the text alone
    is the query.
    """

    def __init__(
        self,
        text: Retriever,
        prompt: Callable[[Sequence[str]], str],
        generator: Generator,
        encode: Encode,
        *,
        weights: Weights,
        fusion: Fusion = "sum",
        count: int = 1,
        seed: int = 0,
        seed_of: Callable[[int, int, int], int] | None = None,
        costs: Costs | None = None,
    ) -> None:
        self.seed_of = seed_of
        self.text, self.prompt, self.generator, self.encode = text, prompt, generator, encode
        self.weights, self.fusion, self.count, self.seed = weights, fusion, count, seed
        self.costs = costs or Costs()

    def start(self, batch: int) -> State:
        """Return `batch` dialogs without rounds."""
        return State(self.text.start(batch), [()] * batch, [None] * batch, (None,) * batch)

    def step(self, state: State, turn: Turn) -> tuple[Tensor, State]:
        """Generate the pictures of one more round; return the query, B×D, and the state."""
        text_BD, text = self.text.step(state.text, turn)
        rounds = [(*before, said) for before, said in zip(state.rounds, turn.rounds, strict=True)]
        prompts: list[str | None] = [self.prompt(said) for said in rounds]
        changed = [row for row, prompt in enumerate(prompts) if self.seed_of or prompt != state.prompts[row]]
        outcomes = self._generate(
            len(rounds[0]) - 1, len(rounds), {row: str(prompts[row]) for row in changed}
        )
        shape = len(rounds), self.count
        vectors_BKD = text_BD.new_zeros(*shape, text_BD.shape[1])
        usable_BK = torch.zeros(shape, dtype=torch.bool, device=text_BD.device)
        if state.vectors_BKD is not None and state.usable_BK is not None:
            vectors_BKD, usable_BK = state.vectors_BKD.clone(), state.usable_BK.clone()
        pictures = list(state.pictures)
        for row, some in zip(changed, outcomes, strict=True):
            usable_BK[row] = torch.tensor([one.picture is not None for one in some], device=text_BD.device)
            pictures[row] = next((one.picture for one in some if one.picture), None)
        fresh_BK = torch.zeros_like(usable_BK)
        fresh_BK[changed] = usable_BK[changed]
        if made := [one.picture for some in outcomes for one in some if one.picture]:
            vectors_BKD[fresh_BK] = self.encode(made).to(text_BD)
        query_BD = fuse(
            text_BD,
            vectors_BKD,
            usable_BK,
            self.weights.of_round(len(rounds[0]) - 1),
            self.fusion,
            agree=self.weights.by_agreement,
        )
        return query_BD, State(
            text, rounds, prompts, tuple(pictures), vectors_BKD=vectors_BKD, usable_BK=usable_BK
        )

    def _generate(self, number: int, batch: int, prompts: Mapping[int, str]) -> list[list[Generated]]:
        """Outcomes of the pictures of each prompt, by row, which are counted as costs of the round."""
        requests = [
            Request(prompt, self._seed(row, number, prompt, place))
            for row, prompt in prompts.items()
            for place in range(self.count)
        ]
        attempts = generate_usable(self.generator, requests)
        costs = self.costs
        costs.dialogs[number] += batch
        costs.unchanged[number] += batch - len(prompts)
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
