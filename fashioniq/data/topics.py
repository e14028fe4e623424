"""Questions about labelled products: one for each family of words, and a yes-no question for each detail."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fashioniq.data.attributes import FABRIC, GARMENT, GROUP_OF, PART, SHAPE, STYLE, TEXTURE
from fashioniq.data.languages import PhraseGroup

NONE = "none"

# Order of the fixed questions: the most visible attributes first.
COLOUR, LENGTH, SLEEVES, NECK = (
    "what color is it?",
    "what length is it?",
    "what are the sleeves like?",
    "what neckline does it have?",
)
_OF_FAMILY = {"colour": COLOUR, "length": LENGTH, "sleeves": SLEEVES, "neck": NECK}
_OF_TYPE = {
    GARMENT: "what kind of garment is it?",
    TEXTURE: "what pattern does it have?",
    FABRIC: "what is it made of?",
    SHAPE: "how does it fit?",
    STYLE: "what style is it?",
}
_ORDER = (
    _OF_TYPE[GARMENT],
    COLOUR,
    _OF_TYPE[TEXTURE],
    LENGTH,
    SLEEVES,
    NECK,
    _OF_TYPE[SHAPE],
    _OF_TYPE[STYLE],
    _OF_TYPE[FABRIC],
)


class Topic(NamedTuple):
    """A question and the words that can answer it; with `yes_no`, the question is about a single word."""

    question: str
    words: tuple[str, ...]
    yes_no: bool

    def answer(self, lists: Sequence[Sequence[str]]) -> str:
        """Answer from six label lists: yes or no, or the matching words, or "none"."""
        carried = dict.fromkeys(word for words in lists for word in words if word in self.words)
        return ("yes" if carried else "no") if self.yes_no else " and ".join(carried) or NONE


def question_about(word: str, kind: int, group_of: Mapping[str, PhraseGroup] = GROUP_OF) -> str:
    """The question to which a word in one of the six lists is an answer; `group_of` is that of its language."""
    group = group_of.get(word)
    if group and group.kind == kind and group.family in _OF_FAMILY:
        return _OF_FAMILY[group.family]
    if kind == PART:
        return f"does it have {group.item.format(word) if group and group.kind == PART else word}?"
    return _OF_TYPE[kind]


def topics_of(labels: Mapping[str, list[list[str]]], ids: Iterable[str]) -> list[Topic]:
    """Topics in which these products differ: families in a fixed order, then details by frequency."""
    known = [labels[name] for name in ids if name in labels]
    counts = Counter(
        (word, kind) for lists in known for kind, words in enumerate(lists) for word in dict.fromkeys(words)
    )
    kind_of: dict[str, int] = {}
    words_of: dict[str, list[str]] = {}
    for word, kind in sorted(counts, key=lambda key: (-counts[key], key)):
        if word not in kind_of:  # a word in several lists belongs to the most frequent one
            kind_of[word] = kind
            words_of.setdefault(question_about(word, kind), []).append(word)
    families = [question for question in _ORDER if question in words_of]
    questions = families + [question for question in words_of if question not in families]
    topics = [Topic(question, tuple(words_of[question]), question not in families) for question in questions]
    return [topic for topic in topics if len({topic.answer(lists) for lists in known}) > 1]
