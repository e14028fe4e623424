"""User of GenIR: describes the target, then corrects the description by what the system shows (Yang et al. 2025).

A correction takes two calls: `compare` lists what is wrong in the picture shown, `refine` writes the better
description. Here both work on attribute words; the labels of the target are known to the user alone.
"""

import random
from collections.abc import Callable, Sequence

from torch import Tensor

from fashioniq.data.attributes import Labels
from fashioniq.data.descriptions import Describer, Words, words_of
from fashioniq.data.topics import Topic
from fashioniq.loop.messages import Message

# reads the attribute words of what was offered, one set per dialog; None where nothing can be seen
Sight = Callable[[Message], Sequence[Words | None]]


def compare(topics: Sequence[Topic], target: Words, seen: Words, said: Words) -> list[Topic]:
    """Topics in which what is seen lacks words of the target or has others; those said correctly come last."""

    def same(topic: Topic, words: Words) -> bool:
        return set(words_of(topic, words)) == set(words_of(topic, target))

    wrong = [topic for topic in topics if words_of(topic, target) and not same(topic, seen)]
    return sorted(wrong, key=lambda topic: same(topic, said))  # the sort is stable


def refine(said: Words, target: Words, wrong: Sequence[Topic]) -> Words:
    """What is said after the topics in `wrong` were corrected."""
    for topic in wrong:
        said = (*(word for word in said if word not in topic.words), *words_of(topic, target))
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
        known = [topic for topic in self._describer.topics if words_of(topic, wanted)]
        chosen = random.Random(f"{self._seed} {target}").sample(known, min(self._details, len(known)))
        return refine((), wanted, chosen)

    def _correct(self, target: Words, seen: Words | None, said: Words) -> Words:
        wrong = compare(self._describer.topics, target, said if seen is None else seen, said)
        return refine(said, target, wrong[: self._details])
