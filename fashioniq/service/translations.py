"""Languages of the page: translated texts from locale/*.po, and numbers and prices as a shopper writes them."""

import gettext
import io
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files

from babel import Locale, UnknownLocaleError
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_currency, format_decimal

from fashioniq.data.offers import decimals

SOURCE = "en"  # language of the texts in the code and the templates
MOST = 10  # languages of a browser that are looked at
_FOLDER = files("fashioniq.service").joinpath("locale")
LANGUAGES = (
    SOURCE,
    *sorted(file.name.removesuffix(".po") for file in _FOLDER.iterdir() if file.name.endswith(".po")),
)
_CATEGORIES = {  # names of known categories
    "dresses": "dresses",
    "kleider": "dresses",
    "shirts": "shirts",
    "hemden": "shirts",
    "tops": "tops",
}


_THINGS: dict[str, Callable[[gettext.NullTranslations, int], str]] = {
    "dresses": lambda texts, count: texts.ngettext("dress", "dresses", count),
    "shirts": lambda texts, count: texts.ngettext("shirt", "shirts", count),
    "tops": lambda texts, count: texts.ngettext("top", "tops", count),
}
_OF_THINGS: dict[str, Callable[[gettext.NullTranslations], str]] = {
    "dresses": lambda texts: texts.pgettext("after of", "dresses"),
    "shirts": lambda texts: texts.pgettext("after of", "shirts"),
    "tops": lambda texts: texts.pgettext("after of", "tops"),
}


def N_(text: str) -> str:
    """Mark a text that is translated where it is shown."""
    return text


@dataclass(frozen=True)
class Interface:
    """Language and region of a page."""

    locale: Locale

    @property
    def tag(self) -> str:
        """Language tag, such as de-AT."""
        return str(self.locale).replace("_", "-")

    @property
    def texts(self) -> gettext.NullTranslations:
        """The translated texts."""
        return texts_of(self.locale.language)

    def number(self, value: int) -> str:
        """A number with separators of thousands."""
        return format_decimal(value, locale=self.locale)

    def price(self, minor: int, currency: str) -> str:
        """A price such as €59.90, from minor units."""
        shown = format_currency(Decimal(minor).scaleb(-decimals(currency)), currency, locale=self.locale)
        return re.sub(r"(?<=[A-Z])(?=\d)", "\u00a0", shown)  # of a currency without a symbol, such as KWD

    def amount(self, minor: int | None, currency: str) -> str:
        """A price as a shopper types it, such as 1299,90 in German; no text for None."""
        if minor is None:
            return ""
        digits = decimals(currency)
        shape = f"0.{'0' * digits}" if digits else "0"
        return format_decimal(Decimal(minor).scaleb(-digits), shape, locale=self.locale)

    def things(self, category: str, count: int) -> str:
        """What `count` products of a category are called; other categories by their name."""
        if category in _CATEGORIES:
            return _THINGS[_CATEGORIES[category]](self.texts, count)
        return category.capitalize() if self.locale.language == "de" else category

    def of_things(self, category: str) -> str:
        """Products of a category, after "of"."""
        if category in _CATEGORIES:
            return _OF_THINGS[_CATEGORIES[category]](self.texts)
        return self.things(category, 2)

    def thing(self, category: str) -> str:
        """What one product is called in a sentence, such as "this dress"; all are neuter in German."""
        return self.things(category, 1) if category in _CATEGORIES else self.texts.gettext("product")


def interface(accepted: str, own: str) -> Interface:
    """The interface for a header Accept-Language, in the language `own` if none of its languages is translated."""
    for tag in _by_preference(accepted):
        with suppress(ValueError, UnknownLocaleError):
            locale = Locale.parse(tag, sep="-")
            if locale.language in LANGUAGES:
                return Interface(locale)
    return Interface(Locale(own if own in LANGUAGES else SOURCE))


def _by_preference(accepted: str) -> Iterable[str]:
    pattern = r"\s*([A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8})*)\s*(?:;\s*q=([01](?:\.\d{1,3})?)\s*)?"
    parts = [re.fullmatch(pattern, part) for part in accepted.split(",")[:MOST]]
    weighed = [(float(found[2] or 1), found[1]) for found in parts if found]
    return [tag for weight, tag in sorted(weighed, key=lambda one: -one[0]) if weight > 0]


@cache
def texts_of(language: str) -> gettext.NullTranslations:
    """The texts of locale/LANGUAGE.po."""
    if language == SOURCE:
        return gettext.NullTranslations()
    compiled = io.BytesIO()
    write_mo(compiled, read_po(io.BytesIO(_FOLDER.joinpath(f"{language}.po").read_bytes()), language))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)
