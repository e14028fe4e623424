"""Text to word ids: the tokenizer, the vocabulary and pretrained word vectors.

torch is imported only where tensors are created: commands that only need the tokenizer start several times
faster.
"""

from __future__ import annotations

import re
import struct
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fashioniq.files import UserError, why

if TYPE_CHECKING:
    from torch import Tensor

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")

OF_CATALOG = "catalog"  # in place of a file: word vectors that are learned from the texts of the catalog
LEARNED_SIZE = 300  # of those, as of GloVe's
FASTTEXT = (793712314).to_bytes(4, "little")  # first bytes of fastText's binary files
_LINES_TRIED = 10  # lines of a word vector file whose numbers are always parsed, to detect other formats
_WORD = re.compile(r"[^\W_]+(?:['’\-][^\W_]+)*")  # v-neck and don't are single words


def composed(text: str) -> str:
    """Text whose letters and accents are composed; a Mac stores them separately."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def tokenize(text: str) -> list[str]:
    """Lower-case words of a text; inner hyphens and apostrophes are kept, other punctuation is removed.

    Letters with separate accents are composed, so that "ü" is one letter.

    >>> tokenize("A V-neck, don't you think?")
    ['a', 'v-neck', "don't", 'you', 'think']
    """
    return _WORD.findall(composed(text).lower())


class Vocabulary:
    """Words and their ids; ids 0 to 3 are padding, start, end and unknown."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [*SPECIAL, *words]
        self._ids = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, texts: Iterable[str], at_least: int = 2) -> Vocabulary:
        """Vocabulary of the words that occur at least `at_least` times, most frequent first, then by name."""
        counts = Counter(word for text in texts for word in tokenize(text))
        return cls(
            sorted(
                (word for word, count in counts.items() if count >= at_least),
                key=lambda word: (-counts[word], word),
            )
        )

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def ids(self, text: str) -> list[int]:
        """Word ids of a text."""
        return [self._ids.get(word, UNKNOWN) for word in tokenize(text)]

    def encode(self, texts: Sequence[str], length: int) -> Tensor:
        """Word ids of the first `length` words of each text, padded on the right: B×L."""
        import torch

        rows = [(self.ids(text) + [PAD] * length)[:length] for text in texts]
        return torch.tensor(rows, dtype=torch.long).reshape(len(texts), length)

    def decode(self, words_BL: Tensor) -> list[str]:
        """Texts of word ids, up to the first end or padding id."""
        said = (takewhile(lambda number: number not in (END, PAD), ids) for ids in words_BL.tolist())
        return [" ".join(self.words[number] for number in ids if number != START) for ids in said]

    def unknown(self, texts: Iterable[str]) -> Counter[str]:
        """Counts of the words in `texts` that are not in the vocabulary."""
        return Counter(word for text in texts for word in tokenize(text) if word not in self._ids)

    def translation(self, other: Vocabulary) -> Tensor:
        """For each id of this vocabulary, the id of the same word in `other`, or unknown."""
        import torch

        return torch.tensor(
            [
                number if number < len(SPECIAL) else other._ids.get(word, UNKNOWN)
                for number, word in enumerate(self.words)
            ]
        )


def load_word_vectors(path: Path, vocabulary: Vocabulary) -> tuple[Tensor, list[str]]:
    """Word vectors from a GloVe, word2vec or fastText file, V×D, and the words that are missing in the file.

    A missing hyphenated word gets the mean of its parts. Any other missing word gets a random vector of
    similar scale, so that words remain distinct. Text files are read line by line; `.bin` is the binary format of
    word2vec, or of fastText, whose parts of words give a vector to words that it lacks. Raises UserError if the file
    is missing, truncated or in another format.
    """
    if not path.is_file():
        raise UserError(f"there is no word vector file {path}")
    words = vocabulary.words[len(SPECIAL) :]
    wanted = {part for word in words for part in (word, *word.split("-"))}
    try:
        found = _binary_rows(path, wanted) if path.suffix == ".bin" else _text_rows(path, wanted)
    except (
        ValueError,
        EOFError,
        OSError,
        MemoryError,
        ArithmeticError,
        AssertionError,
        struct.error,
    ) as error:
        raise UserError(
            f"{path} is not a complete word vector file in GloVe, word2vec or fastText format: {why(error)}"
        ) from error
    if odd := [word for word, row in found.items() if not np.isfinite(row).all()]:
        raise UserError(
            f"{path} has a vector for {odd[0]!r} that is not finite in float32; correct that line"
        )
    if not found:
        raise UserError(f"{path} has vectors for none of the {len(words)} words; is it for another language?")
    return _table(words, found), [word for word in words if word not in found]


