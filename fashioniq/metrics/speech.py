"""Whether captions are true and how much they vary, for comparing simulated users with people."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from fashioniq.data.statements import Labels, StatementCheck
from fashioniq.data.words import tokenize


def truthfulness(
    captions: Sequence[str], targets: Sequence[Labels], candidates: Sequence[Labels]
) -> dict[str, float | None]:
    """Share of the stated attributes that hold by the labels (see `StatementCheck`), and how many a caption states.

    The share is None if nothing is stated.
    """
    truth = StatementCheck([*targets, *candidates])
    false = stated = 0
    for n, caption in enumerate(captions):
        false += truth.false(caption, n, len(targets) + n)
        stated += truth.stated(caption)
    return {"true": (stated - false) / stated if stated else None, "stated": stated / max(1, len(captions))}


def true_by_labels(said: Iterable[tuple[str, str, str]], labels: Mapping[str, Labels]) -> float | None:
    """Share of the attributes stated in captions that hold by the labels of the products, None if none are stated.

    Each caption comes with the ids of its target and its candidate.
    """
    listed = list(said)
    texts, targets, candidates = zip(*listed, strict=True) if listed else ((), (), ())
    of_target, of_candidate = ([labels.get(name, ()) for name in names] for names in (targets, candidates))
    return truthfulness(texts, of_target, of_candidate)["true"]


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
