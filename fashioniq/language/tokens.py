"""Words of a text with their places, and the keys under which they are looked up."""

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

_TOKEN = re.compile(
    r"\d+/\d+"  # 3/4 sleeves
    r"|\d+(?:[.,]\d+)+"
    r"|(?<![^\W_])[Nn][OoRr]\.(?=\s*\d)|#"  # no. 3
    r"|(?<![^\W_])w/(?:o(?:ut)?(?![^\W_]))?"  # w/pockets, w/o
    r"|(?:[^\W_][\u0300-\u036f]*)+(?:['’](?:[^\W_][\u0300-\u036f]*)+)*"  # don't; letters with separate accents
    r"|[-=]+>|[→⇒➜]"
    r"|[,.;:!?()\[\]&+/\n\r…–—|\"“”„]"
    r"|(?<!\S)-+(?!\S)"
)
_POSSESSIVE = re.compile(r"(?<=[^\W\d_]{4})['’]s$", re.IGNORECASE)
_LIGATURES = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "æ": "ae", "ø": "oe", "œ": "oe", "ı": "i"}
)


class Token(NamedTuple):
    """A word or a punctuation mark; `key` is its folded form."""

    key: str
    text: str  # as written
    start: int
    end: int
    glued: bool = False  # a hyphen is before it
    said: str = ""  # corrected spelling, "" if nothing was corrected
    apart: bool = False  # a part of a word that was split


@lru_cache(maxsize=50_000)
def folded(word: str) -> str:
    """Lower-case word without apostrophes and accents; umlauts are written with e, so that gruen = grün."""
    word = word.lower()
    if not word.isascii():
        word = unicodedata.normalize("NFC", word).translate(_LIGATURES)
        word = "".join(
            letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter)
        )
    return word.replace("'", "").replace("’", "").replace("·", "")


def tokens_of(text: str) -> list[Token]:
    """Words and punctuation marks of a text in order."""
    return [
        Token(
            folded(_POSSESSIVE.sub("", found[0])),
            found[0],
            found.start(),
            found.end(),
            found.start() > 1 and text[found.start() - 1] in "-‐‑" and text[found.start() - 2].isalnum(),
        )
        for found in _TOKEN.finditer(text)
    ]


@lru_cache(maxsize=50_000)
def phrase_key(phrase: str) -> str:
    """Key of a phrase: its folded words without spaces and hyphens."""
    return "".join(token.key for token in tokens_of(phrase))


def phrase_of(phrase: str) -> str:
    """Folded words of a phrase separated by spaces: "a long" is not "along" then."""
    return " ".join(keys_of(phrase))


@lru_cache(maxsize=50_000)
def keys_of(phrase: str) -> tuple[str, ...]:
    """Folded words of a phrase."""
    return tuple(token.key for token in tokens_of(phrase))
