"""Whether captions are true and how much they vary, for comparing simulated users with people."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from fashioniq.data.words import tokenize
from fashioniq.language.statements import StatementCheck


def truthfulness(
    said: Iterable[tuple[str, str, str]], truth: StatementCheck | None
) -> dict[str, float | None]:
    """Share of the statements of captions that are true (see `StatementCheck`), and how many a caption makes.

    Each caption comes with the ids of its target and its candidate. The share is None if nothing is stated.
    """
    counts = [truth.decided(*one) for one in said] if truth else []
    stated, false = (sum(count[place] for count in counts) for place in (0, 1))
    return {"true": (stated - false) / stated if stated else None, "stated": stated / max(1, len(counts))}


def diversity(captions: Sequence[str]) -> dict[str, float]:
    """Share of different captions, and of different words and bigrams among all (Li et al. 2016)."""
    words_of = [tokenize(caption) for caption in captions]
    words = Counter(word for words in words_of for word in words)
    bigrams = Counter(pair for words in words_of for pair in pairwise(words))
    return {
        "distinct": len(set(map(tuple, words_of))) / max(1, len(words_of)),
        "distinct-1": len(words) / max(1, words.total()),
        "distinct-2": len(bigrams) / max(1, bigrams.total()),
    }
