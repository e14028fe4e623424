"""Requests: what a text of a shopper says."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from fashioniq.language import context
from fashioniq.language.lexicon import Lexicon
from fashioniq.language.offers import OfferReader
from fashioniq.language.scan import Scanner, Unit
from fashioniq.language.scope import ScopedUnit
from fashioniq.language.sentence import Sentence
from fashioniq.language.tokens import Token, keys_of, tokens_of
from fashioniq.language.wishes import OfferLimits, ParsedRequest, Wish

_NOTHING = {"filler", "article"}  # roles of words around "other"
_FORMS = 3  # more labels than this are named by the word as written


class Reader:
    """Reads requests with the words of one catalog and language. Results are cached."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self._scanner = Scanner(lexicon)
        self.offers = OfferReader(lexicon.grammar, self._scanner.matched)
        self._cached = lru_cache(maxsize=20_000)(self._read)

    def read(self, text: str) -> ParsedRequest:
        """What a text says."""
        return self._cached(text)

    def _read(self, text: str) -> ParsedRequest:
        limits, taken, back = self.offers.read(text)
        tokens = [
            token
            for token in tokens_of(text)
            if not any(start < token.end and token.start < end for start, end in taken)
        ]
        units = self._scanner.units(tokens)
        if any(token.said for unit in units for token in unit.tokens):  # "cheeper"
            limits, taken, back = self.offers.read(_corrected(text, units))
            units = [
                unit for number, unit in enumerate(units) if not _taken(text, units[:number], unit, taken)
            ]
        sentence = Sentence(units, self.lexicon)
        items = [
            item
            for item in sentence.items
            if (item.step and (item.than or not item.denied)) or (not item.step and item.unit.term)
        ]
        wishes = self._wishes(text, items)
        garments = {token for item in items for token in item.unit.tokens}  # if nothing else is wanted
        wanted = (limits != OfferLimits(), taken, back, sentence.taken_back, sentence.unlike)
        nothing = not any(wanted) and all(context.common(item.unit, self.lexicon) for item in items)
        return ParsedRequest(
            text,
            wishes,
            limits,
            taken_back=frozenset(sentence.taken_back | back),
            unlike=frozenset(sentence.unlike),
            known=tuple(item.unit.written for item in items),
            unknown=tuple(unit.written for unit in units if unit.unknown and not _said(unit, items)),
            changed=tuple(dict.fromkeys(self._changed(units, items))),
            asserted=" ".join(dict.fromkeys(word for item in items for word in self._asserted(item))),
            corrected=_corrected(text, units),
            like_shown=sentence.like_shown,
            others=nothing and self._asks_for_others([token for token in tokens if token not in garments]),
            place=self._place(tokens),
        )

    def _asks_for_others(self, tokens: Sequence[Token]) -> bool:
        """Whether a text asks for other products than those that are shown, and for nothing else."""
        grammar, words = self.lexicon.grammar, [token.key for token in tokens if token.key.isalnum()]
        said = [at for at, key in enumerate(words) if not _NOTHING & set(grammar.roles.get(key, ()))]
        first, last = (said[0], said[-1] + 1) if said else (len(words), 0)
        return any(
            "".join(words[start:end]) in grammar.others
            for start in range(min(first, len(words) - 1) + 1)
            for end in range(max(last, start + 1), len(words) + 1)
        )

    def _place(self, tokens: Sequence[Token]) -> int | None:
        """Place of the product that is named by it: an ordinal after "the", "than" or "like", and before no other noun
        than that of a garment, or a garment's at the beginning.
        """
        grammar = self.lexicon.grammar
        ordinals, before, nouns, other, printed = grammar.places
        refused = None  # "not the first one, the second one"
        for number, token in enumerate(tokens):
            after, last = ([one.key for one in tokens[number + 1 : number + 3]] + ["", ""])[:2]
            earlier = [one.key for one in tokens[max(0, number - 2) : number]]
            if (place := ordinals.get(f"{token.key} {after}")) is not None:
                named = printed.isdisjoint(earlier) and last not in other
            elif (place := ordinals.get(token.key)) is not None and before.issuperset(earlier[-1:]):
                roles = grammar.roles.get(after, frozenset()) if after not in other else frozenset()
                of_other = "kind" in roles and last in other  # "the second of May"
                named = after in nouns or bool(number and not of_other and (roles or not after.isalnum()))
            else:
                continue
            if named and not any("not" in grammar.roles.get(key, ()) for key in earlier):
                return place
            refused = place if named and refused is None else refused
        return refused

    def _wishes(self, text: str, items: Sequence[ScopedUnit]) -> tuple[Wish, ...]:
        wishes: list[Wish] = []
        pending: list[Wish] = []  # alternatives of a list that may end with "or"
        previous: ScopedUnit | None = None
        apart = False  # whether a garment is between: "a red dress or a black one"
        for item in items:
            if item.step and not item.than and item.joint == "or" and previous and not previous.denied:
                item = item._replace(than=previous.unit)  # "knee length or longer"
            wish = self._wish(text, item)
            if wish is None:
                apart = True
                continue
            joined = previous is not None and item.joint in (("or",) if apart else ("or", ","))
            if joined and _listed(wishes[-1], wish, alike=apart or item.joint == ","):
                pending = pending or [wishes[-1]]
                pending.append(wish)
                if item.joint == "or":
                    del wishes[len(wishes) - len(pending) + 1 :]
                    wish = _united(text, pending)
                    pending = [wish]
            else:
                pending = []
            wishes.append(wish)
            previous, apart = item, False
        return tuple(wishes)

    def _wish(self, text: str, item: ScopedUnit) -> Wish | None:
        unit = item.unit
        place = (unit.start, unit.end)
        said = text[slice(*place)]
        if item.step:
            family, direction = item.step
            labels = self._beyond(item) if item.than else frozenset[str]()
            against = self._reached(item) if item.softly and not labels else frozenset[str]()
            step = 0 if labels else direction
            return Wish(labels, said, place, family, step=step, against=against, interpreted=not labels)
        assert unit.term is not None
        if unit.term.labels and unit.term.labels <= self.lexicon.common:
            return None
        named = not unit.term.labels or any(self._names(unit, label) for label in unit.term.labels)
        written = unit.term.instead or unit.written
        corrected = "" if unit.term.labels or written == said else written
        return Wish(
            unit.term.labels,
            said,
            place,
            unit.term.family,
            item.denied,
            interpreted=not named or item.softly,
            corrected=corrected,
        )

    def _beyond(self, item: ScopedUnit) -> frozenset[str]:
        """Labels above or below the one that a step compares with: "longer than knee length"."""
        assert item.step is not None and item.than is not None
        if item.than.term is None:
            return frozenset()
        levels = self.lexicon.levels(item.step[0])
        at = [number for number, level in enumerate(levels) if level & item.than.term.labels]
        if not at:
            return frozenset()
        kept = int(item.denied)  # "not shorter than midi" keeps midi
        return frozenset[str]().union(
            *(levels[max(at) + 1 - kept :] if item.step[1] > 0 else levels[: min(at) + kept])
        )

    def _reached(self, item: ScopedUnit) -> frozenset[str]:
        """Labels as short as a word that is denied, or shorter; half of the scale if the word has no level."""
        assert item.step is not None
        family, direction = item.step
        levels, term = self.lexicon.levels(family), item.unit.term
        at = [number for number, level in enumerate(levels) if term and level & term.labels]
        if not at:
            reached = self.lexicon.half(family, -direction)
        else:
            reached = frozenset().union(*(levels[: max(at) + 1] if direction > 0 else levels[min(at) :]))
        return reached | self.lexicon.lowest(family) if direction > 0 else reached

    def _asserted(self, item: ScopedUnit) -> Iterable[str]:
        """Words for lexical search: the label, and the words as written if titles may have them."""
        term = item.unit.term
        if item.denied or item.step or term is None:
            return
        if not term.labels or term.instead or term.labels <= self.lexicon.common:
            yield item.unit.written.lower()
        if term.instead:
            yield term.instead
        elif len(term.labels) <= _FORMS:
            yield from sorted(term.labels)
        elif term.labels:
            yield item.unit.written.lower()

    def _changed(self, units: Iterable[Unit], items: Iterable[ScopedUnit]) -> Iterable[tuple[str, str]]:
        for unit in units:
            said: dict[Token, list[str]] = {}  # of the words of a corrected one
            for token in unit.tokens:
                if token.said and not token.apart:
                    said.setdefault(token._replace(key="", said=""), []).append(token.said)
            for token, words in said.items():
                yield token.text, " ".join(words)
        for item in items:
            term = item.unit.term
            if term is not None and term.instead and not item.step and not self._form(item.unit):
                yield item.unit.written, term.instead

    def _form(self, unit: Unit) -> bool:
        """Whether a word is a form of the label it stands for."""
        assert unit.term is not None
        return self._stems(keys_of(unit.term.instead)) == self._stems(token.key for token in unit.tokens)

    def _names(self, unit: Unit, label: str) -> bool:
        """Whether a unit has the words of a label, or only words of it, as navy of navy blue; in any form."""
        said, named = set(self._stems(token.key for token in unit.tokens)), set(self._stems(keys_of(label)))
        return named <= said or said <= named

    def _stems(self, keys: Iterable[str]) -> list[str]:
        return [self.lexicon.stem(key) for key in keys]


