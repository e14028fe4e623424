"""A sixth system, made outside the package: it echoes what the user says, and searches by TF-IDF of all words
so far.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from fashioniq.config import Evaluation, option
from fashioniq.data.items import Items
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Talk, Turn
from fashioniq.loop.rollout import System
from fashioniq.loop.task import Batch, Task


@dataclass(kw_only=True)
class Options(Evaluation):
    """Search titles with the words of the titles' own halves."""

    titles: Path = option(Path("titles.json"), "JSON object of product ids and titles")


class Words:
    """Retriever: the TF-IDF vector of all replies so far."""

    def __init__(self, vectorizer: TfidfVectorizer) -> None:
        self.vectorizer = vectorizer

    def start(self, batch: int) -> tuple[str, ...]:
        return ("",) * batch

    def step(self, state: tuple[str, ...], turn: Turn) -> tuple[Tensor, tuple[str, ...]]:
        state = tuple(f"{before} {text}" for before, text in zip(state, turn.reply.texts or (), strict=True))
        return torch.from_numpy(self.vectorizer.transform(state).toarray()).float(), state


class Echo:
    """Asker: repeats the last reply."""

    def offer(self, talk: Talk, gallery: Gallery) -> Message:
        return Message(texts=list(talk.turns[-1].reply.texts or ())) if talk.turns else Message()


class Halves:
    """User: says the first half of the target's title, then the second."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.titles = titles

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        words = [self.titles[target].split() for target in target_B.tolist()]
        return Message(texts=[" ".join(some[turn % 2 :: 2]) for some in words])


def build(options: Options) -> list[Task]:
    """Every product is the target once."""
    titles = json.loads(options.titles.read_text())
    vectorizer = TfidfVectorizer().fit(titles.values())
    vectors_ND = torch.from_numpy(vectorizer.transform(titles.values()).toarray()).float()
    gallery = Gallery(Items.without_attributes(list(titles), vectors_ND), vectors_ND)
    system, user = System(Words(vectorizer), Echo(), gallery), Halves(list(titles.values()))

    def batch(rows: Sequence[int]) -> Batch:
        return Batch(system, user, torch.tensor(list(rows)), Message())

    return [Task(name="echo", protocol="Fashion IQ dialogs", count=len(titles), turns=2, batch=batch)]
