"""Who asks about the image that is sought, and the dialogs that come of it: rounds[0] is the caption, then "question? answer" each.

A questioner knows what was said so far and never the image. `numbers` tell the dialogs of a whole file apart, for those who remember.
"""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fashioniq.answerers import MOST_READ, Answerer, clean
from fashioniq.data.dialogues import JOINED, Dialogue, join_round, split_round
from fashioniq.data.topics import Topic
from fashioniq.files import UserError
from fashioniq.gallery import Gallery
from fashioniq.models.text import TextEncoder

LONGEST = 200  # characters of a question, and of a caption in a prompt
FALLBACK = "what else can be seen?"  # asked where a model asks nothing

_LABEL = re.compile(r"^\W*(?:(?:question|q|assistant)\b)?\s*(?:\d+\s*[.):])?\W*", re.IGNORECASE)
_EXAMPLES = """\
Someone thinks of a picture. You know its caption and ask about it, one short question at a time, to tell it from pictures of the same kind.
Ask about what the caption and the answers leave open, and never the same twice.

Caption: a blue shirt on a hanger
Question: how long are the sleeves?
Answer: short
Question: is there anything printed on it?
Answer: a white anchor
Question: does it have a collar?
Answer: no

Caption: two people wait at a station
Question: what are they carrying?
Answer: suitcases
Question: is it day or night?
Answer: night
Question: is there a train?
Answer: no, the tracks are empty

Caption: """
_ALL_AT_ONCE = """\
Someone thinks of a picture. Its caption is: {caption}
Write {count} short questions about what the caption leaves open, to tell it from pictures of the same kind. One question a line:
1."""


class Questioner(Protocol):
    def ask(self, dialogues: list[list[str]], numbers: Sequence[int]) -> list[str]:
        """The next question of each dialog, from its rounds so far."""
        ...


class Completer(Protocol):
    """A language model, here or at an endpoint."""

    def complete(self, prompts: Sequence[str], tokens: int) -> list[str]: ...


def converse(questioner: Questioner, answerer: Answerer, begun: Sequence[Dialogue], rounds: int, numbers: Sequence[int]) -> list[Dialogue]:
    """Go on with dialogs that hold a caption until they have so many rounds of question and answer."""
    said, images = [list(dialogue.rounds[:1]) for dialogue in begun], [dialogue.image for dialogue in begun]
    for _ in range(rounds):
        questions = questioner.ask([list(texts) for texts in said], numbers)
        for texts, question, answer in zip(said, questions, answerer.answer(images, questions), strict=True):
            texts.append(join_round(question, answer) if question else answer)
    return [Dialogue(image, tuple(texts)) for image, texts in zip(images, said, strict=True)]


def clean_question(text: str) -> str:
    """The first question of what a model said, without number or label; FALLBACK for nothing."""
    return (_questions(text) or [FALLBACK])[0]


def _questions(text: str) -> list[str]:
    """The questions of what a model said; where it put no question mark, its lines."""
    lines = [line for line in text[:MOST_READ].splitlines() if clean(line)]
    parts = [part for line in lines if "?" in line for part in line.split("?")[:-1]] or lines
    asked = (_LABEL.sub("", clean(part, 10 * LONGEST)).strip(" \"'*") for part in parts)
    return [clean(one, LONGEST - 1) + "?" for one in asked if one]


class Recorded:
    """Asks what was asked in recorded dialogues; the number of a dialog is its place among them.

    A round without a question mark cannot be parted: it asks nothing where its recorded answer follows, and FALLBACK of anyone else.
    """

    def __init__(self, dialogues: Sequence[Dialogue], answered: bool) -> None:
        self._dialogues, self._instead = dialogues, "" if answered else FALLBACK

    def ask(self, dialogues: list[list[str]], numbers: Sequence[int]) -> list[str]:
        rounds = (self._dialogues[number].rounds[len(said)] for said, number in zip(dialogues, numbers, strict=True))
        return [split_round(text)[0] or self._instead for text in rounds]


