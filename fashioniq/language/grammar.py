"""Words of a language's requests that are no attributes, from words/."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from fashioniq.data.languages import language
from fashioniq.language.tokens import folded, phrase_key, phrase_of
from fashioniq.yaml_files import read_yaml

_FOLDER = Path(__file__).parent


class Places(NamedTuple):
    """Words that name a product by its place among those shown."""

    ordinals: Mapping[str, int]  # from 0
    before: frozenset[str]
    nouns: frozenset[str]  # that may follow, beside functional words
    other: frozenset[str]  # that may not
    printed: frozenset[str]  # before a number that is on a product: "with number 5"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Places":
        """Places of a language's file."""
        ordinals = {
            phrase_of(word): place for place, words in enumerate(given["ordinals"]) for word in split(words)
        }
        for place, word in enumerate(split(given["cardinals"])):
            for number in (word, place + 1):
                ordinals |= {phrase_of(f"{before} {number}"): place for before in split(given["numbers"])}
        return cls(ordinals, *(_keys(given[name]) for name in ("before", "nouns", "other", "printed")))


@dataclass(frozen=True, eq=False)
class Grammar:
    """Functional words, folded; words/en.yaml explains them."""

    code: str
    roles: Mapping[str, frozenset[str]]  # roles of each phrase
    shades: Mapping[str, str]  # English names of words such as "dark"
    steps: Mapping[str, tuple[str, int]]  # family and direction of comparatives
    adjectives: Mapping[str, tuple[str, int]]  # and of adjectives
    nouns: Mapping[str, str]  # family that a noun stands for
    parts: frozenset[str]  # keys of parts of a garment, whose comparatives say nothing of it
    lowest: Mapping[str, frozenset[str]]  # keys of labels below the first level of a scale
    collective: Mapping[str, tuple[str, frozenset[str]]]  # family, and keys of the labels that are left out
    persons: tuple[tuple[str, ...], ...]  # keys of words for the same people
    whom: frozenset[str]  # "for"
    places: Places
    others: frozenset[str]  # keys of requests for other products than those that are shown
    alternatives: frozenset[str]
    exclusive: frozenset[str]
    comparative: tuple[tuple[str, str], ...]
    without: tuple[str, ...]  # suffixes that deny the word before them
    coloured: tuple[str, ...]  # suffixes of color words
    links: tuple[str, ...]  # letters between the parts of a compound, if the language has compounds
    first_parts: Mapping[str, str]  # what the first part of a compound stands for
    unlike_head: frozenset[str]  # keys of compounds that are no garment of their last part
    inflections: tuple[str, ...]  # endings of attribute words
    keyboard: tuple[str, ...]  # rows of letters
    alike: tuple[str, ...]  # letters that sound alike
    rare: int  # how often films say a word that may be a misspelling of another
    offers: Mapping[str, Any]
    synonyms: Mapping[str, tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]]  # family: (words, terms)
    colors: Mapping[str, str]  # English name of color words


def split(phrases: str) -> list[str]:
    """Phrases of a list."""
    return [phrase for phrase in (" ".join(part.split()) for part in str(phrases).split(";")) if phrase]


@lru_cache
def grammar(code: str) -> Grammar:
    """Functional words of a language such as "de". Raises UserError if there is none."""
    language(code)
    given = read_yaml(_FOLDER / "words" / f"{code}.yaml")
    roles: dict[str, set[str]] = {}
    for role, phrases in given["roles"].items():
        for phrase in split(phrases):
            roles.setdefault(phrase_of(phrase), set()).add(role)
    endings = given.get("endings", [""])
    shades = {
        phrase_of(word + ending): name
        for name, words in given["shades"].items()
        for word in split(words)
        for ending in endings
    }
    for key in shades:
        roles.setdefault(key, set()).add("shade")
    places = Places.of(given["places"])
    for key in places.ordinals:
        roles.setdefault(key, set()).update(("filler", "shown"))
        for phrase in split(given["places"]["like"]):
            roles.setdefault(phrase_of(f"{phrase} {key}"), set()).add("like")
    persons = tuple(tuple(map(phrase_key, split(words))) for words in given["persons"])
    for key in (word for words in persons for word in words):
        roles.setdefault(key, set()).add("filler")
    synonyms = read_yaml(_FOLDER / "synonyms" / f"{code}.yaml")
    return Grammar(
        code,
        roles={key: frozenset(found) for key, found in roles.items()},
        shades=shades,
        steps=_directions(given["steps"], endings),
        adjectives=_directions(given["adjectives"], endings),
        nouns={phrase_of(noun): family for family, nouns in given["nouns"].items() for noun in split(nouns)},
        parts=_keys(given["parts"]),
        lowest={family: _keys(words) for family, words in given["lowest"].items()},
        collective={
            phrase_of(term): (family, _keys(entry["but"]))
            for family, entry in given["collective"].items()
            for term in split(entry["terms"])
        },
        persons=persons,
        whom=_keys(given["whom"]),
        places=places,
        others=_keys(given["others"]),
        alternatives=frozenset(split(given["alternatives"])),
        exclusive=frozenset(split(given["exclusive"])),
        comparative=tuple((ending, other) for ending, other in given["comparative"]),
        without=tuple(map(folded, given["suffixes"]["without"])),
        coloured=tuple(map(folded, given["suffixes"]["shade"])),
        links=tuple(given.get("links", ())),
        first_parts=given.get("first_parts", {}),
        unlike_head=_keys(given.get("unlike_head", "")),
        inflections=tuple(given["inflections"]),
        keyboard=tuple(given["keyboard"]),
        alike=tuple(given["alike"]),
        rare=given["rare"],
        offers=given["offers"],
        synonyms={
            family: tuple(
                (tuple(word.strip() for word in words.split(",")), tuple(split(terms)))
                for words, terms in lines.items()
            )
            for family, lines in synonyms["terms"].items()
        },
        colors={
            phrase_key(word): name
            for name, words in synonyms.get("colors", {}).items()
            for word in split(words)
        },
    )


def _keys(words: str) -> frozenset[str]:
    return frozenset(map(phrase_key, split(words)))


def _directions(given: Mapping[str, Mapping[str, str]], endings: Sequence[str]) -> dict[str, tuple[str, int]]:
    return {
        phrase_of(phrase + ending): (family, direction)
        for family, lists in given.items()
        for direction, phrases in ((-1, lists["less"]), (1, lists["more"]))
        for phrase in split(phrases)
        for ending in endings
    }
