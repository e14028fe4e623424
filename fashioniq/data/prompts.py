"""Words of pictures: those of the products of a catalog, and those that a prompt asks for."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from PIL import Image

from fashioniq.data.attributes import (
    GARMENT,
    TYPES,
    AttributeVocabulary,
    find_attributes,
    label_vocabulary,
    own_words,
    stated_attributes,
    types_of,
)
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import ATTRIBUTE_LISTS
from fashioniq.data.labelled import LabeledPhotos
from fashioniq.data.languages import TOKEN, language, squeezed
from fashioniq.data.photos import Photo
from fashioniq.data.topics import question_about
from fashioniq.files import UserError

NAMED, MAIN = 1, 2  # a word of a list, and the first one of those that answer the same question
_CLAUSE = re.compile(r"[.,;:!?\n]+(?!\d)")  # a negation ends with its clause


class GeneratedPair(NamedTuple):
    """Words, the picture of a product that has them, and one that was generated for them (None if it failed)."""

    words: list[str]
    real: Image.Image
    generated: Image.Image | None


class PromptWords:
    """Words that a generator was trained with.

    `types` is the type of each word, such as "texture". `code` is the language of their other forms: plurals and
    synonyms are found as in titles.
    """

    def __init__(self, words: Sequence[str], types: Sequence[str], code: str = "en") -> None:
        self.words, self.types, self.code = list(words), list(types), code
        self._place_of = {word: place for place, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def forms(self) -> AttributeVocabulary:
        """Forms of the words, for `find_attributes`."""
        forms = {form: word for form, word in language(self.code).word_of.items() if word in self._place_of}
        own = {squeezed(word) + ending: word for word in self.words for ending in ("s", "")}
        lists_of = {word: (TYPES[kind],) for word, kind in zip(self.words, self.types, strict=True)}
        longest = max([4, *(len(TOKEN.findall(word)) for word in self.words)])
        return AttributeVocabulary(
            "the generator", lists_of, own | forms | {word: word for word in self.words}, longest
        )

    def read(self, prompt: str) -> list[str]:
        """Words that a prompt asks for, in its order as far as they answer the same question.

        A denied word ("not red", "without a belt") is left out, also if an earlier clause asks for it; a negation
        ends with its clause. All that is no form of a word is ignored, and so are comparisons ("longer").
        """
        asked: dict[str, None] = {}
        for clause in _CLAUSE.split(prompt.lower()):
            asserted, denied = stated_attributes(clause, self.forms)
            asked = {word: None for word in [*asked, *asserted] if word not in denied}
        return list(asked)

    def encode(self, lists: Sequence[Sequence[str]]) -> np.ndarray:
        """Words of each list: float32, N×V, with the values NAMED, MAIN and 0; other words are ignored.

        The main color is the first one of a list, and so on for all words that answer the same question.
        """
        words_NV = np.zeros((len(lists), len(self)), dtype=np.float32)
        for row, words in enumerate(lists):
            places = [self._place_of[word] for word in words if word in self._place_of]
            first_of = {self._questions[place]: place for place in reversed(places)}
            words_NV[row, places] = NAMED
            words_NV[row, list(first_of.values())] = MAIN
        return words_NV

    def of_row(self, row_V: np.ndarray) -> list[str]:
        """Words of a row of `encode`, the main ones first."""
        return [self.words[place] for place in np.argsort(-row_V, kind="stable") if row_V[place] > 0]

    @cached_property
    def _questions(self) -> list[str]:
        """Question that each word answers."""
        group_of, kinds = language(self.code).group_of, zip(self.words, self.types, strict=True)
        return [question_about(word, TYPES[kind], group_of) for word, kind in kinds]


def described_products(
    catalogs: Sequence[Catalog], at_least: int
) -> tuple[PromptWords, dict[str, LabeledPhotos]]:
    """Words of at least `at_least` training products, and the products of each split that have a picture and a
    word.

    The words of a product are its labels; a list without any is filled from its title. Raises UserError if no
    word is frequent enough or a split has no such product.
    """
    lists_of = {
        (catalog.category, name): lists for catalog in catalogs for name, lists in _lists(catalog).items()
    }
    images = {(catalog.category, name): path for catalog in catalogs for name, path in catalog.images.items()}
    keys = {
        split: [(catalog.category, name) for catalog in catalogs for name in catalog.ids(split)]
        for split in ("train", "val", "test")
    }
    words = label_vocabulary(lists_of, keys["train"], at_least, first=GARMENT)
    root = catalogs[0].root
    if not words:
        raise UserError(
            f"no word has {at_least} training products in {root}: add attributes/asin2attr.*.json or titles, or "
            "give a lower --min-count"
        )
    types = types_of(words, lists_of, keys["train"], first=GARMENT)
    vocabulary = PromptWords(words, types, catalogs[0].language)
    splits = {}
    for split, asked in keys.items():
        usable = [key for key in asked if key in images and any(lists_of.get(key, []))]
        if not usable:
            raise UserError(f"no {split} product in {root} has both a picture in images/ and a word")
        said = [[word for words in lists_of[key] for word in words] for key in usable]
        labels_NV = vocabulary.encode(said).astype(np.int8)
        splits[split] = LabeledPhotos([Photo(images[key]) for key in usable], labels_NV, len(asked))
    return vocabulary, splits


def _lists(catalog: Catalog) -> Mapping[str, list[list[str]]]:
    """Six lists of words of each product."""
    found = {name: [list(words) for words in lists] for name, lists in catalog.labels.items()}
    for name, title in catalog.titles.items():
        lists = found.setdefault(name, [[] for _ in range(ATTRIBUTE_LISTS)])
        for kind, words in enumerate(find_attributes(title, own_words(language(catalog.language)))):
            lists[kind] = lists[kind] or words
    return found
