"""Attribute words that captions assert and deny."""

import re
from collections.abc import Sequence

from fashioniq.data.attributes import OWN_WORDS, AttributeVocabulary, find_attributes

Labels = Sequence[Sequence[str]]  # the six lists of a product
_DENYING = ("instead of", "rather than", "is not", "has no", "not", "no", "without", "less")
_ASSERTING = ("and", "with", "is", "has", "but")
_PARTS = re.compile(rf"\b({'|'.join((*_DENYING, *_ASSERTING))})\b")


def stated_attributes(
    caption: str, vocabulary: AttributeVocabulary = OWN_WORDS
) -> tuple[list[str], list[str]]:
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
                word for words in find_attributes(part, vocabulary) for word in words
            )
    return asserted, denied
