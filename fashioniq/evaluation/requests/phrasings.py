"""Words of requests: the phrasings of data/requests/, filled in for labels and garments."""

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import fashioniq.data
from fashioniq.data.languages import Language, PhraseGroup, squeezed
from fashioniq.files import UserError
from fashioniq.yaml_files import read_yaml

_FOLDER = Path(fashioniq.data.__file__).parent / "requests"
LONGEST_ATTRIBUTE = 2  # words before a noun
NEXT_TURN = " | "
SHORT_FORMS = "colour"  # family whose labels may be said with one of their words, such as navy

Slots = Mapping[str, str]


class NotPossible(Exception):
    """What was drawn makes no request; another draw may."""


class OtherWord(NamedTuple):
    """Word of a shopper that is no label, how it is said, and the labels that it means, any of which is right."""

    text: str
    form: str  # is, has, for or a
    means: tuple[str, ...]


class RequestPhrasings:
    """Phrasings of a language. data/requests/en.yaml explains the slots.

    `phrasings` are those of each kind, with the slots of labels and garments in braces, `offers` those about price,
    size and stock. `comparisons` are with the product talked about, by scale, and by whether more or less is wanted,
    `comparisons_by_place` with a product that is named by its place among those shown, of which there are as many as
    `ordinals`. `misspellings` of words were made by hand.
    """

    def __init__(self, speech: Language) -> None:
        path = _FOLDER / f"{speech.code}.yaml"
        if not path.exists():
            known = ", ".join(sorted(one.stem for one in _FOLDER.glob("*.yaml")))
            raise UserError(
                f"expected a catalog in one of {known}, found {speech.code!r}; there are no requests in it"
            )
        self.speech = speech
        self._given: dict[str, Any] = read_yaml(path)
        self._article = re.compile(f"^{self._given['article']}")
        self.phrasings: dict[str, list[str]] = self._given["phrasings"]
        self.comparisons: dict[str, dict[str, list[str]]] = self._given["comparisons"]
        self.comparisons_by_place: dict[str, dict[str, list[str]]] = self._given["comparisons by place"]
        self.ordinals: list[str] = self._given["ordinals"]
        self.offers: dict[str, list[str]] = self._given["offers"]
        self.misspellings: dict[str, list[str]] = self._given["misspellings"]

    @property
    def other_words(self) -> list[OtherWord]:
        """Words of shoppers that are no labels of the drawn sample."""
        return [
            OtherWord(str(text), form, tuple(means))
            for forms in self._given["other_words"].values()
            for form, entries in forms.items()
            for text, means in entries.items()
        ]

    def label_slots(
        self, label: str, group: PhraseGroup, garment: str | None, rng: random.Random
    ) -> dict[str, str]:
        """Slots of a label, before a noun in the form that the garment needs."""
        be, have = self.speech.be.verb, self.speech.have.verb
        short = [word for word in label.split() if self.speech.word_of.get(squeezed(word)) == label]
        word = rng.choice([label, *short]) if group.family == SHORT_FORMS else label
        if said := self._given["said"].get(label):
            ((form, phrase),) = said.items()
            slots = self._has(phrase) if form == "has" else self._is(phrase, garment)
        elif group.lead == have:
            slots = self._has(group.item.format(word))
        elif group.family == "garment":
            phrase = group.item.format(word)
            slots = {
                "bare": self.bare(phrase),
                "what": phrase,
                "clause": f"{group.lead} {phrase}",
                "thing": phrase,
                "not": self.speech.be.phrase[1] + phrase,
                "clause_not": self.speech.be.sentence[1] + phrase,
            }
        elif group.lead in (be, f"{be} {self.speech.more}"):
            slots = self._is(group.item.format(word), garment)
        else:
            slots = self._other(group.lead.removeprefix(f"{be} "), group.item.format(word))
            if group.family == "fabric":
                slots["what"] = word
        return slots | ({"colour": word} if group.family == "colour" else {})

    def other_slots(self, word: OtherWord, garment: str | None) -> dict[str, str]:
        """Slots of a word that is no label."""
        if word.form == "is":
            return self._is(word.text, garment)
        if word.form == "has":
            return self._has(word.text)
        return {"thing": word.text} if word.form == "a" else self._other(self._given["for"], word.text)

    def garment_slots(self, garment: str | None, group: PhraseGroup | None) -> dict[str, str]:
        """Slots of a garment; none without one, and for one whose gender is not known."""
        if garment is None or group is None or group.family != "garment":
            return {}
        if self._declines:
            if garment not in self._given["nouns"]:
                return {}
            gender, plural = self._given["nouns"][garment]
            return {"noun": garment, "nouns": plural, "einen": self._given["articles"][gender]}
        if "pair of" in group.lead:
            return {"noun": f"pair of {garment}", "nouns": garment}
        return {
            "noun": garment,
            "nouns": garment + ("es" if garment.endswith(("s", "sh", "ch", "x")) else "s"),
        }

    def say(self, templates: Sequence[str], slots: Slots, rng: random.Random) -> tuple[list[str], bool]:
        """A random one of the phrasings whose slots are there: its turns, and whether it names the garment.

        Raises NotPossible if there is none.
        """
        fitting = [template for template in templates if slots_of(template) <= slots.keys()]
        if not fitting:
            raise NotPossible
        template = rng.choice(fitting)
        texts = [self.finished(text.format_map(slots)) for text in template.split(NEXT_TURN)]
        return texts, bool(slots_of(template) & {"noun", "nouns"})

    def price(self, minor: int, currency: str, rng: random.Random) -> str:
        """Price in words; `minor` is a whole number of the major unit."""
        forms = self._given["currencies"].get(currency, [self._given["other_currency"]])
        return rng.choice(forms).format(minor // 100, code=currency)

    def finished(self, text: str) -> str:
        """Text whose indefinite articles fit the next word."""
        return text if self._declines else re.sub(r"\ba (?=[aeiou])", "an ", text)

    @property
    def _declines(self) -> bool:
        return "nouns" in self._given

    def bare(self, phrase: str) -> str:
        """Phrase without its indefinite article."""
        return self._article.sub("", phrase)

    def _is(self, phrase: str, garment: str | None) -> dict[str, str]:
        slots = {
            "bare": phrase,
            "what": phrase,
            "adj": phrase,
            "clause": f"{self.speech.be.verb} {phrase}",
            "not": self.speech.be.phrase[1] + phrase,
            "clause_not": self.speech.be.sentence[1] + phrase,
        }
        if len(phrase.split()) > LONGEST_ATTRIBUTE:
            return slots
        if not self._declines:
            return slots | {"attr": phrase}
        endings = self._given["endings"]
        if phrase in self._given["indeclinable"]:
            endings = dict.fromkeys(endings, "")
        slots |= {"attrs": phrase + endings["plural"], "strong": phrase + endings["strong"]}
        gender = self._given["nouns"].get(garment, [None])[0]
        return slots | ({"attr": phrase + endings[gender]} if gender else {})

    def _has(self, phrase: str) -> dict[str, str]:
        have, bare = self.speech.have, self.bare(phrase)
        denied = have.sentence[1] + bare
        return {
            "bare": bare,
            "what": phrase,
            "item": phrase,
            "bare_item": bare,
            "with": have.phrase[0] + phrase,
            "without": have.phrase[1] + phrase,
            "clause": f"{have.verb} {phrase}",
            "not": denied.split(" ", 1)[1],
            "clause_not": denied,
        }

    def _other(self, lead: str, phrase: str) -> dict[str, str]:
        be, said = self.speech.be, f"{lead} {phrase}"
        return {
            "bare": self.bare(phrase),
            "with": said,
            "clause": f"{be.verb} {said}",
            "not": be.phrase[1] + said,
            "clause_not": be.sentence[1] + said,
        }


@cache
def slots_of(template: str) -> frozenset[str]:
    """Slots of a phrasing."""
    return frozenset(name for _, name, _, _ in Formatter().parse(template) if name)


def numbered(slots: Slots, number: int) -> dict[str, str]:
    """Slots of the label with this number, from 1, of a phrasing with several labels."""
    return {f"{name}{number}" if number > 1 else name: text for name, text in slots.items()}
