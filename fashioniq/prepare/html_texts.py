"""Plain text of titles and descriptions that a shop exports as HTML."""

import re
from html import unescape
from html.entities import html5

_INLINE = re.compile(
    "a|abbr|acronym|b|bdi|bdo|big|center|cite|code|del|dfn|em|font|i|ins|kbd|label|"
    "mark|q|s|samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
_BLOCKS = re.compile(
    "article|aside|blockquote|body|br|button|caption|col|colgroup|dd|div|dl|dt|figcaption|"
    "figure|footer|form|h1|h2|h3|h4|h5|h6|head|header|hr|html|iframe|img|input|li|link|"
    "main|meta|nav|object|ol|p|picture|pre|script|section|source|style|table|tbody|td|"
    "tfoot|th|thead|title|tr|ul|video"
)
_ENTITY = re.compile(r"&(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{0,40});")
_NOT_SHOWN = re.compile(r"<!--[^<>]*-->|<(script|style)\b[^<>]*>[^<]*</\1\s*>", re.IGNORECASE)
_TAG = re.compile(r"</?([A-Za-z][A-Za-z0-9]*)(?:[\s/][^<>]*)?>")


def without_html(text: str) -> str:
    """Text without character references and tags of HTML; what only looks like a tag, such as "< 40 >", stays.

    >>> without_html("S&uuml;&szlig;es Kleid &amp; G&uuml;rtel <b>Gr&uuml;n</b>, size < 40 > 38")
    'Süßes Kleid & Gürtel Grün, size < 40 > 38'
    """
    plain = _TAG.sub(_space, _NOT_SHOWN.sub(" ", _ENTITY.sub(_character, text)))
    return text if plain == text else " ".join(plain.split())


def _character(reference: re.Match[str]) -> str:
    name = reference[1]
    return unescape(reference[0]) if name[0] == "#" or f"{name};" in html5 else reference[0]


def _space(tag: re.Match[str]) -> str:
    """What remains of a tag: a space for one that ends a line, and the whole of what is no tag of HTML."""
    name = tag[1].lower()
    if tag[1] == "S":  # a size
        return tag[0]
    return " " if _BLOCKS.fullmatch(name) else "" if _INLINE.fullmatch(name) else tag[0]
