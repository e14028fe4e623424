"""From text to word ids: the one tokenizer, the vocabulary, pretrained word vectors."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from nltk.tokenize import RegexpTokenizer
from torch import Tensor

from fashioniq.files import UserError

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")

_TOKENIZER = RegexpTokenizer(r"[^\W_]+(?:['’\-][^\W_]+)*")  # v-neck and don't are one word each


def tokenize(text: str) -> list[str]:
    """Lower-case words; inner hyphens and apostrophes stay, all other punctuation goes."""
    return _TOKENIZER.tokenize(text.lower())


class Vocabulary:
    """Words and their ids; ids 0 to 3 are padding, start, end and unknown."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [*SPECIAL, *words]
        self._ids = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, texts: Iterable[str], at_least: int = 2) -> "Vocabulary":
        """The words seen `at_least` times in `texts`, most frequent first, then by name."""
        counts = Counter(word for text in texts for word in tokenize(text))
        return cls(sorted((word for word, count in counts.items() if count >= at_least), key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    def encode(self, texts: Sequence[str], length: int) -> Tensor:
        """Word ids of the first `length` words of each text, padded on the right: B×L."""
        words_BL = torch.full((len(texts), length), PAD, dtype=torch.long)
        for row, text in enumerate(texts):
            ids = [self._ids.get(word, UNKNOWN) for word in tokenize(text)[:length]]
            words_BL[row, : len(ids)] = torch.tensor(ids, dtype=torch.long)
        return words_BL

    def decode(self, words_BL: Tensor) -> list[str]:
        """The texts of word ids: what stands before the first end or padding."""
        texts = []
        for ids in words_BL.tolist():
            stop = next((place for place, number in enumerate(ids) if number in (END, PAD)), len(ids))
            texts.append(" ".join(self.words[number] for number in ids[:stop] if number != START))
        return texts

    def translation(self, other: "Vocabulary") -> Tensor:
        """For each id here the id of the same word in `other`, unknown where it has none."""
        return torch.tensor([number if number < len(SPECIAL) else other._ids.get(word, UNKNOWN) for number, word in enumerate(self.words)])


def load_word_vectors(path: Path, vocabulary: Vocabulary) -> tuple[Tensor, int]:
    """Rows of a GloVe or word2vec text file for a vocabulary, and how many words were found; the others are zero.

    Raises UserError where the file is missing or is neither format.
    """
    from gensim.models import KeyedVectors  # slow to import, seldom needed

    if not path.is_file():
        raise UserError(f"there is no file of word vectors {path}")
    try:
        with open(path, encoding="utf-8") as file:
            no_header = len(file.readline().split()) != 2  # word2vec opens with "count size", GloVe does not
        vectors = KeyedVectors.load_word2vec_format(str(path), binary=False, no_header=no_header)
    except (ValueError, EOFError, TypeError) as error:
        raise UserError(f"{path} is not a text file of word vectors in GloVe's or word2vec's format: {error}") from error
    table = torch.zeros(len(vocabulary), vectors.vector_size)
    found = [number for number, word in enumerate(vocabulary.words) if word in vectors]
    for number in found:
        table[number] = torch.from_numpy(vectors[vocabulary.words[number]].copy())
    return table, len(found)
