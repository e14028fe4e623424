"""Count the words of released captions that are not in a captioner's vocabulary, and likely misspellings.

python benchmarks/unknown_words.py data/fashioniq [glove.txt]
"""

import sys
from collections import Counter
from pathlib import Path

from nltk import edit_distance

from fashioniq.data.catalog import Catalog
from fashioniq.data.words import SPECIAL, Vocabulary, load_word_vectors, tokenize

# A word counts as misspelled if it differs by one letter from a word that occurs at least OFTEN times in
# training. Words of fewer than LETTERS letters are ignored, since they are close to many others.
OFTEN, LETTERS = 20, 4


def said(catalog: Catalog, *splits: str) -> list[str]:
    return [text for split in splits for pair in catalog.pairs(split) for text in pair.captions]


def main(root: Path, vectors: Path | None) -> None:
    for category in ("dresses", "shirts", "tops"):
        catalog = Catalog(root, category)
        train, others = said(catalog, "train"), said(catalog, "val", "test")
        counts = Counter(word for text in train for word in tokenize(text))
        common = [word for word, count in counts.items() if count >= OFTEN and len(word) >= LETTERS]
        vocabulary = Vocabulary.of(train, at_least=2)
        unknown, words = vocabulary.unknown(others), sum(len(tokenize(text)) for text in others)
        never = sum(count for word, count in unknown.items() if word not in counts)
        touched = sum(any(word not in vocabulary for word in tokenize(text)) for text in others)
        near = {
            word: meant
            for word in unknown
            if len(word) >= LETTERS
            for meant in common
            if _one_letter_apart(word, meant)
        }
        misspelt = sum(unknown[word] for word in near)
        shares = (
            f"{100 * part / whole:.2f} %"
            for part, whole in ((unknown.total(), words), (never, words), (touched, len(others)))
        )
        print(
            f"{category}: {len(vocabulary) - len(SPECIAL)} words that occur at least twice in train, "
            f"{words:,} words in val and test"
        )
        print("  unknown: {} of these, {} never in train, in {} of the captions".format(*shares))
        print(
            f"  {misspelt} of them ({100 * misspelt / unknown.total():.0f} %) are one letter from a "
            "common word:"
        )
        print("  " + ", ".join(f"{word} ({meant})" for word, meant in list(near.items())[:10]))
        if vectors:
            _, lacking = load_word_vectors(vectors, vocabulary)
            without = sum(counts[word] for word in lacking)
            share = 100 * without / counts.total()
            print(
                f"  without a vector: {len(lacking)} words, {share:.1f} % of the words in train, such "
                f"as {', '.join(lacking[:6])}"
            )


def _one_letter_apart(word: str, other: str) -> bool:
    return abs(len(word) - len(other)) < 2 and edit_distance(word, other, transpositions=True) == 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
