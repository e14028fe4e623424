"""Attribute words in DeepFashion's five types: finding them in text, also those that it denies, and their arrays.

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
from typing import TypeVar

import numpy as np

from fashioniq.data.catalog_files import ATTRIBUTE_LISTS
from fashioniq.data.languages import ENGLISH, RUN, TOKEN, TYPES, Language, language, squeezed

K = TypeVar("K", bound=Hashable)  # an id, or a category and an id
Labels = Sequence[Sequence[str]]  # the six lists of a product

TOP = 8  # attributes stored per product
GARMENT, TEXTURE, FABRIC, SHAPE, PART, STYLE = TYPES.values()
_DENYING = ("instead of", "rather than", "is not", "has no", "not", "no", "without", "less")
_ASSERTING = ("and", "with", "is", "has", "but")
_TURNS = re.compile(rf"\b({'|'.join((*_DENYING, *_ASSERTING))})\b")
GROUPS, GROUP_OF = ENGLISH.groups, ENGLISH.group_of


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
