"""Attribute questions, chosen by expected information gain about the current candidates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fashioniq.data.topics import Topic
from fashioniq.files import UserError
from fashioniq.loop.gallery import Gallery
from fashioniq.loop.messages import DialogState, Message


class CandidateAware:
    """Asker that picks the question with the highest expected information gain about the target.

    Candidates are the `count` items nearest to the query, with equal probability. No question is asked
    twice in a dialog. Ties are broken by the order of `topics`; without candidates, all questions tie.
    """

    def __init__(self, topics: Sequence["Known | Predicted"], count: int) -> None:
        self.topics, self.count = {topic.question: topic for topic in topics}, count

    def offer(self, state: DialogState, gallery: Gallery) -> Message:
        if not state.turns:
            return Message()
        candidates = gallery.top(state.queries[-1], min(self.count, len(gallery)))[1].tolist()
        return Message(
            questions=[
                self.best(asked, items) for asked, items in zip(state.questions, candidates, strict=True)
            ]
        )

    def best(self, asked: Sequence[str], items: Sequence[int]) -> str:
        """Return the best question that was not `asked` before, given the candidate items.

        Raises UserError if no question is left.
        """
        if not (left := [question for question in self.topics if question not in asked]):
            raise UserError(
                f"only {len(self.topics)} questions are available for this catalog's attributes; use "
                "fewer --rounds"
            )
        if not len(items):
            return left[0]
        return max(
            left, key=lambda question: round(information_gain(self.topics[question].chances(items)), 9)
        )


@dataclass(frozen=True)
class Known:
    """Question with the answer of each product, known from its labels."""

    question: str
    answers: Sequence[str]

    def chances(self, items: Sequence[int]) -> np.ndarray:
        """Return answer probabilities for some products, K×A; A are the answers that occur among them."""
        given = np.array([self.answers[item] for item in items])
        return (given[:, None] == np.unique(given)).astype(np.float64)


@dataclass(frozen=True)
class Predicted:
    """Question with the answer probabilities of each product, N×A, predicted from attribute probabilities."""

    question: str
    chance_NA: np.ndarray

    def chances(self, items: Sequence[int]) -> np.ndarray:
        """Return answer probabilities for some products, K×A."""
        return self.chance_NA[np.asarray(items)]


def questions_from_labels(topics: Sequence[Topic], labels: Sequence[list[list[str]]]) -> list[Known]:
    """Create questions from the labels of the products, in order; without labels, answers are "none" and
    "no"."""
    return [Known(topic.question, [topic.answer(lists) for lists in labels]) for topic in topics]


def questions_from_chances(
    topics: Sequence[Topic], words: Sequence[str], chance_NA: np.ndarray
) -> list[Predicted]:
    """Create questions from attribute probabilities of the products; topics without any of the words are
    skipped.

    The answer "none" has the probability that all words of the topic are absent; the rest is divided among
    the words in proportion to their probabilities.
    """
    column_of, made = {word: column for column, word in enumerate(words)}, []
    for topic in topics:
        if columns := [column_of[word] for word in topic.words if word in column_of]:
            some_NA = chance_NA[:, columns].astype(np.float64)
            absent_N1 = (1 - some_NA).prod(1, keepdims=True)
            share_NA = some_NA / np.maximum(some_NA.sum(1, keepdims=True), 1e-12)
            made.append(Predicted(topic.question, np.hstack([share_NA * (1 - absent_N1), absent_N1])))
    return made


def information_gain(chance_KA: np.ndarray) -> float:
    """Expected information gain of an answer, in bits, about which of K equally likely candidates is the
    target.

    It is H(mean answer) − mean H(answer).
    """
    return float(_entropy(chance_KA.mean(0)) - _entropy(chance_KA).mean())


def _entropy(chance: np.ndarray) -> np.ndarray:
    return -(chance * np.log2(chance, out=np.zeros_like(chance), where=chance > 0)).sum(-1)