class FewShot:
    """A language model that goes on with the dialog, after two others as examples (ChatIR's prompt is of this kind; the words are ours)."""

    def __init__(self, model: Completer) -> None:
        self._model = model

    def ask(self, dialogues: list[list[str]], numbers: Sequence[int]) -> list[str]:
        return [clean_question(text) for text in self._model.complete([_prompt(said) for said in dialogues], 40)]


def _prompt(said: list[str]) -> str:
    lines = [clean(said[0], LONGEST)]
    for text in said[1:]:
        question, answer = split_round(text)
        lines += [f"Question: {question}", f"Answer: {answer}"]
    return _EXAMPLES + "\n".join([*lines, "Question:"])


class Unanswered:
    """A language model that asks all its questions at once, from the caption alone (ChatIR, section 4)."""

    def __init__(self, model: Completer, rounds: int) -> None:
        self._model, self._rounds = model, rounds
        self._asked: dict[str, list[str]] = {}

    def ask(self, dialogues: list[list[str]], numbers: Sequence[int]) -> list[str]:
        if captions := [said[0] for said in dialogues if said[0] not in self._asked]:
            prompts = [_ALL_AT_ONCE.format(caption=clean(caption, LONGEST), count=self._rounds) for caption in captions]
            for caption, text in zip(captions, self._model.complete(prompts, 25 * self._rounds), strict=True):
                self._asked[caption] = _questions(text)
        return [(self._asked[said[0]][len(said) - 1 : len(said)] or [FALLBACK])[0] for said in dialogues]


class InOrder:
    """Asks the same questions of everybody in the same order, or with `seed` in another random order in each dialog."""

    def __init__(self, questions: Sequence[str], seed: int | None = None) -> None:
        self._questions, self._seed = list(questions), seed

    def ask(self, dialogues: list[list[str]], numbers: Sequence[int]) -> list[str]:
        return [self._next(said, number) for said, number in zip(dialogues, numbers, strict=True)]

    def _next(self, said: list[str], number: int) -> str:
        order = self._questions
        if self._seed is not None:
            order = random.Random(f"{self._seed} {number}").sample(order, len(order))
        return _not_asked(order, said)[0]


def _not_asked(questions: Sequence[str], said: list[str]) -> list[str]:
    """Those that the dialog has not had. Raises UserError where none is left."""
    had = {split_round(text)[0] for text in said[1:]}
    if not (left := [question for question in questions if question not in had]):
        raise UserError(f"only {len(questions)} questions can be asked of this catalog's attributes: give fewer --rounds")
    return left


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


class CandidateAware:
    """Looks at the current candidates and asks what splits them best: the question of the greatest expected information gain.

    No question comes twice in a dialog; of equal ones the first in the order of `topics` is asked. `candidates` gives for each dialog
    the places of its candidates. Without any, all questions are equal.
    """

    def __init__(self, topics: Sequence[Known | Predicted], candidates: Callable[[list[list[str]]], Sequence[Sequence[int]]]) -> None:
        self._topics, self._candidates = {topic.question: topic for topic in topics}, candidates

    def ask(self, dialogues: list[list[str]], numbers: Sequence[int]) -> list[str]:
        return [self._best(said, places) for said, places in zip(dialogues, self._candidates(dialogues), strict=True)]

    def _best(self, said: list[str], places: Sequence[int]) -> str:
        left = _not_asked(list(self._topics), said)
        if not len(places):
            return left[0]
        return max(left, key=lambda question: round(information_gain(self._topics[question].chances(places)), 9))


class Search:
    """The products nearest to what was said, the nearest first, as places in the gallery."""

    def __init__(self, encoder: TextEncoder, gallery: Gallery, joined: str = JOINED) -> None:
        self._encoder, self._gallery, self._joined = encoder, gallery, joined

    def __call__(self, dialogues: list[list[str]], count: int) -> list[list[int]]:
        """At most `count` of each dialog."""
        query_BD = self._encoder.encode([self._joined.join(said) for said in dialogues])
        return self._gallery.top(query_BD, min(count, len(self._gallery)))[1].tolist()
