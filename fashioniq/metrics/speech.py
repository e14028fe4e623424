"""Whether captions are true and how much they vary, for comparing simulated users with people."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from fashioniq.data.attributes import find_attributes
from fashioniq.data.words import tokenize

Labels = Sequence[Sequence[str]]  # the six lists of a product
_DENYING = ("instead of", "rather than", "is not", "has no", "not", "no", "without", "less")
_ASSERTING = ("and", "with", "is", "has", "but")
_PARTS = re.compile(rf"\b({'|'.join((*_DENYING, *_ASSERTING))})\b")


def stated_attributes(caption: str) -> tuple[list[str], list[str]]:
    """Attribute words that a caption asserts of the target, and those that it denies."""
    asserted: list[str] = []
    denied: list[str] = []
    denying = False
    for part in _PARTS.split(caption.lower()):
        if part in _DENYING:
            denying = True
        elif part in _ASSERTING:
            denying = False
        else:
            (denied if denying else asserted).extend(
                word for words in find_attributes(part) for word in words
            )
    return asserted, denied


def truthfulness(
    captions: Sequence[str], targets: Sequence[Labels], candidates: Sequence[Labels]
) -> dict[str, float | None]:
    """Share of the stated attributes that hold by the labels, and how many a caption states.

    An asserted attribute holds if the target has it, a denied one if the candidate has it and the target has
    not. Attributes that are no label of any of the products are not counted. The share is None if nothing is
    stated.
    """
    of_target = [{word for words in labels for word in words} for labels in targets]
    of_candidate = [{word for words in labels for word in words} for labels in candidates]
    known = set[str]().union(*of_target, *of_candidate)
    held = stated = 0
    for caption, target, candidate in zip(captions, of_target, of_candidate, strict=True):
        asserted, denied = ([word for word in words if word in known] for words in stated_attributes(caption))
        held += sum(word in target for word in asserted)
        held += sum(word in candidate and word not in target for word in denied)
        stated += len(asserted) + len(denied)
    return {"true": held / stated if stated else None, "stated": stated / max(1, len(captions))}


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
