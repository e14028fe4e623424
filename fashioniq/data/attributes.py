"""Attribute words in DeepFashion's five types: finding them in text, also those that it denies, their arrays, and
questions about labelled products: one for each family of words, and a yes-no question for each detail.

The labels of a product are six lists, as in asin2attr: the garment word, then texture, fabric, shape, part
and style. The words of phrases/ are used for catalogs without a vocabulary of their own. Labels made with
other words, such as the released ones, are phrased according to the type of their list.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from fashioniq.data.catalog_files import ATTRIBUTE_LISTS
from fashioniq.data.languages import ENGLISH, RUN, TOKEN, TYPES, Language, PhraseGroup, language, squeezed

K = TypeVar("K", bound=Hashable)  # an id, or a category and an id
Labels = Sequence[Sequence[str]]  # the six lists of a product

TOP = 8  # attributes stored per product
GARMENT, TEXTURE, FABRIC, SHAPE, PART, STYLE = TYPES.values()
_DENYING = ("instead of", "rather than", "is not", "has no", "not", "no", "without", "less")
_ASSERTING = ("and", "with", "is", "has", "but")
_TURNS = re.compile(rf"\b({'|'.join((*_DENYING, *_ASSERTING))})\b")
GROUPS, GROUP_OF = ENGLISH.groups, ENGLISH.group_of

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


@dataclass(frozen=True)
class AttributeVocabulary:
    """Words to find in text.

    `lists_of` gives the lists that each word belongs to. `forms` maps a form to its word; a form is looked up
    as written, then squeezed. If one match lies inside another, the longest is used. With `nested`, all of
    them are used, and a hyphenated compound is never split.
    """

    source: str
    lists_of: Mapping[str, tuple[int, ...]]
    forms: Mapping[str, str]
    longest: int = 4  # words in a form, at most
    nested: bool = False


@lru_cache
def own_words(speech: Language) -> AttributeVocabulary:
    """The words of this package in a language."""
    lists_of = {word: (group.kind,) for word, group in speech.group_of.items()}
    return AttributeVocabulary("this package", lists_of, speech.word_of)


OWN_WORDS = own_words(ENGLISH)


def vocabulary_of(lists_of: Mapping[str, tuple[int, ...]]) -> AttributeVocabulary:
    """Words to find as they are, each with its lists; spaces and hyphens may be left out."""
    forms = {squeezed(word): word for word in lists_of} | {word: word for word in lists_of}
    return AttributeVocabulary("labels", lists_of, forms)


def find_attributes(text: str, vocabulary: AttributeVocabulary = OWN_WORDS) -> list[list[str]]:
    """Six lists of the attribute words in a text, without duplicates, in the order of the text."""
    found: list[list[str]] = [[] for _ in range(ATTRIBUTE_LISTS)]
    for run in RUN.findall(" ".join(text.lower().split())):
        for word in _words_of(run, vocabulary):
            for kind in vocabulary.lists_of[word]:
                add_word(found, kind, word)
    return found


def stated_attributes(
    caption: str, vocabulary: AttributeVocabulary = OWN_WORDS
) -> tuple[list[str], list[str]]:
    """Attribute words that a caption asserts of the target, and those that it denies."""
    asserted: list[str] = []
    denied: list[str] = []
    words = asserted
    for part in _TURNS.split(caption.lower()):
        if _TURNS.fullmatch(part):
            words = denied if part in _DENYING else asserted
        else:
            words += [word for some in find_attributes(part, vocabulary) for word in some]
    return asserted, denied


def add_described(
    labels: Mapping[str, list[list[str]]], descriptions: Mapping[str, str], code: str
) -> dict[str, list[list[str]]]:
    """Labels of products, and the attribute words, in a language, of what a captioning model says about pictures.

    Of the garments in a picture, the first one is the product.
    """
    found, vocabulary = dict(labels), own_words(language(code)) if descriptions else OWN_WORDS
    for name, text in descriptions.items():
        said = find_attributes(text, vocabulary)
        said[GARMENT] = said[GARMENT][:1]
        lists = labels.get(name, [[]] * ATTRIBUTE_LISTS)
        if any(said):
            found[name] = [[*dict.fromkeys([*own, *more])] for own, more in zip(lists, said, strict=True)]
    return found


def place_value(value: str, speech: Language = ENGLISH) -> tuple[int, str]:
    """List and word for an attribute value.

    The value is matched as a known form, then by its last word; a value without a match is a style.
    """
    value = " ".join(value.lower().split())
    word = speech.word_of.get(squeezed(value))
    if word is not None:
        return speech.group_of[word].kind, word
    last = speech.word_of.get(value.split(" ")[-1])
    return (speech.group_of[last].kind if last is not None else STYLE), value


def word_of_type(value: str, kind: int, vocabulary: AttributeVocabulary = OWN_WORDS) -> str:
    """Word for an attribute value of a type: the word of this type that it is a form of, or else the value."""
    word = vocabulary.forms.get(value) or vocabulary.forms.get(squeezed(value), value)
    return word if kind in vocabulary.lists_of.get(word, ()) else value


def add_word(lists: list[list[str]], kind: int, word: str) -> None:
    """Add a word to one of the six lists unless it is already there."""
    if word not in lists[kind]:
        lists[kind].append(word)


def _words_of(run: str, vocabulary: AttributeVocabulary) -> Iterator[str]:
    tokens = list(TOKEN.finditer(run))
    # whether the boundary before each token, and after the last one, lies inside a hyphenated compound
    inside = [False, *(run[left.end() : right.start()] == "-" for left, right in pairwise(tokens)), False]
    position = 0
    while position < len(tokens):
        step = 1
        for size in range(min(vocabulary.longest, len(tokens) - position), 0, -1):
            if vocabulary.nested and (inside[position] or inside[position + size]):
                continue
            part = tokens[position : position + size]
            word = vocabulary.forms.get(run[part[0].start() : part[-1].end()]) or vocabulary.forms.get(
                "".join(token[0] for token in part)
            )
            if word is not None:
                yield word
                if not vocabulary.nested:
                    step = size
                    break
        position += step


def label_vocabulary(
    labels: Mapping[K, list[list[str]]], ids: Iterable[K], at_least: int, first: int = TEXTURE
) -> list[str]:
    """Words that at least `at_least` of the products have, most frequent first, then by name.

    Garment words, which are not attributes, are left out unless `first` is GARMENT.
    """
    counts = Counter(word for name in ids for word in set(_attribute_words(labels, name, first)))
    return sorted(
        (word for word, count in counts.items() if count >= at_least), key=lambda word: (-counts[word], word)
    )


def top_labels(
    labels: Mapping[K, list[list[str]]], ids: Sequence[K], vocabulary: Sequence[str], count: int = 8
) -> np.ndarray:
    """The first `count` attribute words of each product: int64, N×count.

    Each is a position in the vocabulary plus 1; 0 means no word.
    """
    number_of = {word: number for number, word in enumerate(vocabulary, start=1)}
    top = np.zeros((len(ids), count), dtype=np.int64)
    for row, name in enumerate(ids):
        numbers = [number_of[word] for word in _attribute_words(labels, name) if word in number_of][:count]
        top[row, : len(numbers)] = numbers
    return top


def label_matrix(
    labels: Mapping[K, list[list[str]]], ids: Sequence[K], vocabulary: Sequence[str]
) -> np.ndarray:
    """Whether each product has each word of the vocabulary: bool, N×A."""
    position_of = {word: position for position, word in enumerate(vocabulary)}
    matrix = np.zeros((len(ids), len(vocabulary)), dtype=bool)
    for row, name in enumerate(ids):
        matrix[row, [position_of[word] for word in _attribute_words(labels, name) if word in position_of]] = (
            True
        )
    return matrix


def types_of(
    words: Sequence[str], labels: Mapping[K, list[list[str]]], ids: Iterable[K], first: int = TEXTURE
) -> list[str]:
    """Type that each of the words has most often among the products, from the type `first` on."""
    counts: dict[str, Counter[str]] = {word: Counter() for word in words}
    for name in ids:
        for kind, found in list(zip(TYPES, labels.get(name, ()), strict=False))[first:]:
            for word in counts.keys() & found:
                counts[word][kind] += 1
    return [counts[word].most_common(1)[0][0] for word in words]


def _attribute_words(labels: Mapping[K, list[list[str]]], name: K, first: int = TEXTURE) -> list[str]:
    return list(dict.fromkeys(word for words in labels.get(name, [])[first:] for word in words))


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
