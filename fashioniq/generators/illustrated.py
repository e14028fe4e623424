"""Retriever that fuses the text of a dialog with pictures generated from it (DAR); GenIR uses pictures alone."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from fashioniq.data.dialogues import Round
from fashioniq.generators.pictures import Generated, Generator, PictureRequest, generate_usable
from fashioniq.llm.rewriting import Prompts, Write
from fashioniq.loop.messages import Retriever, Turn

Fusion = Literal["sum", "mean"]
Encode = Callable[[Sequence[Image]], Tensor]  # pictures → vectors of unit length, N×D


class IllustratedState(NamedTuple):
    """State of the text retriever; rounds, prompts and first usable picture of each dialog; and the vectors of its
    pictures, of which some are usable.
    """

    text: Any
    rounds: list[tuple[Round, ...]]
    prompts: Sequence[Prompts | None]
    pictures: tuple[Image | None, ...]
    vectors_BKD: Tensor | None = None
    usable_BK: Tensor | None = None


@dataclass
class Costs:
    """What the pictures of an evaluation cost, by round: dialogs, pictures by status, seconds, most memory of the GPU.

    `unchanged` counts dialogs whose prompt is that of the round before, and that keep their pictures.
    """

    dialogs: Counter[int] = field(default_factory=Counter)
    pictures: Counter[tuple[int, str]] = field(default_factory=Counter)
    without_picture: Counter[int] = field(default_factory=Counter)
    unchanged: Counter[int] = field(default_factory=Counter)
    seconds: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    gpu_gb: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    useful: defaultdict[int, list[bool]] = field(default_factory=lambda: defaultdict(list))

    def judge(self, turn: int, useful: bool) -> None:
        """Count what a person says in a turn of the picture that the round before it made."""
        self.useful[turn - 1].append(useful)

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
                    "gpu_gb": self.gpu_gb[number],
                }
                | ({"useful": sum(judged) / len(judged)} if (judged := self.useful.get(number)) else {})
            )
        return rows


def fuse(text_BD: Tensor, picture_BKD: Tensor, usable_BK: Tensor, weight: float, fusion: Fusion) -> Tensor:
    """Query from vectors of unit length: `weight` · text + (1 − `weight`) · pictures, B×D.

    With the fusion "sum", the similarity of a query to an image is the weighted sum of the similarities of
    text and pictures. A dialog without a usable picture has the text as its query.
    """
    pictures_BD = torch.einsum("bk,bkd->bd", usable_BK.to(text_BD.dtype), picture_BKD)
    if fusion == "mean":
        pictures_BD = pictures_BD / usable_BK.sum(1, keepdim=True)
    # a dialog without usable pictures has zeros here, or by the mean NaN (0/0): `where` discards either
    query_BD = weight * text_BD + (1 - weight) * pictures_BD
    return torch.where(usable_BK.any(1, keepdim=True), query_BD, text_BD)


class Illustrated:
    """Retriever that adds generated pictures to the query of a text retriever.

    `write` makes the prompts of the pictures from the rounds of the dialogs. `weights` are those of the text after
    each round, the last one for all further rounds; the pictures have the rest. `count` pictures are generated per
    round, with seeds that depend on `seed` and prompt only. Prompts that did not change keep their pictures. With
    `seed_of`, seeds are a function of the row in the batch, the round and the number of the picture, for pictures
    that were generated before, and every round has its own. Where no picture is usable, the text alone is the query.
    """

    def __init__(
        self,
        text: Retriever,
        write: Write,
        generator: Generator,
        encode: Encode,
        *,
        weights: Sequence[float],
        fusion: Fusion = "sum",
        count: int = 1,
        seed: int = 0,
        seed_of: Callable[[int, int, int], int] | None = None,
        costs: Costs | None = None,
        said: Callable[[Turn], Sequence[Round]] = lambda turn: turn.rounds,
    ) -> None:
        self.said, self.seed_of = said, seed_of
        self.text, self.write, self.generator, self.encode = text, write, generator, encode
        self.weights, self.fusion, self.count, self.seed = weights, fusion, count, seed
        self.costs = costs or Costs()

    @property
    def identity(self) -> Mapping[str, Any]:
        """Identity of the generator, on which every query depends."""
        return self.generator.identity

    def start(self, batch: int) -> IllustratedState:
        """Return `batch` dialogs without rounds."""
        return IllustratedState(self.text.start(batch), [()] * batch, [None] * batch, (None,) * batch)

    def step(self, state: IllustratedState, turn: Turn) -> tuple[Tensor, IllustratedState]:
        """Generate the pictures of one more round; return the query, B×D, and the state."""
        text_BD, text = self.text.step(state.text, turn)
        rounds = [(*before, said) for before, said in zip(state.rounds, self.said(turn), strict=True)]
        number = len(rounds[0]) - 1
        prompts = [tuple(some) for some in self.write(rounds)]
        kept = [not self.seed_of and new == old for new, old in zip(prompts, state.prompts, strict=True)]
        outcomes = self._generate(number, kept, prompts)
        shape = len(rounds), self.count
        if state.vectors_BKD is None or state.usable_BK is None:
            vectors_BKD = text_BD.new_zeros(*shape, text_BD.shape[1])
            usable_BK = torch.zeros(shape, dtype=torch.bool, device=text_BD.device)
        else:
            vectors_BKD, usable_BK = state.vectors_BKD.clone(), state.usable_BK.clone()
        pictures = list(state.pictures)
        fresh_BK = torch.zeros_like(usable_BK)
        for row, some in outcomes.items():
            fresh_BK[row] = torch.tensor([one.picture is not None for one in some], device=text_BD.device)
            usable_BK[row] = fresh_BK[row]
            pictures[row] = next((one.picture for one in some if one.picture), None)
        if made := [one.picture for some in outcomes.values() for one in some if one.picture]:
            vectors_BKD[fresh_BK] = self.encode(made).to(text_BD)
        weight = self.weights[min(number, len(self.weights) - 1)]
        query_BD = fuse(text_BD, vectors_BKD, usable_BK, weight, self.fusion)
        state = IllustratedState(
            text=text,
            rounds=rounds,
            prompts=prompts,
            pictures=tuple(pictures),
            vectors_BKD=vectors_BKD,
            usable_BK=usable_BK,
        )
        return query_BD, state

    def _generate(
        self, number: int, kept: Sequence[bool], prompts: Sequence[Prompts]
    ) -> dict[int, list[Generated]]:
        """Outcomes of the pictures of each row that keeps none; costs of the round are counted."""
        rows = [row for row, same in enumerate(kept) if not same]
        requests = [
            PictureRequest(prompt, self._seed(row, number, prompt, place))
            for row in rows
            for place in range(self.count)
            for prompt in [prompts[row][place % len(prompts[row])]]
        ]
        attempts = generate_usable(self.generator, requests)
        costs = self.costs
        costs.dialogs[number] += len(kept)
        costs.unchanged[number] += sum(kept)
        for tried in attempts:
            costs.pictures.update((number, one.status) for one in tried)
            costs.seconds[number] += sum(one.seconds for one in tried)
        if torch.cuda.is_available():
            costs.gpu_gb[number] = torch.cuda.max_memory_allocated() / 1e9
        last = [tried[-1] for tried in attempts]
        outcomes = {row: last[at * self.count : (at + 1) * self.count] for at, row in enumerate(rows)}
        costs.without_picture[number] += sum(
            not any(one.picture for one in some) for some in outcomes.values()
        )
        return outcomes

    def _seed(self, row: int, number: int, prompt: str, place: int) -> int:
        if self.seed_of:
            return self.seed_of(row, number, place)
        name = f"{self.seed}/{place}/{prompt}"
        return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
