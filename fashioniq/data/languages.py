"""Languages of labels and of the captions that are generated from them: one file each in phrases/."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from fashioniq.files import UserError
from fashioniq.yaml_files import read_yaml

TYPES = {"garment": 0, "texture": 1, "fabric": 2, "shape": 3, "part": 4, "style": 5}
_FOLDER = Path(__file__).parent / "phrases"
LANGUAGES = tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))
_WORD = r"(?:\d+/\d+|[^\W_]+(?:['’][^\W_]+)*)"
RUN = re.compile(rf"{_WORD}(?:[\s\-]+{_WORD})*")  # words separated by spaces and hyphens only
TOKEN = re.compile(_WORD)


class PhraseGroup(NamedTuple):
    """Words phrased in the same way: `lead` + `item` gives "has" + "a v-neck".

    Words of one family are alternatives to each other.
    """

    kind: int
    family: str
    lead: str
    item: str
    endings: tuple[str, ...] = ("",)
    entries: str = ""  # word=form,form; word …

    @property
    def forms(self) -> list[list[str]]:
        """Forms of each word, the word itself first."""
        entries = (" ".join(entry.split()).partition("=") for entry in self.entries.split(";"))
        return [[word, *filter(None, others.split(","))] for word, _, others in entries]


class Verb(NamedTuple):
    """A verb of captions, and the beginnings of sentences and phrases: said, and denied."""

    verb: str
    sentence: Sequence[str]
    phrase: Sequence[str]


class Scale(NamedTuple):
    """Words of a family in increasing order, and how to compare them."""

    verb: str
    less: str
    more: str
    levels: tuple[frozenset[str], ...]


@dataclass(frozen=True, eq=False)
class Language:
    """Words and phrases of a language; phrases/en.yaml explains them.

    `group_of` has the group of each word, `word_of` the word of each form without spaces and hyphens.
    """

    code: str
    same: tuple[str, str]
    different: tuple[str, str]
    be: Verb
    have: Verb
    joint: str
    instead: tuple[str, str]  # in a sentence, in a phrase
    more: str
    less: str
    article: str
    other: tuple[PhraseGroup, ...]
    scales: Mapping[str, Scale]
    groups: tuple[PhraseGroup, ...]

    @cached_property
    def group_of(self) -> dict[str, PhraseGroup]:
        """Group of each word."""
        return {word: group for group in self.groups for word, *_ in group.forms}

    @cached_property
    def word_of(self) -> dict[str, str]:
        """Word of each form, squeezed."""
        return {
            squeezed(form) + ending: forms[0]
            for group in self.groups
            for forms in group.forms
            for form in forms
            for ending in group.endings
        }

    @cached_property
    def forms_of(self) -> dict[str, list[str]]:
        """Forms of each word as they are written, the word itself first."""
        return {
            word: [
                word,
                *(
                    form + ending
                    for form in (word, *others)
                    for ending in group.endings
                    if form + ending != word
                ),
            ]
            for group in self.groups
            for word, *others in group.forms
        }


def squeezed(form: str) -> str:
    """Remove spaces and hyphens, so that "v neck", "v-neck" and "vneck" are the same form."""
    return "".join(TOKEN.findall(form))


@lru_cache
def language(code: str) -> Language:
    """Language of a code such as "de". Raises UserError if there is none."""
    if code not in LANGUAGES:
        raise UserError(f"unknown language {code!r}: expected one of {', '.join(LANGUAGES)}")
    given = read_yaml(_FOLDER / f"{code}.yaml")
    return Language(
        code=code,
        same=tuple(given["same"]),
        different=tuple(given["different"]),
        be=Verb(**given["be"]),
        have=Verb(**given["have"]),
        joint=given["and"],
        instead=(given["instead"]["sentence"], given["instead"]["phrase"]),
        more=given["degree"]["more"],
        less=given["degree"]["less"],
        article=given["article"],
        other=tuple(PhraseGroup(TYPES[kind], **group) for kind, group in given["other"].items()),
        scales={
            family: Scale(scale["verb"], scale["less"], scale["more"], tuple(map(frozenset, scale["levels"])))
            for family, scale in given["scales"].items()
        },
        groups=tuple(
            PhraseGroup(
                TYPES[group["type"]],
                group["family"],
                group["lead"],
                group["item"],
                endings=tuple(group.get("endings", [""])),
                entries=group["words"],
            )
            for group in given["groups"]
        ),
    )


ENGLISH = language("en")
