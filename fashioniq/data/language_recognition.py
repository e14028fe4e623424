"""Recognition of texts that are not English, from their words alone."""

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from fashioniq.data.languages import ENGLISH, LANGUAGES, language
from fashioniq.data.words import tokenize

_SHARE = 0.1  # of the words; brand names in English catalogs have fewer foreign words
_FEWEST = 5  # different foreign words
_MOST_TEXTS = 5_000  # texts that are looked at
_FREQUENT = """
und mit für ohne aus der das den dem ein eine größe damen herren rot blau grau gelb braun rosa lila
avec sans pour femme homme noir blanc rouge bleu vert jaune gris robe chemise et les des du
para mujer hombre con sin rojo negro azul verde blanco vestido camisa falda las los del
donna uomo nero bianco rosso giallo abito camicia gonna di della senza per
met zonder voor en van het een zwart wit rood blauw groen jurk
"""  # in titles in German, French, Spanish, Italian and Dutch
_FOREIGN = frozenset(_FREQUENT.split())
_ENGLISH = frozenset(["and", "with", "for", "of", "the", "in", "a", "by", "on", "to", "men", "women"])


class Foreign(NamedTuple):
    """Texts that do not look English: examples of their words, and a language of this package, or ""."""

    words: list[str]
    language: str


def foreign_words(texts: Iterable[str]) -> Foreign | None:
    """What suggests that texts are not English; None for texts that may be.

    A word counts as foreign if it has letters outside ASCII, is a frequent word of another language, or a
    word of this package in another language only. Foreign words must be 10 % of all words, of 5 kinds or
    more, and more frequent than English ones.
    """
    of_language = {code: _words_of(code) - _words_of("en") for code in LANGUAGES if code != ENGLISH.code}
    english = _ENGLISH | _words_of("en")
    others = _FOREIGN.union(*of_language.values())
    every = Counter(word for text in islice(texts, _MOST_TEXTS) for word in tokenize(text))
    known = sum(times for word, times in every.items() if word in english)
    counts = Counter(
        {
            word: times
            for word, times in every.items()
            if word not in english and (not word.isascii() or word in others)
        }
    )
    foreign = counts.total()
    if foreign < max(_SHARE * every.total(), known + 1) or len(counts) < _FEWEST:
        return None
    share = {
        code: sum(counts[word] for word in counts if word in words) for code, words in of_language.items()
    }
    best = max(share, key=lambda code: share[code])
    examples = sorted(counts, key=lambda word: (-counts[word], word))[:_FEWEST]
    return Foreign(examples, best if share[best] >= foreign / 4 else "")


def _words_of(code: str) -> set[str]:
    return {part for word in (*language(code).group_of, *language(code).word_of) for part in tokenize(word)}
