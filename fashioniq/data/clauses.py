"""Parts of a text that are read one by one."""

import re

from fashioniq.data.words import tokenize

_CLAUSE = re.compile(r"\s*(?:[,.;!]+|\band\b)\s*", re.IGNORECASE)


def clauses_of(text: str) -> list[str]:
    """Parts of a text between "and", commas and full stops, without empty ones."""
    return [clause for clause in _CLAUSE.split(text) if tokenize(clause)]


def shortened(text: str, longest: int) -> tuple[list[str], bool]:
    """Clauses of a text of at most `longest` words each, and whether words are left out.

    A text is split at "and", commas and full stops only if it is longer; of a longer clause, the first words are kept.
    """
    if len(tokenize(text)) <= longest:
        return [text], False
    joined: list[str] = []
    for clause in clauses_of(text):
        if joined and len(tokenize(joined[-1])) + len(tokenize(clause)) < longest:
            joined[-1] = f"{joined[-1]} and {clause}"
        else:
            joined.append(clause)
    cut = any(len(tokenize(clause)) > longest for clause in joined)
    return [" ".join(tokenize(clause)[:longest]) for clause in joined], cut
