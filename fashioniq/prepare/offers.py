"""Offers in a retailer's table: prices, sizes, stock and links, as people and exports write them."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from babel import Locale
from babel.numbers import list_currencies
from price_parser import Price

from fashioniq.data.offers import (
    LONGEST_SIZE,
    LONGEST_URL,
    MAX_PRICE,
    MAX_SIZES,
    URL,
    Offer,
    decimals,
    in_order,
)
from fashioniq.data.titles import NO_VALUE
from fashioniq.data.words import composed

_SYMBOLS = {  # besides those of Babel
    "US$": "USD", "C$": "CAD", "AU$": "AUD", "zł": "PLN", "Kč": "CZK", "Ft": "HUF", "₺": "TRY", "₴": "UAH",
}  # fmt: skip
_SHARED = {  # symbols of several currencies, of which the first is meant if none is given
    "$": ("USD", "AUD", "CAD", "HKD", "MXN", "NZD", "SGD", "TWD", "ARS", "CLP", "COP"), "¥": ("JPY", "CNY"),
    "£": ("GBP", "EGP"), "Rs": ("INR", "PKR", "LKR", "NPR"), "Fr": ("CHF",), "kr": ("", "SEK", "NOK", "DKK", "ISK"),
}  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.,])[.,]\d\d?(?!\d)|\d+(?:[.,'’]\d+|[^\S\n]\d{3}(?!\d))*")
_NEGATIVE = re.compile(r"(?<!\w)[-−–]\s*[^\w\s]?\s*\d")
_EXPONENT = re.compile(r"\d+(?:\.\d+)?e[+-]?\d{1,2}", re.IGNORECASE)
_ONE_SIZE = re.compile(r"one[\s-]*size(?:\s+fits\s+all)?|einheitsgr(?:ö|oe)(?:ß|ss)e", re.IGNORECASE)
_SYSTEM = re.compile(r"\b(eu|de|uk|us|fr|it)\s+(?=\d)", re.IGNORECASE)
_SAID_SIZE = re.compile(r"(?<!\0)\b(?:sizes?|gr(?:ö|oe)(?:ß|ss)en?|gr)\b[.:]?", re.IGNORECASE)
_IN_STOCK = {
    "true", "yes", "y", "ja", "j", "wahr", "in stock", "instock", "available", "low stock", "limited availability",
    "limitedavailability", "auf lager", "am lager", "lieferbar", "sofort lieferbar", "verfügbar", "sofort verfügbar",
    "vorrätig",
}  # fmt: skip
_OUT_OF_STOCK = {
    "false", "no", "n", "nein", "falsch", "out of stock", "outofstock", "not in stock", "sold out", "soldout",
    "unavailable", "not available", "discontinued", "preorder", "pre order", "backorder", "back order", "ausverkauft",
    "vergriffen", "nicht auf lager", "nicht lieferbar", "nicht verfügbar", "derzeit nicht verfügbar", "nicht vorrätig",
}  # fmt: skip
_AROUND_COUNTS = {
    "in", "stock", "available", "left", "only", "pieces", "pcs", "items", "item", "nur", "noch", "auf", "am", "lager",
    "stück", "stk", "verfügbar", "lieferbar",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class OfferColumns:
    """Columns of a table with the parts of offers; `currency` is a column, or a code such as EUR."""

    price: str | None = None
    currency: str | None = None
    sizes: str | None = None
    stock: str | None = None
    link: str | None = None

    @property
    def offer_columns(self) -> dict[str, str | None]:
        """Column that each option names, None if it is not given, and for a currency that is a code."""
        of_currency = (
            None if self.currency is None or currency_of(self.currency) == self.currency else self.currency
        )
        return {
            "price": self.price,
            "currency": of_currency,
            "sizes": self.sizes,
            "stock": self.stock,
            "link": self.link,
        }

    @property
    def absent_of_offers(self) -> list[str]:
        """Fields of an Offer without a column."""
        fields = {
            "price_minor": self.price,
            "currency": self.price,
            "sizes": self.sizes,
            "in_stock": self.stock,
            "url": self.link,
        }
        return [field for field, column in fields.items() if not column]

    def offer_of(self, values: Mapping[str, str]) -> tuple[Offer, list[str]]:
        """Offer of a row, and why values in it could not be read; an empty value is unknown."""

        def price(text: str) -> dict[str, Any]:
            given = values.get(self.currency, self.currency) if self.currency else ""
            minor, currency = parse_price(text, "" if given.strip().lower() in NO_VALUE else given)
            return {"price_minor": minor, "currency": currency}

        parts: tuple[tuple[str, str | None, Callable[[str], dict[str, Any]]], ...] = (
            ("price", self.price, price),
            ("sizes", self.sizes, lambda text: {"sizes": parse_sizes(text)}),
            ("stock", self.stock, lambda text: {"in_stock": parse_stock(text)}),
            ("link", self.link, lambda text: {"url": parse_link(text)}),
        )
        found: dict[str, Any] = {}
        unread: list[str] = []
        for what, column, parse in parts:
            text = values.get(column or "", "")
            if text.strip().lower() not in NO_VALUE:
                try:
                    found |= parse(text)
                except ValueError as error:
                    unread.append(f"{what} not read: {error}")
        return Offer(**found), unread


def joined(offers: Sequence[Offer]) -> Offer:
    """Offer of a product with several rows, such as one for each size.

    It has the sizes and the lowest price of the rows that are not sold out, or of all if all are, and the first link.
    Prices in another currency than the first are left out.
    """
    known = [one for one in offers if one != Offer()]  # Shopify has rows with a picture alone
    there = [one for one in known if one.in_stock is not False] or known
    priced = [one for one in there if one.price_minor is not None and one.currency is not None]
    cheapest = min(
        (one for one in priced if one.currency == priced[0].currency),
        key=lambda one: one.price_minor or 0,
        default=Offer(),
    )
    stocks = {one.in_stock for one in known}
    return Offer(
        price_minor=cheapest.price_minor,
        currency=cheapest.currency,
        sizes=tuple(in_order(dict.fromkeys(size for one in there for size in one.sizes)))[:MAX_SIZES],
        in_stock=True if True in stocks else None if None in stocks or not stocks else False,
        url=next((one.url for one in known if one.url), None),
    )


def currency_of(text: str) -> str:
    """Code of a currency given by its code or by a symbol of its own; "" if there is none."""
    text = text.strip()
    if text.upper() in _codes():
        return text.upper()
    return "EUR" if text.casefold() in ("euro", "euros") else _by_symbol().get(text, "")


def parse_price(text: str, given: str = "") -> tuple[int, str]:
    """Minor units and currency of a price such as "59,90 €" or "1.299,00".

    `given` is the currency of prices that have none, and of symbols such as $ that several currencies have. Raises
    ValueError with the reason if the text is not one price.
    """
    symbol = Price.fromstring(text).currency or ("EUR" if "euro" in text.casefold() else "")
    numbers = _NUMBER.findall(text)
    if exponent := _EXPONENT.fullmatch(text.strip()):
        numbers = [exponent[0]]
    if len(numbers) != 1 or len(numbers[0]) > 30:
        raise ValueError(f"expected one number, found {_shown(text)}")
    if _NEGATIVE.search(text):
        raise ValueError(f"expected a price of at least 0, found {_shown(text)}")
    currency = _currency(symbol, given, text)
    try:
        amount = _amount(numbers[0], decimals(currency))
    except InvalidOperation:
        raise ValueError(f"expected a number, found {_shown(text)}") from None
    minor = int(amount.scaleb(decimals(currency)).to_integral_value())
    if minor > MAX_PRICE:
        raise ValueError(f"expected a price of at most {MAX_PRICE:,} minor units, found {_shown(text)}")
    return minor, currency


def parse_sizes(text: str) -> tuple[str, ...]:
    """Sizes separated by commas, slashes, pipes or spaces, in their natural order, each once.

    Raises ValueError with the reason if there is none, or too many.
    """
    if any(not letter.isprintable() and not letter.isspace() for letter in text):
        raise ValueError("expected text, found control characters")
    text = _SAID_SIZE.sub(" ", _ONE_SIZE.sub("One\0Size", composed(text)))
    text = _SYSTEM.sub(lambda system: system[1].upper() + "\0", text)
    text = re.sub(r"(?<=\d\d),5(?!\d)", ".5", text)  # half sizes of shoes
    parts = (part.strip("[](){}\"'") for part in re.split(r"[,/|;\s]+", text))
    sizes = in_order(dict.fromkeys(_written(part.replace("\0", " ")) for part in parts if part))
    if not sizes or len(sizes) > MAX_SIZES or max(map(len, sizes)) > LONGEST_SIZE:
        raise ValueError(
            f"expected 1 to {MAX_SIZES} sizes of at most {LONGEST_SIZE} characters, found {_shown(text)}"
        )
    return tuple(sizes)


def parse_stock(text: str) -> bool:
    """Whether a product is in stock: a number above 0, or words such as "in stock" and "auf lager".

    Raises ValueError with the reason for other texts.
    """
    try:
        count = Decimal(text.strip().replace(",", "."))
        if count.is_finite():
            return count > 0
    except InvalidOperation:
        pass
    words = re.findall(r"[^\W_]+", composed(text).casefold().rpartition("/")[2])  # of schema.org/InStock
    phrase = " ".join(words)
    if phrase in _IN_STOCK or phrase in _OUT_OF_STOCK:
        return phrase in _IN_STOCK
    counts = [word for word in words if word.isdecimal()]
    if len(counts) == 1 and set(words) - set(counts) <= _AROUND_COUNTS:
        return int(counts[0][:30]) > 0
    raise ValueError(f'expected a number, or words such as "in stock" and "sold out", found {_shown(text)}')


def parse_link(text: str) -> str:
    """Address of a product's page. Raises ValueError with the reason unless it is http or https."""
    scheme, colon, rest = text.strip().partition(":")
    address = scheme.lower() + colon + rest
    try:
        host = urlsplit(address).hostname
    except ValueError:  # brackets that do not enclose an IPv6 address
        host = None
    if not host or len(address) > LONGEST_URL or not re.fullmatch(URL, address) or not address.isprintable():
        raise ValueError(f"expected an http or https address, found {_shown(text)}")
    return address


