"""Cleaning of texts for use in a dialog: one line without markup or control characters."""

import re
import unicodedata

UNKNOWN = "unknown"  # replaces an empty answer, so that a round is never a question alone
LONGEST = 120  # characters in an answer, at most
MAX_MODEL_OUTPUT = 100_000  # characters of a model's output that are processed

_TAG = re.compile(r"<[^<>]*>")


def clean(text: str, longest: int = LONGEST) -> str:
    """First line with words, without markup and control characters, cut to `longest` characters."""
    for line in _TAG.sub(" ", text[:MAX_MODEL_OUTPUT]).splitlines():
        plain = "".join(" " if unicodedata.category(letter)[0] in "CZ" else letter for letter in line)
        if line_text := " ".join(plain.split()):
            if len(line_text) <= longest:
                return line_text
            return line_text[: longest + 1].rpartition(" ")[0] or line_text[:longest]
    return ""


def clean_answer(text: str) -> str:
    """Clean an answer; an empty one becomes UNKNOWN."""
    return clean(text) or UNKNOWN