def _said(unit: Unit, items: Iterable[ScopedUnit]) -> bool:
    return any(item.unit.start == unit.start for item in items)


def _listed(one: Wish, other: Wish, alike: bool) -> bool:
    """Whether two wishes can be alternatives: labels that are wanted, of the same family if they must be `alike`."""
    wanted = not (one.denied or other.denied or one.step or other.step) and one.labels and other.labels
    return bool(wanted) and (not alike or one.family == other.family)


def _united(text: str, wishes: Sequence[Wish]) -> Wish:
    """One wish for any label of several."""
    place = (min(wish.place[0] for wish in wishes), max(wish.place[1] for wish in wishes))
    families = {wish.family for wish in wishes}
    return Wish(
        frozenset().union(*(wish.labels for wish in wishes)),
        text[slice(*place)],
        place,
        families.pop() if len(families) == 1 else "",
        interpreted=all(wish.interpreted for wish in wishes),
    )


def _taken(text: str, before: Sequence[Unit], unit: Unit, taken: Iterable[tuple[int, int]]) -> bool:
    """Whether a unit lies within places of the corrected text."""
    place = len(_corrected(text[: unit.start], before))
    return any(start <= place < end for start, end in taken)


def _corrected(text: str, units: Iterable[Unit]) -> str:
    """The text with corrected words."""
    parts, last = [], 0
    for unit in units:
        for token in unit.tokens:
            if token.said:
                parts.append(text[last : token.start] if token.start >= last else " ")
                parts.append(token.said)
                last = max(last, token.end)
    return "".join([*parts, text[last:]])