def learn_word_vectors(texts: Iterable[str], vocabulary: Vocabulary, seed: int) -> tuple[Tensor, list[str]]:
    """Word vectors learned from texts, V×D, and the words that are missing in the texts.

    They are those of word2vec's skip-gram model (Mikolov et al. 2013), in which words that stand in similar places are
    similar. Words that are missing get vectors as in `load_word_vectors`. Raises UserError if the texts have none of
    the words.
    """
    from gensim.models import Word2Vec

    sentences = [tokenize(text) for text in texts]
    words = vocabulary.words[len(SPECIAL) :]
    if set(words).isdisjoint(chain.from_iterable(sentences)):
        raise UserError("the texts of the catalog have none of the words; give --word-vectors a file")
    # one thread, so that a seed gives the same vectors
    learned = Word2Vec(
        sentences, vector_size=LEARNED_SIZE, sg=1, min_count=1, epochs=20, workers=1, seed=seed
    ).wv
    found = {part: learned[part] for word in words for part in (word, *word.split("-")) if part in learned}
    return _table(words, found), [word for word in words if word not in found]


def _text_rows(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    """Vectors of the words in `wanted`.

    A line with extra fields holds a token with spaces, as in GloVe 840B; such tokens never match and are
    skipped.
    """
    word_of = {word.encode(): word for word in wanted}
    rows: dict[str, np.ndarray] = {}
    with open(path, "rb") as file:
        first = file.readline().split()
        header = len(first) == 2
        size = int(first[1]) if header else len(first) - 1
        if size < 1:
            raise ValueError("line 1 contains no numbers")
        file.seek(0)
        number = 0
        for number, line in enumerate(file, start=1):
            if number == 1 and header:
                continue
            if line.count(b" ") < size:
                raise ValueError(f"line {number} has fewer than {size} numbers")
            if (token := line[: line.index(b" ")]) in word_of and len(fields := line.split()) == size + 1:
                rows[word_of[token]] = np.array(fields[1:], dtype=np.float32)
            elif number <= _LINES_TRIED:
                np.array(line.split()[-size:], dtype=np.float32)
    if header and number != int(first[0]) + 1:
        raise ValueError(f"expected {int(first[0])} words according to line 1, found {number - 1}")
    return rows


def _binary_rows(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    from gensim.models import KeyedVectors  # slow to import, rarely needed
    from gensim.models.fasttext import load_facebook_vectors

    with open(path, "rb") as file:
        is_fasttext = file.read(4) == FASTTEXT
    vectors = (
        load_facebook_vectors(str(path))
        if is_fasttext
        else KeyedVectors.load_word2vec_format(str(path), binary=True)
    )
    return {word: vectors[word].copy() for word in wanted if word in vectors}


def _table(words: Sequence[str], found: dict[str, np.ndarray]) -> Tensor:
    import torch

    size = len(next(iter(found.values())))
    spread = float(np.std(list(found.values())))
    table_VD = (
        np.random.default_rng(0).normal(0, spread, (len(SPECIAL) + len(words), size)).astype(np.float32)
    )
    table_VD[: len(SPECIAL)] = 0
    for row, word in enumerate(words, start=len(SPECIAL)):
        parts = [found[part] for part in ((word,) if word in found else word.split("-")) if part in found]
        if parts:
            table_VD[row] = np.mean(parts, 0)
    return torch.from_numpy(table_VD)
