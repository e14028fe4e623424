"""Questions about attributes: ask what splits the current candidates best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fashioniq.data.topics import Topic
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import Message, Talk


class CandidateAware:
    """Asks the question of the greatest expected information gain about which of the current candidates is sought.

    The candidates are the `count` items nearest to the query. No question comes twice in a dialog; of equal ones the first in the
    order of `topics` is asked. Without candidates all questions are equal.
    """

    def __init__(self, topics: Sequence["Known | Predicted"], count: int) -> None:
        self.topics, self.count = {topic.question: topic for topic in topics}, count

    def offer(self, talk: Talk, gallery: Gallery) -> Message:
        if not talk.turns:
            return Message()
        places = gallery.top(talk.queries[-1], min(self.count, len(gallery)))[1].tolist()
        return Message(texts=[self.best(asked, some) for asked, some in zip(talk.questions, places, strict=True)])

    def best(self, asked: Sequence[str], places: Sequence[int]) -> str:
        """The best question that was not `asked` before, by the candidates at these places. Raises UserError where none is left."""
        if not (left := [question for question in self.topics if question not in asked]):
            raise UserError(f"only {len(self.topics)} questions can be asked about this catalog's attributes: give fewer --rounds")
        if not len(places):
            return left[0]
        return max(left, key=lambda question: round(information_gain(self.topics[question].chances(places)), 9))


@dataclass(frozen=True)
class Known:
    """What each product answers to a question, as the labels have it."""

    question: str
    answers: Sequence[str]

    def chances(self, places: Sequence[int]) -> np.ndarray:
        """The probability of every answer that these products give, K×A."""
        given = np.array([self.answers[place] for place in places])
        return (given[:, None] == np.unique(given)).astype(np.float64)


@dataclass(frozen=True)
class Predicted:
    """How likely each product answers what to a question, by attribute probabilities, N×A."""

    question: str
    chance_NA: np.ndarray

    def chances(self, places: Sequence[int]) -> np.ndarray:
        """The probability of every answer for these products, K×A."""
        return self.chance_NA[np.asarray(places)]


def known(topics: Sequence[Topic], labels: Sequence[list[list[str]]]) -> list[Known]:
    """The answers of products, given their labels in order; a product without labels answers "none" and "no"."""
    return [Known(topic.question, [topic.answer(lists) for lists in labels]) for topic in topics]


def predicted(topics: Sequence[Topic], words: Sequence[str], chance_NA: np.ndarray) -> list[Predicted]:
    """The answers of products, given the probability of every attribute word; topics without such a word are left out.

    A question for one of several words is answered by one of them in proportion, or by none as likely as they all are absent.
    """
    place_of, made = {word: place for place, word in enumerate(words)}, []
    for topic in topics:
        if columns := [place_of[word] for word in topic.words if word in place_of]:
            some_NA = chance_NA[:, columns].astype(np.float64)
            absent_N1 = (1 - some_NA).prod(1, keepdims=True)
            share_NA = some_NA / np.maximum(some_NA.sum(1, keepdims=True), 1e-12)
            made.append(Predicted(topic.question, np.hstack([share_NA * (1 - absent_N1), absent_N1])))
    return made


def information_gain(chance_KA: np.ndarray) -> float:
    """The bits that an answer is expected to tell of which of K equally likely candidates is sought: H(mean answer) − mean H(answer)."""
    return float(_entropy(chance_KA.mean(0)) - _entropy(chance_KA).mean())


def _entropy(chance: np.ndarray) -> np.ndarray:
    return -(chance * np.log2(chance, out=np.zeros_like(chance), where=chance > 0)).sum(-1)
