"""User that answers questions from the attribute labels of the target."""

import re
from collections.abc import Mapping, Sequence

from torch import Tensor

from fashioniq.data.attributes import GARMENT, GROUP_OF, find_attributes
from fashioniq.data.sanitize import UNKNOWN
from fashioniq.data.topics import Topic, question_about
from fashioniq.loop.messages import Message

_WHICH = re.compile(r"\b(what|which|how|who|where|why)\b")
_ASKED_FOR = (  # topic of a free question: the first pattern that matches, with an example word of the topic
    (re.compile(r"\bcolou?rs?\b"), "black"),
    (re.compile(r"\b(pattern|print|texture)"), "striped"),
    (re.compile(r"\bsleeve"), "long sleeve"),
    (re.compile(r"\b(neck|collar)"), "v-neck"),
    (re.compile(r"\b(made|material|fabric)\b"), "cotton"),
    (re.compile(r"\b(length|long)\b"), "midi"),
    (re.compile(r"\b(fit|shape|cut|silhouette)\b"), "loose"),
    (re.compile(r"\b(style|occasion|wear)\b"), "casual"),
)


class LabelUser:
    """User that answers the questions of `topics`, and free questions whose words name a topic, from labels.

    Targets are positions in `images`.
    """

    def __init__(
        self, labels: Mapping[str, list[list[str]]], topics: Sequence[Topic], images: Sequence[str]
    ) -> None:
        self._labels, self._topics, self._images = labels, {topic.question: topic for topic in topics}, images

    def reply(self, target_B: Tensor, offer: Message, turn: int) -> Message:
        """Answer the questions offered."""
        asked = zip(target_B.tolist(), offer.questions or (), strict=True)
        return Message(
            texts=[
                self.answer(self._labels.get(self._images[target]), question) for target, question in asked
            ]
        )

    def answer(self, lists: list[list[str]] | None, question: str) -> str:
        """Answer from the label of a product, six lists of words.

        Returns UNKNOWN for a product without a label, and if the label does not answer the question.
        """
        if lists is None:
            return UNKNOWN
        if topic := self._topics.get(question):
            return topic.answer(lists)
        asked = question.lower()
        named = [word for words in find_attributes(asked)[GARMENT + 1 :] for word in words]
        if named and not _WHICH.search(asked):
            return self._yes_or_no(lists, named, choice=" or " in asked)
        for pattern, example in _ASKED_FOR:
            if pattern.search(asked):
                return (
                    self._topics[about].answer(lists)
                    if (about := _about(example)) in self._topics
                    else UNKNOWN
                )
        return UNKNOWN

    def _yes_or_no(self, lists: list[list[str]], named: list[str], choice: bool) -> str:
        """Answer yes or no; UNKNOWN for words that are not among the catalog's labels."""
        present = [word for word in named if any(word in words for words in lists)]
        if not present and not all(_about(word) in self._topics for word in named):
            return UNKNOWN
        if choice and len(named) > 1:
            return " and ".join(present) or "neither"
        return "yes" if len(present) == len(named) else "no"


def _about(word: str) -> str:
    return question_about(word, GROUP_OF[word].kind)
