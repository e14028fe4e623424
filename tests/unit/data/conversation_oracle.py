"""A reader who knows the labels of all products and searches by what the user says and shows.

    python tests/unit/data/conversation_oracle.py CONVERSATIONS DATA

prints how often the reader finds the target in a folder of conversations that templates wrote: an upper bound for
models, and what the parts of a conversation are worth.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from fashioniq.data.attributes import stated_attributes, vocabulary_of
from fashioniq.data.catalog import Catalog
from fashioniq.data.catalog_files import categories_in
from fashioniq.data.conversation_records import ConversationTurn
from fashioniq.data.conversations import Conversations
from fashioniq.data.differences import Described
from fashioniq.data.languages import ENGLISH
from fashioniq.prepare.templates import HINTS

ADDITIVE = {"detail", "trim", "occasion"}  # families of which a product can have several words
LIKENESS = (
    0.3  # worth of a label that a candidate shares with the picture, next to one that the user asks for
)


class Oracle:
    """Ranks products by their labels, given as lists of words."""

    def __init__(self, labels):
        self.words_of = {name: {word for words in lists for word in words} for name, lists in labels.items()}
        lists_of = {
            word: (kind,) for lists in labels.values() for kind, words in enumerate(lists) for word in words
        }
        vocabulary = vocabulary_of(lists_of)
        plurals = {word + "s": word for word in lists_of}
        self.vocabulary = replace(vocabulary, forms=plurals | dict(vocabulary.forms))
        self.family_of = {
            word: family
            for lists in labels.values()
            for family, words in Described(lists).speakable.items()
            for word in words
        }
        scales = ENGLISH.scales.items()
        self.compared = {word: family for family, scale in scales for word in (scale.less, scale.more)}
        self.column_of = {word: column for column, word in enumerate(sorted(lists_of))}
        self.row_of = {name: row for row, name in enumerate(labels)}
        self.has_NW = np.zeros((len(labels), len(self.column_of)), dtype=np.float32)
        for name, words in self.words_of.items():
            self.has_NW[self.row_of[name], [self.column_of[word] for word in words]] = 1

    def read(self, text):
        """Words asserted and denied, and families that are compared."""
        text = re.sub(r"[.,?]", " and ", text.lower())
        for word, hint in HINTS.items():
            text = text.replace(hint.what.lower(), word)
        compared = set()
        for words in sorted(self.compared, key=len, reverse=True):  # "longer sleeves" before "longer"
            if re.search(rf"\b{words}\b", text):
                compared.add(self.compared[words])
                text = text.replace(words, "")
        asserted, denied = stated_attributes(text, self.vocabulary)
        return set(asserted), set(denied), compared

    def wanted(self, texts):
        """Words wanted and not wanted after all texts, and the families that the last one is about."""
        wanted, unwanted, about = set(), set(), set()
        for text in texts:
            asserted, denied, compared = self.read(text)
            about = compared | {self.family_of[word] for word in asserted | denied} - ADDITIVE
            wanted = {word for word in wanted - denied if self.family_of[word] not in about} | asserted
            unwanted = (unwanted - asserted) | denied
        return wanted, unwanted, about

    def rank(self, turns, target, ids):
        """Rank of the target among `ids` from 1; ties count as the mean rank."""
        wanted, unwanted, about = self.wanted([turn.text for turn in turns if turn.role == "user"])
        worth_W = np.zeros(len(self.column_of), dtype=np.float32)
        for name in [name for turn in turns for name in turn.pictures][-1:]:
            for word in self.words_of[name]:
                worth_W[self.column_of[word]] = 0 if self.family_of[word] in about else LIKENESS
        for words, worth in ((wanted, 1), (unwanted, -1)):
            for word in words:
                column = self.column_of[word]
                worth_W[column] = worth_W[column] + 1 if worth > 0 else -1
        scores = self.has_NW[[self.row_of[name] for name in ids]] @ worth_W
        score = scores[ids.index(target)]
        return 1 + (scores > score + 1e-6).sum() + ((abs(scores - score) < 1e-6).sum() - 1) / 2


def _words_alone(sample):
    return tuple(
        ConversationTurn(turn.role, tuple(part for part in turn.content if hasattr(part, "text")))
        for turn in sample.turns
    )


def _history_alone(sample):
    return sample.turns[:-1]


def main(folder, data):
    read = Conversations(Path(folder))
    catalogs = [Catalog(Path(data), name) for name in categories_in(Path(data))]
    labels = {
        name: lists for catalog in catalogs for name, lists in catalog.labels.items() if name in read.items
    }
    oracle = Oracle(labels)
    views = {
        "everything": lambda sample: sample.turns,
        "last round": lambda sample: sample.last_round,
        "words alone": _words_alone,
        "all but the last request": _history_alone,
    }
    for subtask in ("t", "i", "m"):
        samples, ids = read.samples(subtask, "test"), read.gallery(subtask)
        for name, turns_of in views.items() if subtask == "m" else [*views.items()][:1]:
            ranks = np.array([oracle.rank(turns_of(one), one.target, ids) for one in samples])
            recall = ", ".join(f"R@{k} {100 * (ranks <= k).mean():.1f}" for k in (1, 5, 10))
            print(f"{subtask}, {name}: {len(samples):,} samples, {len(ids):,} candidates, {recall}")


if __name__ == "__main__":
    main(*sys.argv[1:])
