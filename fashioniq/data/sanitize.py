"""Texts that models and people produce, made safe for a dialog: one line without markup or control characters."""

import re
import unicodedata

UNKNOWN = "unknown"  # the answer where there is none, so that a round is never a bare question
LONGEST = 120  # characters of an answer
MAX_MODEL_OUTPUT = 100_000  # characters of a model's output that are read

_TAG = re.compile(r"<[^<>]*>")


def clean(text: str, longest: int = LONGEST) -> str:
    """The first line that has words, without markup and control characters, cut at a blank where it exceeds `longest` characters."""
    for line in _TAG.sub(" ", text[:MAX_MODEL_OUTPUT]).splitlines():
        plain = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in line)
        if said := " ".join(plain.split()):
            return said if len(said) <= longest else said[: longest + 1].rpartition(" ")[0] or said[:longest]
    return ""


def clean_answer(text: str) -> str:
    """An answer as `clean` makes it, without question marks, since the last one ends a round's question; UNKNOWN where nothing is left."""
    return clean(text.replace("?", " ")) or UNKNOWN
