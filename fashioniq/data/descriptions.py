"""Descriptions in attribute words, and the words of descriptions."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fashioniq.data.attributes import GARMENT, PART, Labels, add_word, find_attributes, vocabulary_of
from fashioniq.data.catalog_files import ATTRIBUTE_LISTS
from fashioniq.data.dialogues import Round
from fashioniq.data.languages import language
from fashioniq.data.topics import Topic

Words = tuple[str, ...]  # attribute words of one product or picture; the main color comes first


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
            for word in words_of(topic, words):
                add_word(found, self.vocabulary.lists_of[word][0], word)
        before = [word for kind in range(GARMENT + 1, PART) for word in found[kind]] + found[-1]
        after = f" with {' and '.join(found[PART])}" if found[PART] else ""
        return " ".join(["a", *before, *(found[GARMENT] or [self.noun])]) + after

    def rewrite(self, rounds: Sequence[Round]) -> str:
        """Describe what a dialog has said so far: captions, and questions with answers.

        A question answered with yes names the attribute in the question; an answer with no names none.
        """
        words: list[str] = []
        for said in rounds:
            first = said.answer.lower().partition(" ")[0].strip(",.")
            if first not in ("no", "not", "none", "neither"):
                words += self.read(said.answer) or (self.read(said.question) if first == "yes" else ())
        return self.write(tuple(words))


def words_of(topic: Topic, words: Words) -> Words:
    """Those of the words that belong to a topic."""
    return tuple(word for word in words if word in topic.words)