def _currency(symbol: str, given: str, text: str) -> str:
    """Currency of a price with this symbol. Raises ValueError if there is none, or another one than the given."""
    expected, *_ = possible = _possible(given)
    if given.strip() and not expected:
        raise ValueError(f"expected a currency such as EUR, found {_shown(given)}")
    found = _possible(symbol)
    if expected and any(found):
        if not (both := [code for code in possible if code in found]):
            raise ValueError(f"expected a price in {expected}, found {_shown(text)}")
        return both[0]
    if not (expected or found[0]):
        raise ValueError(f"expected a price with its currency, found {_shown(text)}; give --currency")
    return expected or found[0]


def _possible(symbol: str) -> tuple[str, ...]:
    """Currencies that a code or symbol can mean, the most likely one first; "" where none is."""
    return _SHARED.get(symbol.strip(" ."), (currency_of(symbol),))


def _amount(number: str, places: int) -> Decimal:
    """Value of a number with one or both of the separators, in a currency with so many decimals."""
    number = "0" + number if number[0] in ".," else number  # as some databases write it
    if _EXPONENT.fullmatch(number):
        return Decimal(number)
    marks = re.findall(r"[.,]", number)
    separator = None
    if re.fullmatch(r"(0|\d{4,})[.,]\d+", number) or (
        places == 3 and (marks[-1:] == ["."] or len(set(marks)) == 2)
    ):
        separator = marks[-1]  # three digits after it are decimals, not thousands; these come in groups
    amount = Price.fromstring(re.sub("['’]", "", number), decimal_separator=separator).amount
    if amount is None:
        raise InvalidOperation
    return amount


def _written(size: str) -> str:
    """A size of letters in capitals."""
    return size.upper() if re.fullmatch(r"\d*x*[sml]", size, re.IGNORECASE) else size


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


@cache
def _codes() -> frozenset[str]:
    return frozenset(list_currencies())


@cache
def _by_symbol() -> dict[str, str]:
    symbols = Locale("en").currency_symbols.items()
    return {symbol: code for code, symbol in symbols if symbol not in _SHARED} | _SYMBOLS
