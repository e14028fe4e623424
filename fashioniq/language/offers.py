"""Limits of price, size and stock in a text."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from price_parser import Price

from fashioniq.language.grammar import Grammar, split
from fashioniq.language.scan import Unit
from fashioniq.language.terms import GARMENT
from fashioniq.language.tokens import Token, folded, tokens_of
from fashioniq.language.wishes import PRICE, SIZE, STOCK, OfferLimits

_AMOUNT = r"\d{1,7}(?:[.,'\s]\d{3}(?!\d))*(?:[.,]\d{1,2})?(?:[.,]-)?(?![\d/])"
_ABOUT = 0.2  # what "about 50" allows above and below
_WRITTEN = str.maketrans({"'": "['’]?", "ä": "(?:ä|ae)", "ö": "(?:ö|oe)", "ü": "(?:ü|ue)", "ß": "(?:ß|ss)"})
_NEAR = 2  # words between which a size or "cheaper" and what denies it lie: "not in size M"
_QUESTION = re.compile(r"[^.!;,?]*\?")  # rest of a question
_WORD = re.compile(r"[^\W_]+")
Span = tuple[int, int]


class OfferReader:
    """Finds prices, sizes and stock with the phrases of a language, and what denies them with the units of a text."""

    def __init__(self, rules: Grammar, units: Callable[[Sequence[Token]], Sequence[Unit]]) -> None:
        given: Mapping[str, Any] = rules.offers
        currencies = {
            word.lower(): code for code, words in given["currencies"].items() for word in split(words)
        }
        self._currency_of, self._units = currencies, units
        money = rf"(?:{_any(currencies, bounded=False)})(?![^\W\d_])"
        before, after = rf"(?:(?P<money%s>{money})\s*)?", rf"(?:\s*(?P<currency%s>{money}))?"
        said = {word: int(number) for number, words in given["numbers"].items() for word in split(words)}
        self._numbers, self._number = {folded(word): said[word] for word in said}, _compile(_any(said))
        below = [_any(word for word in said if least <= said[word] < 10 * least) for least in (1, 10, 100)]
        ones, tens, hundreds = below  # ones alone are no prices: "at least one"
        number = rf"{tens}(?:[\s\-]+{ones})?"
        # atomic: "a hundred and fifty" is no range
        number = rf"(?:{_AMOUNT}|(?>{hundreds}(?:[\s\-]+(?:and\s+)?{number})?|{number}))"
        self._amount = _compile(number)
        self._aged = _compile(rf"{_any(word for words in rules.persons for word in words)}\s*$")
        amount = rf"{before}(?P<amount%s>{number}){after}"

        def bound(name: str) -> str:
            return amount % (name, name, name)

        counted = rf"(?!\s*-?\s*(?:{_any(split(given['units']))}))"
        self._range = _compile(
            rf"(?:(?P<word>{_any(split(given['between']))})\s*)?{bound('1')}"
            rf"\s*(?:{_any(split(given['to']), bounded=False)})\s*{bound('2')}{counted}"
        )
        about = _any(split(given["about"]))
        self._price = _compile(
            rf"(?:(?:(?P<most>{_any(split(given['most']))})|(?P<least>{_any(split(given['least']))})"
            rf"|(?P<about>{about}))\s*:?\s*(?:(?P<roughly>{about})\s*)?)?{bound('')}{counted}"
            rf"(?:\s*(?:(?P<most_after>{_any(split(given['most_after']))})|(?P<least_after>{_any(split(given['least_after']))})))?"
        )
        self._minding = {folded(word) for word in split(given["minding"])}
        self._weak = {folded(word) for name in ("weak_most", "weak_least") for word in split(given[name])}
        cheaper, dearer = (split(given[name]) for name in ("cheaper", "dearer"))
        self._dear, self._level = _compile(_any(dearer)), _compile(_any((*cheaper, *dearer)))
        names = {_plain(word): size for size, words in given["sizes"].items() for word in split(words)}
        self._sizes = names
        size = rf"(?:{_any(names)}|\d{{1,3}}(?:[.,]5)?(?:/\d\d)?(?![\w%]|[.,]\d|\s*{money}))"
        sizes = rf"(?P<sizes>{size}(?:\s*(?:{_any(split(given['or']), bounded=False)})\s*{size})*)"
        end = rf"(?=\s*(?:$|[.,;:!?)]|(?:{_any(split(given['size_end']))})))"
        self._size = _compile(rf"(?:{_any(split(given['size']))})\s*:?\s*{sizes}")
        self._size_in = _compile(rf"(?:{_any(split(given['size_in']))})\s+{sizes}{end}")
        self._size_one = re.compile(
            r"(?<![\w'’-])(?P<sizes>(?i:X{1,4}[SL]|[2-5]XL))(?![\w'’-])"
            r"|(?:^|(?<=[,;]))\s*(?P<letter>[SML])\s*(?=$|[,;.])"  # alone, in capitals
        )
        self._stock = _compile(_any(split(given["stock"])))
        self._back = {
            what: _compile(_any(split(given[name])))
            for what, name in ((PRICE, "any_price"), (SIZE, "any_size"), (STOCK, "any_stock"))
        }
        # of each phrase the longest word but those with apostrophes, which may be left out
        phrases = [*names, *(word for word in said if said[word] >= 10)]
        for name in ("any_price", "any_size", "any_stock", "stock", "cheaper", "dearer"):
            phrases += split(given[name])
        words = [
            [one for part in phrase.split() if "'" not in part for one in _WORD.findall(part)]
            for phrase in phrases
        ]
        self._telling = {folded(max(some, key=len)) for some in words}
        self._telling |= {"x" * count + letter for count in range(5) for letter in "sml"}

    def read(self, text: str) -> tuple[OfferLimits, list[Span], set[str]]:
        """Limits, their places in the text, and which kinds of limits no longer matter."""
        if (
            text.isascii()
            and self._telling.isdisjoint(_WORD.findall(text.lower()))
            and not any(map(str.isdigit, text))
        ):
            return OfferLimits(), [], set()  # as most texts, which this makes fast
        spans: list[Span] = []
        back = set()
        for what, pattern in self._back.items():
            if self._take(pattern, text, spans):
                back.add(what)
        limits = OfferLimits(in_stock=bool(self._take(self._stock, text, spans)))
        limits = self._read_price(self._read_sizes(limits, text, spans), text, spans)
        levels = self._take(self._level, text, spans)  # "not so cheap" is not "cheap"
        if levels := [match for match in levels if not self._is_denied(match, spans, _NEAR)]:
            dearer = all(self._dear.fullmatch(match[0]) for match in levels)
            limits = limits._replace(cheaper=1 if dearer else -1)
        return limits, spans, back

    def _take(self, pattern: re.Pattern[str], text: str, spans: list[Span]) -> list[re.Match[str]]:
        """Matches that do not overlap with places already taken; their places are taken now."""
        found = []
        for match in pattern.finditer(text):
            span = match.span()
            if span[0] < span[1] and not any(a < span[1] and span[0] < b for a, b in spans):
                found.append(match)
                spans.append(span)
        return found

    def _read_price(self, limits: OfferLimits, text: str, spans: list[Span]) -> OfferLimits:
        if not self._amount.search(text):
            return limits
        for match in self._range.finditer(text):
            currency = self._currency(match, "1") or self._currency(match, "2")
            amounts = self._minor(match["amount1"]), self._minor(match["amount2"])
            if (
                (currency is not None or match["word"])
                and None not in amounts
                and not _overlaps(match.span(), spans)
            ):
                spans.append(match.span())
                low, high = sorted(one for one in amounts if one is not None)
                return limits._replace(least_minor=low, most_minor=high, currency=currency or None)
        for match in self._price.finditer(text):
            limits = self._bounded(match, limits, spans)
        return limits

    def _bounded(self, match: re.Match[str], limits: OfferLimits, spans: list[Span]) -> OfferLimits:
        currency = self._currency(match, "")
        minor = self._minor(match["amount"])
        words = {
            name: folded(match[name])
            for name in ("most", "least", "about", "most_after", "least_after")
            if match[name]
        }
        if match["roughly"] and words.get("most") in self._weak:
            words = {"about": folded(match["roughly"])}  # "for about 60 dollars"
        if minor is None or _overlaps(match.span(), spans):
            return limits
        if currency is None and not (set(words.values()) - self._weak):
            return limits
        if currency is None and "least" in words and self._aged.search(match.string[: match.start()]):
            return limits  # "for women over 50"
        spans.append(match.span())
        limits = limits._replace(currency=currency or limits.currency)
        if words.keys() & {"least_after"} or (words.keys() & {"least"} and "most_after" not in words):
            if "least" in words and self._is_denied(match, spans):
                return limits._replace(most_minor=minor)
            return limits._replace(least_minor=minor)
        if "about" in words:
            return limits._replace(
                least_minor=round(minor * (1 - _ABOUT)), most_minor=round(minor * (1 + _ABOUT))
            )
        return limits._replace(most_minor=minor)

    def _is_denied(self, match: re.Match[str], spans: list[Span], near: int | None = None) -> bool:
        """Whether one of the `near` units before a match denies it: "no red dresses over 50". It is taken, too."""
        if near is not None and _QUESTION.match(match.string, match.end()):
            return False  # "isn't it there in size M?"
        named = False
        for unit in self._units(tokens_of(match.string[: match.start()]))[::-1][:near]:
            if unit.roles & {"not", "no"}:
                if "answer" in unit.roles and not (named and "list" in unit.roles):
                    return False  # "no at least 50", "nein Kleider über 50"
                spans.append((unit.start, unit.end))
                return True
            named = named or bool(unit.noun or (unit.term and unit.term.family == GARMENT))
            known = bool(unit.roles) or (named and not unit.mark)
            if not known or unit.roles & {"and", "but"} or unit.key in self._minding:
                return False  # "no problem if it is over 50", "no lace over 50"
        return False

    def _currency(self, match: re.Match[str], number: str) -> str | None:
        said = match[f"money{number}"] or match[f"currency{number}"]
        return self._currency_of.get(said.lower()) if said else None

    def _minor(self, amount: str) -> int | None:
        """Amount in minor units with two decimals."""
        if words := self._number.findall(amount):
            return sum(self._numbers[" ".join(_WORD.findall(folded(word)))] for word in words) * 100
        parsed = Price.fromstring(amount.strip().removesuffix("-").rstrip(".,")).amount
        return round(parsed * 100) if parsed is not None else None

    def _read_sizes(self, limits: OfferLimits, text: str, spans: list[Span]) -> OfferLimits:
        found: list[str] = []
        for pattern in (self._size, self._size_in, self._size_one):
            for match in self._take(pattern, text, spans):
                said = match["sizes"] or match["letter"]
                found += [] if self._is_denied(match, spans, _NEAR) else self._named(said)
        return limits._replace(sizes=tuple(dict.fromkeys(found)))

    def _named(self, sizes: str) -> list[str]:
        size = rf"{_any(self._sizes)}|\d{{1,3}}(?:[.,]5)?(?:/\d\d)?"
        return [self.size_name(one) for one in re.findall(size, sizes, re.IGNORECASE)]

    def size_name(self, size: str) -> str:
        """Name of a size: medium is M, 2XL is XXL, numbers stay as they are."""
        return self._sizes.get(_plain(size), size.strip().upper())


def _overlaps(span: Span, spans: Iterable[Span]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in spans)


def _plain(phrase: str) -> str:
    return " ".join(phrase.lower().replace("’", "").replace("'", "").split())


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _any(phrases: Iterable[str], bounded: bool = True) -> str:
    """Pattern for any of some phrases, the longest first; apostrophes may be left out or written in, and umlauts be
    written with e."""
    written = sorted(phrases, key=len, reverse=True)
    parts = [
        r"[\s\-]+".join(re.escape(word).translate(_WRITTEN) for word in phrase.split()) for phrase in written
    ]
    parts = [
        (r"(?<![^\W_])" if bounded and part[0].isalnum() else "")
        + part
        + (r"(?![^\W_])" if bounded and part[-1].isalnum() else "")
        for part in parts
    ]
    return "(?:" + "|".join(parts) + ")"
