"""A system that echoes what the user says, and searches by the words of titles, in any protocol."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from fashioniq.config import Evaluation, option
from fashioniq.data.facts import RoundFacts, SessionFacts, StatedFacts, TurnFacts
from fashioniq.data.items import Items
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message, Turn
from fashioniq.loop.rollout import System
from fashioniq.loop.task import Batch, Task


@dataclass(kw_only=True)
class Options(Evaluation):
    """Search titles with the words of the titles' own halves."""

    titles: Path = option(Path("titles.json"), "JSON object of product ids and titles")
    protocol: str = option("Fashion IQ dialogs", "protocol of the evaluation")
    facts: str = option("own", "what is stated: own, none, or turns")
    names: list[str] = option(["echo"], "names of the tasks")


class OwnTurnFacts(TurnFacts, kw_only=True):
    titles: str


class OwnRoundFacts(RoundFacts, kw_only=True):
    titles: str


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

    def offer(self, talk: DialogState, gallery: Gallery) -> Message:
        return Message(questions=list(talk.turns[-1].reply.texts or ())) if talk.turns else Message()


class Halves:
    """User: says the first half of the target's title, then the second."""

    def __init__(self, titles: Sequence[str]) -> None:
        self.titles = titles

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        words = [self.titles[target].split() for target in target_B.tolist()]
        return Message(texts=[" ".join(some[turn % 2 :: 2]) for some in words])


def system_of(titles: dict[str, str]) -> System:
    vectorizer = TfidfVectorizer().fit(titles.values())
    vectors_ND = torch.from_numpy(vectorizer.transform(titles.values()).toarray()).float()
    gallery = Gallery(Items.without_attributes(list(titles), vectors_ND), vectors_ND)
    return System(Words(vectorizer), Echo(), gallery)


def stated(options: Options, count: int) -> StatedFacts | None:
    titles, kind = str(options.titles), options.facts
    if kind != "own":
        return TurnFacts() if kind == "turns" else None
    if options.protocol == "recorded sessions":
        return SessionFacts(sessions=titles, coverage_of_sessions=1.0, clean_rows=list(range(count // 2)))
    return (OwnRoundFacts if options.protocol == "ChatIR" else OwnTurnFacts)(titles=titles)


def build(options: Options) -> list[Task]:
    """Every product is the target once."""
    titles = json.loads(options.titles.read_text())
    system, user = system_of(titles), Halves(list(titles.values()))

    def batch(rows: Sequence[int]) -> Batch:
        return Batch(system, user, torch.tensor(list(rows)), Message())

    return [
        Task(
            name=name,
            protocol=options.protocol,
            count=len(titles),
            turns=turns,
            batch=batch,
            facts=stated(options, len(titles)),
        )
        for turns, name in enumerate(options.names, start=2)
    ]


def load(run: Path, chosen: object) -> System:
    """The system of a run, which is a model.json with titles."""
    return system_of(json.loads((run / "model.json").read_text())["titles"])
