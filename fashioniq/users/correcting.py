"""User of GenIR: describes the target, then corrects the description by what the system shows (Yang et al. 2025).

A correction takes two calls: `compare` lists what is wrong in the picture shown, `refine` writes the better
description. Here both work on attribute words; the labels of the target are known to the user alone.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from torch import Tensor

from fashioniq.data.attributes import GARMENT, PART, add_word, find_attributes, vocabulary_of
from fashioniq.data.catalog import ATTRIBUTE_LISTS
from fashioniq.data.dialogues import split_round
from fashioniq.data.languages import language
from fashioniq.data.topics import Topic
from fashioniq.loop.messages import Message

Words = tuple[str, ...]  # attribute words of one product or picture; the main color comes first
Labels = Sequence[Sequence[str]]  # the six lists of a product


class Sight(Protocol):
    """Reads the attribute words of what was offered, one set per dialog; None where nothing can be seen."""

    def __call__(self, offer: Message) -> Sequence[Words | None]: ...


class Describer:
    """Writes and reads descriptions in attribute words: "navy blue solid maxi dress with long sleeve".

    Plurals are read as their words, and so are the other forms of words in the language `code`.
    """

    def __init__(
        self, topics: Sequence[Topic], labels: Mapping[str, Labels], noun: str, code: str = "en"
    ) -> None:
        self.topics, self.noun = topics, noun
        topical = {word for topic in topics for word in topic.words}
        lists_of: dict[str, tuple[int, ...]] = {}
        for lists in labels.values():
            for kind, words in enumerate(lists):
                for word in topical.intersection(words):
                    lists_of.setdefault(word, (kind,))
        found = vocabulary_of(lists_of)
        plural = {form + "s": word for form, word in found.forms.items()}
        others = {form: word for form, word in language(code).word_of.items() if word in lists_of}
        self.vocabulary = replace(found, forms={**plural, **others, **found.forms})

    def read(self, text: str) -> Words:
        """Return the attribute words of the topics in a description."""
        return tuple(word for words in find_attributes(text, self.vocabulary) for word in words)

    def write(self, words: Words) -> str:
        """Describe a garment: words in the order of the topics, details after the noun, which is a garment word if
        there is one.
        """
        found: list[list[str]] = [[] for _ in range(ATTRIBUTE_LISTS)]
        for topic in self.topics:
            for word in _of(topic, words):
                add_word(found, self.vocabulary.lists_of[word][0], word)
        before = [word for kind in range(GARMENT + 1, PART) for word in found[kind]] + found[-1]
        after = f" with {' and '.join(found[PART])}" if found[PART] else ""
        return " ".join(["a", *before, *(found[GARMENT] or [self.noun])]) + after

    def rewrite(self, rounds: Sequence[str]) -> str:
        """Describe what a dialog has said so far: captions, and questions with answers.

        A question answered with yes names the attribute in the question; an answer with no names none.
        """
        words: list[str] = []
        for text in rounds:
            question, answer = split_round(text)
            first = answer.lower().partition(" ")[0].strip(",.")
            if first not in ("no", "not", "none", "neither"):
                words += self.read(answer) or (self.read(question) if first == "yes" else ())
        return self.write(tuple(words))


def compare(topics: Sequence[Topic], target: Words, seen: Words, said: Words) -> list[Topic]:
    """Topics in which what is seen lacks words of the target or has others; those said correctly come last."""

    def same(topic: Topic, words: Words) -> bool:
        return set(_of(topic, words)) == set(_of(topic, target))

    wrong = [topic for topic in topics if _of(topic, target) and not same(topic, seen)]
    return sorted(wrong, key=lambda topic: same(topic, said))  # the sort is stable


def refine(said: Words, target: Words, wrong: Sequence[Topic]) -> Words:
    """What is said after the topics in `wrong` were corrected."""
    for topic in wrong:
        said = (*(word for word in said if word not in topic.words), *_of(topic, target))
    return said


class Correcting:
    """User for one batch of dialogs, which remembers what it said.

    The first reply describes `details` topics of the target, drawn with `seed`. Each further reply corrects
    at most `details` topics in which the offer differs by `sight` from the target; without a sight, or where
    nothing can be seen, the last description is compared instead (verbal feedback). Targets are positions in
    `labels`.
    """

    def __init__(
        self,
        describer: Describer,
        labels: Sequence[Labels],
        sight: Sight | None = None,
        details: int = 2,
        seed: int = 0,
    ) -> None:
        self._describer, self._sight, self._details, self._seed = describer, sight, details, seed
        topical = {word for topic in describer.topics for word in topic.words}
        self._target_of = [
            tuple(word for words in lists for word in words if word in topical) for lists in labels
        ]
        self._said: list[Words] = []

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Describe the targets, or correct the last descriptions."""
        targets = target_B.tolist()
        if turn == 0:
            self._said = [self._begin(target) for target in targets]
        else:
            seen_B = self._sight(offer) if self._sight else [None] * len(targets)
            self._said = [
                self._correct(self._target_of[target], seen, said)
                for target, seen, said in zip(targets, seen_B, self._said, strict=True)
            ]
        return Message(texts=[self._describer.write(said) for said in self._said])

    def _begin(self, target: int) -> Words:
        wanted = self._target_of[target]
        known = [topic for topic in self._describer.topics if _of(topic, wanted)]
        chosen = random.Random(f"{self._seed} {target}").sample(known, min(self._details, len(known)))
        return refine((), wanted, chosen)

    def _correct(self, target: Words, seen: Words | None, said: Words) -> Words:
        wrong = compare(self._describer.topics, target, said if seen is None else seen, said)
        return refine(said, target, wrong[: self._details])


def _of(topic: Topic, words: Words) -> Words:
    return tuple(word for word in words if word in topic.words)
