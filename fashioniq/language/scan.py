"""Units of a text: words and phrases with what they stand for, after correction of the spelling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from fashioniq.language.lexicon import Lexicon
from fashioniq.language.terms import COLOR, FREE, GARMENT, NAME, Term
from fashioniq.language.tokens import Token, phrase_key, tokens_of

LONGEST = 6  # words in a phrase
_NEAR = 3  # words between people and what tells that a product is for them
_NONE: frozenset[str] = frozenset()
_MARKS = frozenset('.,;:!?()[]|"“”„–—…\n\r-')


class Unit(NamedTuple):
    """A word or phrase; `first` and `last` are its tokens."""

    tokens: tuple[Token, ...]
    roles: frozenset[str] = _NONE
    term: Term | None = None
    step: tuple[str, int] | None = None
    noun: str = ""  # family that the word stands for, such as "colour" for "shade"
    mark: str = ""  # punctuation
    scaled: tuple[str, int] | None = None  # scale of an adjective, and whether it is in the upper half

    @property
    def key(self) -> str:
        """Folded words without spaces."""
        return "".join(token.key for token in self.tokens)

    @property
    def start(self) -> int:
        """Place of the first letter."""
        return self.tokens[0].start

    @property
    def end(self) -> int:
        """Place after the last letter."""
        return self.tokens[-1].end

    @property
    def written(self) -> str:
        """The words after correction."""
        return " ".join(token.said or token.text for token in self.tokens)

    @property
    def says(self) -> bool:
        """Whether it says something about a product."""
        return bool(self.term or self.step or self.noun or self.scaled)

    @property
    def unknown(self) -> bool:
        """Whether nothing is known about the word, and it is a word."""
        return not (self.roles or self.says or self.mark) and not self.key.isdigit()


class Scanner:
    """Finds the units of a text with the words of a lexicon."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.rules = lexicon.grammar
        self._known = lru_cache(maxsize=50_000)(self._found)

    def units(self, tokens: Sequence[Token]) -> list[Unit]:
        """Units of these tokens; unknown words are corrected first."""
        units = self.matched(tokens)
        doubtful = [
            unit
            for unit in units
            if unit.unknown or (unit.term is not None and (not unit.term.labels or self._compound(unit)))
        ]
        if doubtful:
            meant = {unit.tokens[0]: words for unit in doubtful if (words := self._meant(unit)) is not None}
            if meant:
                units = self.matched(
                    [new for token in tokens for new in _replaced(token, meant.get(token, ()))]
                )
        return self._names(self._persons(self._shades(self._heads(units))))

    def _meant(self, unit: Unit) -> tuple[str, ...] | None:
        key = unit.tokens[0].key
        if unit.unknown:
            return self.lexicon.corrections.guess(key)
        if self._compound(unit):
            return self.lexicon.corrections.parts(key)
        return self.lexicon.corrections.slip(key)

    def _compound(self, unit: Unit) -> bool:
        """Whether a unit is a garment in one word, such as "Maxikleid", that may be split."""
        one = len(unit.tokens) == 1 and unit.term is not None and unit.term.family == GARMENT
        return one and bool(self.rules.links)

    def matched(self, tokens: Sequence[Token]) -> list[Unit]:
        """Units of these tokens as they are written."""
        units: list[Unit] = []
        keys = tuple(token.key for token in tokens)
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.text in _MARKS and token.key not in self.rules.roles:
                units.append(Unit((token,), mark=token.text))
                at += 1
                continue
            for size in range(_longest(tokens, at), 0, -1):
                found = self._known(keys[at : at + size])
                if size == 1:
                    part = (token,)
                    units.append(found._replace(tokens=part) if found else self._suffixed(part) or Unit(part))
                    at += 1
                elif found and self._joined(found, tokens, at, at + size):
                    units.append(found._replace(tokens=tuple(tokens[at : at + size])))
                    at += size
                    break
        return units

    def _joined(self, found: Unit, tokens: Sequence[Token], at: int, end: int) -> bool:
        """Whether tokens, which have been found as a phrase, are one: not with half of a hyphenated word."""
        if end < len(tokens) and tokens[end].glued and not tokens[end - 1].glued:
            return False
        if not found.roles and all(token.apart for token in tokens[at:end]):
            return False  # what was split stays so
        # "more light blue" is no lighter color, but more of a light blue
        return not (found.step and self._shades_next(tokens, end))

    def _shades_next(self, tokens: Sequence[Token], at: int) -> bool:
        """Whether the word before a place is a shade of the color there, such as light of blue."""
        shade = "shade" in self.rules.roles.get(tokens[at - 1].key, _NONE)
        return shade and at < len(tokens) and self.lexicon.is_color(tokens[at].key)

    def _found(self, keys: tuple[str, ...]) -> Unit | None:
        """What folded words stand for, a unit without tokens."""
        rules, phrase = self.rules, " ".join(keys)
        roles, step, noun = (
            rules.roles.get(phrase, _NONE),
            rules.steps.get(phrase),
            rules.nouns.get(phrase, ""),
        )
        scaled = rules.adjectives.get(phrase)
        if roles or step or noun:
            term = self._collective(phrase)
            if term is None and (step or ("shade" in roles and not scaled)):
                term = self.lexicon.find(("".join(keys),), True)
            return Unit(
                (), roles, term if term is not None and term.labels else None, step, noun, scaled=scaled
            )
        term = self.lexicon.find(keys)
        if term is None or not term.labels:
            term = self._collective(phrase) or term
        if term is not None or scaled:
            return Unit((), term=term, scaled=scaled)
        if len(keys) > 1 and self.lexicon.is_color("".join(keys)):
            color = self.lexicon.color_of(keys)
            return Unit((), term=color) if color is not None else None
        return None

    def _collective(self, phrase: str) -> Term | None:
        """Any label of a family but some, such as "patterned"."""
        if phrase not in self.rules.collective:
            return None
        direct = self.lexicon.find(tuple(phrase.split()), True)
        if direct is not None and direct.labels:
            return direct
        family, but = self.rules.collective[phrase]
        labels = frozenset(label for label in self.lexicon.of_family(family) if phrase_key(label) not in but)
        return Term(labels, family) if labels else None

    def _suffixed(self, part: tuple[Token, ...]) -> Unit | None:
        """Read "beltless" as a denied "belt", and "rosecolored" as "rose"."""
        key = part[0].key
        for suffix in (*self.rules.without, *self.rules.coloured):
            base = key.removesuffix(suffix)
            if base != key and len(base) >= 3:
                term = self.lexicon.find((base,))
                if term is not None and term.labels:
                    roles = frozenset(["denied"]) if suffix in self.rules.without else _NONE
                    return Unit(part, roles, term)
        return None

    def _heads(self, units: list[Unit]) -> list[Unit]:
        """Units where "long" has become "long sleeves": in "long or short sleeves", "short sleeves instead of long"."""
        for at in range(len(units) - 2):
            one, joint, other = units[at : at + 3]
            if (last := self._contrasted(units, at + 1)) is not None:
                units[last] = self._with_head(units[last], one)
            elif joint.roles & {"or", "and"}:
                units[at] = self._with_head(one, other)
        return units

    def _contrasted(self, units: Sequence[Unit], at: int) -> int | None:
        """Place of a word that stands alone after "instead of" or "not", which may follow a comma or "and"."""
        before = units[max(0, at - 2) : at - 1]
        at += units[at].mark == ","
        at += at < len(units) and "and" in units[at].roles
        denied = any(unit.roles & {"no", "not"} for unit in before)  # "no long sleeves but short ones"
        contrast = {"instead", "not", "no", "than", "except", *(("but", "prefer") if denied else ())}
        if at >= len(units) or not units[at].roles & contrast:
            return None
        at += 1
        at += at < len(units) and "article" in units[at].roles
        if at >= len(units):
            return None
        following = units[at + 1] if at + 1 < len(units) else None
        alone = following is None or following.mark or (following.roles and not following.says)
        return at if alone else None

    def _with_head(self, one: Unit, other: Unit) -> Unit:
        """A word with the noun of another of the same kind, if both are labels then."""
        if len(one.tokens) == 1 and len(other.tokens) > 1 and other.term:
            if other.term.family == COLOR and "shade" not in one.roles:
                return one
            term = self.lexicon.find((one.key, *(token.key for token in other.tokens[1:])))
            alike = term is not None and term.family == other.term.family
            if term and term.labels and alike and not term.labels & other.term.labels:  # they differ
                return one._replace(term=term, roles=_NONE, step=None, noun="")
        return one

    def _shades(self, units: list[Unit]) -> list[Unit]:
        """Units where "dark" and "red" have become a dark red."""
        merged: list[Unit] = []
        for unit in units:
            if merged and "shade" in merged[-1].roles and unit.term and unit.term.family == COLOR:
                shade = merged[-1]
                color = self.lexicon.color_of([token.key for token in (*shade.tokens, *unit.tokens)])
                merged[-1] = Unit((*shade.tokens, *unit.tokens), term=color or unit.term)
            else:
                merged.append(unit)
        return merged

    def _persons(self, units: list[Unit]) -> list[Unit]:
        """Units where people are a wish, if the catalog tells them apart: "for girls", but not "oh man"."""
        persons = [self.lexicon.persons.get(unit.key) if len(unit.tokens) == 1 else None for unit in units]
        for at, term in enumerate(persons):
            if term is not None and self._is_whom(units, at) and not any(persons[at + 1 : at + 2]):
                units[at] = Unit(units[at].tokens, term=term)
        return units

    def _is_whom(self, units: Sequence[Unit], at: int) -> bool:
        """Whether people at a place are whom a product is for: after "for", beside a garment, or alone."""
        before, after = units[max(0, at - _NEAR) : at], units[at + 1 : at + 1 + _NEAR]
        if after[:1] and after[0].unknown:
            return False  # "for a girls trip"
        for unit in reversed(before):
            if unit.mark:
                break
            if unit.key in self.rules.whom:
                return True
        for unit in after:
            if unit.term is None:
                break
            if unit.term.family == GARMENT:
                return True
        last = not after or bool(after[0].mark)
        garment = bool(before) and before[-1].term is not None and before[-1].term.family == GARMENT
        return len(units) == 1 or (last and garment)

    def _names(self, units: list[Unit]) -> list[Unit]:
        """Units where words of titles that follow a name are part of it: "Calvin Klein"."""
        for at in range(1, len(units)):
            one, other = units[at - 1].term, units[at].term
            if one is not None and one.family == NAME and other == FREE and not units[at].roles:
                units[at] = units[at]._replace(term=Term(family=NAME))
        return units


def _longest(tokens: Sequence[Token], at: int) -> int:
    """Number of tokens from a place on that a phrase may have: there is no punctuation in it."""
    last = min(at + LONGEST, len(tokens))
    return next((end for end in range(at, last) if tokens[end].text in _MARKS), last) - at or 1


def _replaced(token: Token, words: Iterable[str]) -> list[Token]:
    """A token with other words in its place."""
    new = [one for word in words for one in tokens_of(word)]
    apart = len(new) > 1 and token.key.startswith(new[0].key) and token.key.endswith(new[-1].key)
    return [token._replace(key=one.key, said=one.text, apart=apart) for one in new] or [token]
